"""`runward session export --format atif`: sessions of every layout as trajectories that evaluation tools read."""

import json
import os
import shutil
import stat
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import zstandard
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_session_bundle import add
from tests.handlers.bundle.atif import problems_of
from tests.handlers.layouts import (
    adjutant_lines,
    claude_code_lines,
    cline_lines,
    codex_lines,
    ctcp_lines,
    kimi_lines,
    lionagi_lines,
    pi_lines,
)
from tests.handlers.layouts.test_conversations import AGENTS

from runward.config.json_value import JsonValue, objects
from runward.handlers.layouts import native
from runward.handlers.layouts.conversation import ConversationLog
from runward.handlers.layouts.layout import DirectoryLayout
from runward.handlers.layouts.registry import LAYOUTS

KEY = "ghp_" + "a1B2" * 9


def _claude() -> bytes:
    transcript = claude_code_lines.Transcript()
    claude_code_lines.good_turn(transcript)
    return transcript.content()


def _lines(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _pi() -> bytes:
    log = pi_lines.Log().prompt(f"make a file with {KEY}").call(command=f"echo {KEY}").result().say()
    return _lines(log.lines())


def _path_in_home(name: str) -> str:
    agent, layout = AGENTS[name], LAYOUTS.named(name)
    above = "app/" * (layout.levels - 1) if isinstance(layout, DirectoryLayout) else ""
    log = "" if isinstance(agent.layout, ConversationLog) else f"/{agent.layout.LOGS[0]}"
    return f"{name}/{above}{agent.lines.NAME}{log}"


def _worked(name: str) -> bytes:
    log = AGENTS[name].lines.Log().prompt().call()
    return _lines(log.result(failed=name == "copilot").say().lines())


LOGS: Mapping[str, bytes] = {
    f"claude/-app/{claude_code_lines.SESSION}.jsonl": _claude(),
    f"codex/sessions/2026/rollout-2026-01-02T03-04-05-{codex_lines.THREAD}.jsonl": _lines(
        [each.content for each in codex_lines.tool().lines()]
    ),
    **{_path_in_home(name): _worked(name) for name in AGENTS},
    f"kimi/app/{kimi_lines.SESSION}/state.json": b"{}",
    f"pi/{pi_lines.NAME}": _pi(),
    "ctcp/run-7/RUN.json": json.dumps(ctcp_lines.run_json("pass")).encode(),
    "ctcp/run-7/events.jsonl": _lines([*ctcp_lines.beginning(), *ctcp_lines.verification(1, is_good=True)]),
    "adjutant/sess_7/REPLAY.jsonl": _lines(adjutant_lines.session("b")),
    f"lionagi/{lionagi_lines.RUN_ID}/run.json": json.dumps(lionagi_lines.run_json("completed")).encode(),
    f"lionagi/{lionagi_lines.RUN_ID}/branches/{lionagi_lines.OWN}.json": json.dumps(
        lionagi_lines.branch(lionagi_lines.OWN, [lionagi_lines.instruction(), lionagi_lines.response()])
    ).encode(),
    **{
        f"cline/{cline_lines.SESSION}/{each.name}": each.content
        for each in cline_lines.Log().prompt().call().result().say().documents("completed")
    },
    "show/play-1/_verdict.json": b'{"gate_passed": true}',
}
LAYOUT_OF = {"claude": "claude-code"}
"""The layout of a root, if it isn't called so."""

ROOTS = tuple(dict.fromkeys(name.partition("/")[0] for name in LOGS))
WITHOUT_STEPS = ("show", "lionagi")
"""A play says nothing of calls, and this run made none."""


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A session of each layout."""
    place = Place(tmp_path_factory.mktemp("worked"))
    place.furnish()
    add(place, "native", "1 failed", "4 passed in 0.1s")
    place.add_run("running")
    old = time.time() - 100
    for name, content in LOGS.items():
        path = place.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (old, old))
    settings = place.directory / "runward.toml"
    text = f'[[roots]]\nname = "runs"\npath = "{place.runs}"\nlayout = "native"\n' + "".join(
        f'[[roots]]\nname = "{root}"\npath = "{root}"\nlayout = "{LAYOUT_OF.get(root, root)}"\n'
        for root in ROOTS
    )
    settings.write_text(settings.read_text() + text)
    place.daemon_once()
    return place


def _id_of(place: Place, layout: str) -> str:
    sessions = place.call("session", "list", "--json", "--limit", "0").objects()
    (found,) = [
        str(each["key"]) for each in sessions if each["layout"] == layout and each["status"] != "running"
    ]
    return found


def exported(place: Place, layout: str) -> dict[str, JsonValue]:
    told = place.call("session", "export", _id_of(place, layout), "--format", "atif")
    assert (told.code, told.err) == (0, "")
    trajectory = told.object()
    assert problems_of(trajectory) == []
    return trajectory


@pytest.mark.parametrize("layout", [*(LAYOUT_OF.get(root, root) for root in ROOTS), native.LAYOUT])
def test_a_session_of_each_layout_is_a_valid_trajectory(worked: Place, layout: str) -> None:
    if layout in WITHOUT_STEPS:
        told = worked.call("session", "export", _id_of(worked, layout), "--format", "atif")
        assert (told.code, told.out) == (1, "")
        assert "has no messages and no calls to export" in told.err
        return
    trajectory = exported(worked, layout)
    steps = objects(trajectory["steps"])
    sums = trajectory["final_metrics"]
    assert isinstance(sums, dict)
    assert sums["total_steps"] == len(steps)
    assert any("tool_calls" in each for each in steps) or layout == "claude-code"
    extra = trajectory["extra"]
    assert isinstance(extra, dict)
    assert (extra["layout"], extra["status"]) == (layout, "completed")


def test_a_conversation_is_told_in_its_order_with_calls_results_tokens_and_the_agents_own_cost(
    worked: Place,
) -> None:
    trajectory = exported(worked, "pi")
    assert trajectory["session_id"] == pi_lines.SESSION
    assert trajectory["agent"] == {"name": "pi", "version": "unknown", "model_name": "mock-model"}
    steps = objects(trajectory["steps"])
    assert [(each["source"], each["message"]) for each in steps] == [
        ("system", "You are pi."),
        ("user", "make a file with [redacted]"),
        ("agent", ""),
        ("agent", "Done."),
    ]
    assert steps[2]["tool_calls"] == [
        {
            "tool_call_id": "call_1",
            "function_name": "bash",
            "arguments": {"command": "echo [redacted]"},
            "extra": {"redacted": ["/arguments/command"]},
        }
    ]
    assert steps[2]["observation"] == {"results": [{"source_call_id": "call_1", "content": "fine"}]}
    assert steps[2]["metrics"] == {"extra": {"total_tokens": 110}}
    assert trajectory["final_metrics"] == {
        "total_prompt_tokens": 200,
        "total_completion_tokens": 20,
        "total_cached_tokens": 80,
        "total_cost_usd": 0.00016,
        "total_steps": 4,
    }


def test_list_prices_are_no_cost(worked: Place) -> None:
    for layout in ("claude-code", "codex", "qwen", "copilot"):
        sums = exported(worked, layout)["final_metrics"]
        assert isinstance(sums, dict)
        assert "total_cost_usd" not in sums
        assert sums["total_prompt_tokens"]


def test_a_session_in_a_directory_has_its_texts_too(worked: Place) -> None:
    steps = objects(exported(worked, "copilot")["steps"])
    assert [each["message"] for each in steps] == ["You are Copilot.", "make a file", "", "Done."]
    observation = steps[2]["observation"]
    assert isinstance(observation, dict)
    (result,) = objects(observation["results"])
    assert result["extra"] == {"success": False}


def test_the_texts_of_a_document_are_in_the_order_of_its_calls(worked: Place) -> None:
    steps = objects(exported(worked, "cline")["steps"])
    assert [(each["source"], each["message"], "observation" in each) for each in steps] == [
        ("user", "make a file", False),
        ("agent", "", True),
        ("agent", "Done.", False),
    ]


def test_a_session_that_is_a_document_without_calls_has_a_trajectory(place: Place) -> None:
    directory = place.directory / "cline" / cline_lines.SESSION
    directory.mkdir(parents=True)
    session, messages = cline_lines.Log().prompt().say().documents("completed")
    (directory / session.name).write_bytes(session.content)
    (directory / messages.name).write_text(json.dumps(json.loads(messages.content), indent=2))
    settings = place.directory / "runward.toml"
    settings.write_text(
        f'{settings.read_text()}[[roots]]\nname = "cline"\npath = "cline"\nlayout = "cline"\n'
    )
    place.daemon_once()
    steps = objects(exported(place, "cline")["steps"])
    assert [each["message"] for each in steps] == ["make a file", "Done."]


def test_a_native_run_has_the_calls_of_its_trace(worked: Place) -> None:
    trajectory = exported(worked, "native")
    assert trajectory["agent"] == {"name": "native", "version": "unknown"}
    contents = [
        result["content"]
        for each in objects(trajectory["steps"])
        if isinstance(observation := each["observation"], dict)
        for result in objects(observation["results"])
    ]
    assert contents == ["1 failed", "4 passed in 0.1s"]


def test_a_recording_is_a_valid_trajectory(place: Place, material: Path) -> None:
    """Those of which there is one."""
    homes = {
        "claude-code": ("claude-code/tool.jsonl", "-app/00391a7d-01ed-4b8a-934b-6cd5927bc522.jsonl"),
        "codex": ("codex/rollout-tool.jsonl", "rollout-tool-01a1fd0a-54e7-7290-883d-4a336c7e24d9.jsonl"),
        "pi": ("pi/tool/.pi/agent/sessions", "sessions"),
        "qwen": ("qwen-code/tool/.qwen/projects", "projects"),
        "copilot": ("copilot-cli/tool/.copilot/session-state", "."),
        "lionagi": ("lionagi/run_completed", "20261121T075401-0f5cc0"),
        "ctcp": ("ctcp-run-pass", "run-pass"),
    }
    settings = place.directory / "runward.toml"
    for layout, (source, target) in homes.items():
        at = place.directory / layout / target
        if (material / "samples" / source).is_dir():
            shutil.copytree(material / "samples" / source, at, dirs_exist_ok=True)
        else:
            at.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(material / "samples" / source, at)
        settings.write_text(
            f'{settings.read_text()}[[roots]]\nname = "{layout}"\npath = "{layout}"\nlayout = "{layout}"\n'
        )
    place.daemon_once()
    for layout in homes:
        if layout != "lionagi":
            steps = objects(exported(place, layout)["steps"])
            assert any("observation" in each for each in steps), layout


def test_a_file_is_written_as_a_whole_and_is_its_owners_alone(worked: Place, tmp_path: Path) -> None:
    file = tmp_path / "trajectory.json"
    file.write_text("before")
    file.chmod(0o644)
    pi = _id_of(worked, "pi")
    told = worked.call("session", "export", pi, "--format", "atif", "--output", str(file))
    assert (told.code, told.out, told.err) == (0, "", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == worked.call("session", "export", pi, "--format", "atif", "--output", "-").out
    assert os.listdir(tmp_path) == ["trajectory.json"]


def test_what_can_not_be_written_leaves_what_was_there(worked: Place, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    file = tmp_path / "before"
    file.write_text("before")
    pi, running = _id_of(worked, "pi"), "running"
    for identifier, name, code, why in (
        (pi, "directory", 2, "is not a regular file"),
        (pi, "link", 2, "is not a regular file"),
        (pi, "nowhere/file", 2, "there is no such directory"),
        (_id_of(worked, "show"), "before", 1, "has no messages and no calls to export"),
        (running, "before", 1, "is still running"),
    ):
        output = str(tmp_path / name)
        told = worked.call("session", "export", identifier, "--format", "atif", "--output", output)
        assert (told.code, told.out) == (code, "")
        assert why in told.err
    assert sorted(os.listdir(tmp_path)) == ["before", "directory", "link"]
    assert file.read_text() == "before"


def test_options_of_a_bundle_are_refused_and_a_bundle_needs_its_directory(worked: Place) -> None:
    for option in (("--force",), ("--json",), ("--attempt", "1")):
        told = worked.call("session", "export", "native", "--format", "atif", *option)
        assert told.code == 2
        assert "are for a bundle" in told.err
    told = worked.call("session", "export", "native")
    assert told.code == 2
    assert "'--output'" in told.err
    assert worked.call("session", "export", "nobody", "--format", "atif").code == 3


def test_a_packed_log_is_read_and_what_is_gone_is_said(place: Place) -> None:
    settings = place.directory / "runward.toml"
    settings.write_text(f'{settings.read_text()}[[roots]]\nname = "pi"\npath = "pi"\nlayout = "pi"\n')
    path = place.directory / "pi" / pi_lines.NAME
    path.parent.mkdir()
    path.write_bytes(_pi())
    place.daemon_once()
    plain = exported(place, "pi")
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.compress(_pi()))
    path.unlink()
    assert exported(place, "pi") == plain
    packed.unlink()
    told = place.call("session", "export", pi_lines.SESSION, "--format", "atif")
    assert (told.code, told.out) == (1, "")
    assert f"to export: Not complete: {pi_lines.NAME}: is gone" in told.err


def test_lines_that_can_not_be_read_are_named_in_the_trajectory(place: Place) -> None:
    run = add(place, "torn", "4 passed in 0.1s")
    place.daemon_once()
    with (run / "trace.jsonl").open("a") as trace:
        trace.write("no JSON\n")
    notes = exported(place, "native")["notes"]
    assert isinstance(notes, str)
    assert notes.startswith("Not complete: line 4 of trace.jsonl: ")
