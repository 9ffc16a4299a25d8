"""Payloads of agents' hooks: what is taken from them, and that nothing in them is believed to have its kind."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.handlers.layouts import hooks
from runward.handlers.layouts.foreign_values import LONGEST_PATH
from runward.handlers.layouts.hooks import HookSaid
from runward.handlers.layouts.transcript import PROMPT_KEPT

ID = "00391a7d-01ed-4b8a-934b-6cd5927bc522"
PATH = f"/home/dev/.claude/projects/-home-dev-app/{ID}.jsonl"
COMMON: dict[str, JsonValue] = {"session_id": ID, "transcript_path": PATH, "cwd": "/home/dev/app"}
TURN: dict[str, JsonValue] = {
    "type": "agent-turn-complete",
    "thread-id": ID,
    "turn-id": "1",
    "cwd": "/home/dev/app",
    "input-messages": ["fix it"],
    "last-assistant-message": "done",
}


@pytest.mark.parametrize(
    ("name", "kind", "more"),
    [
        ("SessionStart", "started", {"source": "startup"}),
        ("UserPromptSubmit", "prompted", {"prompt": "fix it"}),
        ("Stop", "turn_ended", {"last_assistant_message": "done", "prompt": "no prompt of now"}),
        ("StopFailure", "turn_failed", {"error": "x"}),
        ("SessionEnd", "ended", {"reason": "other", "source": "no start"}),
    ],
)
def test_each_of_claude_codes_hooks_is_read(name: str, kind: str, more: dict[str, JsonValue]) -> None:
    said = hooks.read_claude_code_hook({**COMMON, "hook_event_name": name, **more})
    assert isinstance(said, HookSaid)
    assert (said.session_id, said.kind) == (ID, kind)
    assert (said.cwd, said.transcript_path) == ("/home/dev/app", PATH)
    assert said.prompt == ("fix it" if kind == "prompted" else None)
    assert said.source == ("startup" if kind == "started" else None)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("started", {"source": "new", "initialPrompt": "fix it"}),
        ("prompted", {"prompt": "fix it"}),
        ("turn_ended", {"stopReason": "end_turn", "transcriptPath": PATH}),
        ("ended", {"reason": "complete"}),
    ],
)
def test_each_of_copilots_hooks_is_told_by_its_fields(kind: str, more: dict[str, JsonValue]) -> None:
    said = hooks.read_copilot_hook({"sessionId": ID, "timestamp": 1, "cwd": "/home/dev/app", **more})
    assert isinstance(said, HookSaid)
    assert (said.session_id, said.kind, said.cwd) == (ID, kind, "/home/dev/app")
    assert said.transcript_path == more.get("transcriptPath")
    assert said.prompt == ("fix it" if kind == "prompted" else None)
    assert said.source == ("new" if kind == "started" else None)
    assert "no usable sessionId" in str(hooks.read_copilot_hook({**more, "sessionId": "../x"}))


@pytest.mark.parametrize(
    ("prompt", "read"),
    [
        ([{"type": "text", "text": "fix"}, {"type": "image"}, {"type": "text", "text": "it"}], "fix\nit"),
        ([{"type": "image"}, 7, {"text": ["x"]}], None),
        ({"text": "x"}, None),
    ],
)
def test_a_prompt_of_kimi_code_is_the_texts_among_its_parts(prompt: JsonValue, read: str | None) -> None:
    session, event = f"session_{ID}", "UserPromptSubmit"
    said = hooks.read_kimi_hook(
        {"session_id": session, "hook_event_name": event, "cwd": "/w", "prompt": prompt}
    )
    assert said == HookSaid(session, "prompted", "/w", None, read)


def test_a_module_of_runwards_speaks_as_claude_code_and_calls_the_script_itself() -> None:
    said = hooks.read_module({**COMMON, "hook_event_name": "SessionEnd"})
    assert said == HookSaid(ID, "ended", "/home/dev/app", PATH, is_direct=True)
    assert hooks.read_module({**COMMON, "hook_event_name": "Other"}) is None


def test_codex_tells_of_a_good_turn() -> None:
    assert hooks.read_codex_hook(TURN) == HookSaid(ID, "turn_ended", "/home/dev/app", is_direct=True)


def test_codexs_hooks_are_read_besides_its_notify() -> None:
    said = hooks.read_codex_hook({**COMMON, "hook_event_name": "UserPromptSubmit", "prompt": "fix it"})
    assert said == HookSaid(ID, "prompted", "/home/dev/app", PATH, "fix it")


@pytest.mark.parametrize(
    "name", ["SubagentStop", "SubagentStart", "PreToolUse", "Notification", "NoSuchHook"]
)
def test_what_tells_nothing_of_a_session_is_passed_over(name: str) -> None:
    assert hooks.read_claude_code_hook({**COMMON, "hook_event_name": name}) is None
    assert hooks.read_codex_hook({**TURN, "type": name}) is None
    assert hooks.read_copilot_hook({"sessionId": ID, "toolName": name}) is None


@pytest.mark.parametrize("name", ["UserPromptSubmit", "Stop", "SessionEnd"])
def test_what_a_sub_agent_does_is_not_the_sessions(name: str) -> None:
    """Both programs name the origin's session in it, Codex since 0.169."""
    said: dict[str, JsonValue] = {**COMMON, "hook_event_name": name, "prompt": "do it", "agent_id": "a1"}
    assert hooks.read_claude_code_hook(said) is None
    assert hooks.read_codex_hook(said) is None


@pytest.mark.parametrize("bad", [None, 7, "", [], "a/b", "../x", "a b", "x" * 129, ".hidden", "a\n", "a:b"])
def test_a_session_without_a_usable_id_is_told_why(bad: JsonValue) -> None:
    assert "no usable session_id" in str(
        hooks.read_claude_code_hook({**COMMON, "hook_event_name": "Stop", "session_id": bad})
    )
    assert "no usable thread-id" in str(hooks.read_codex_hook({**TURN, "thread-id": bad}))


@pytest.mark.parametrize("bad", [None, 7, "", [], {}])
def test_a_payload_of_nothing_is_told_why(bad: JsonValue) -> None:
    assert isinstance(hooks.read_claude_code_hook({**COMMON, "hook_event_name": bad}), str)
    assert isinstance(hooks.read_codex_hook({**TURN, "type": bad}), str)


@pytest.mark.parametrize("bad", [None, 7, "", "relative", "/a\0b", "/" + "x" * LONGEST_PATH, ["/a"]])
def test_a_path_that_is_none_is_left_out(bad: JsonValue) -> None:
    said = hooks.read_claude_code_hook(
        {**COMMON, "hook_event_name": "Stop", "cwd": bad, "transcript_path": bad}
    )
    assert isinstance(said, HookSaid)
    assert (said.cwd, said.transcript_path) == (None, None)


def test_a_prompt_is_clipped_and_made_whole() -> None:
    prompt = "\ud83d" + "ä" * 5000
    said = hooks.read_claude_code_hook({**COMMON, "hook_event_name": "UserPromptSubmit", "prompt": prompt})
    assert isinstance(said, HookSaid)
    assert said.prompt == "?" + "ä" * (PROMPT_KEPT - 1)


def test_a_path_is_kept_without_what_leads_back_in_it() -> None:
    said = hooks.read_codex_hook({**TURN, "cwd": "/a/../b//./c/"})
    assert isinstance(said, HookSaid)
    assert said.cwd == "/b/c"


def test_the_recorded_payloads_are_read() -> None:
    material = os.environ.get("RUNWARD_TEST_MATERIAL")
    if not material:
        pytest.skip("RUNWARD_TEST_MATERIAL names no recordings")
    recorded = Path(material) / "samples" / "claude-code" / "hooks"
    kinds = {}
    for path in sorted(recorded.glob("*.json")):
        said = hooks.read_claude_code_hook(json.loads(path.read_text()))
        kinds[path.stem] = said.kind if isinstance(said, HookSaid) else said
    assert kinds == {
        "PostToolUse": None,
        "PreToolUse": None,
        "SessionEnd": "ended",
        "SessionStart": "started",
        "Stop": "turn_ended",
        "UserPromptSubmit": "prompted",
    }


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
RECORDED = {
    "copilot-cli": ("copilot", {"started": 3, "prompted": 3, "turn_ended": 1, "ended": 3, None: 2}),
    "droid": ("droid", {"started": 3, "turn_ended": 3, "ended": 3}),
    "qwen-code": ("qwen", {"started": 3, "prompted": 4, "turn_ended": 1}),
}


@pytest.mark.parametrize("recording", RECORDED)
def test_the_recorded_payloads_of_further_agents_are_read(recording: str) -> None:
    material = os.environ.get("RUNWARD_TEST_MATERIAL")
    if not material:
        pytest.skip("RUNWARD_TEST_MATERIAL names no recordings")
    agent, expected = RECORDED[recording]
    kinds: Counter[str | None] = Counter()
    for path in sorted((Path(material) / "samples" / recording / "hook-payloads").glob("*.json")):
        said = hooks.HOOKS[agent](json.loads(path.read_text()))
        kinds[said.kind if isinstance(said, HookSaid) else said] += 1
    assert kinds == expected


NAMES = ["hook_event_name", "session_id", "transcript_path", "cwd", "prompt", "source", "agent_id"]


@given(
    st.dictionaries(
        st.sampled_from([*NAMES, *TURN, "sessionId", "transcriptPath", "stopReason"]),
        anything | st.sampled_from(["Stop", "UserPromptSubmit", "agent-turn-complete", ID, PATH]),
    )
)
def test_whatever_a_payload_holds_it_is_read_passed_over_or_told_why(payload: dict[str, JsonValue]) -> None:
    for each in hooks.HOOKS.values():
        said = each(payload)
        assert said is None or isinstance(said, str | HookSaid)
        if isinstance(said, HookSaid):
            json.dumps(said, ensure_ascii=False).encode()
