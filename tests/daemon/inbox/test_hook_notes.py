"""What hooks put into the inbox becomes an event, or nothing, or is told why not."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.hooks import runward_hook
from runward.daemon.inbox.requests import load_request
from runward.daemon.inbox.spool import InboxFile, list_inbox
from runward.handlers.model.sessions import HookSpoke

ID = "00391a7d-01ed-4b8a-934b-6cd5927bc522"
STOP = {"session_id": ID, "hook_event_name": "Stop", "cwd": "/src", "transcript_path": f"/p/{ID}.jsonl"}
BOOT = "5b1c1a06-fb49-4a4e-86f0-e95699571b7a"


def note(payload: object = STOP, **changed: Any) -> dict[str, Any]:
    content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    said: dict[str, Any] = {
        "hook": "claude-code",
        "version": 1,
        "at": 5.0,
        "boot_id": BOOT,
        "ancestors": [[7, 70], [1, 3]],
        "launcher_session": "night",
        "payload": b64encode(content).decode(),
    }
    return {**said, **changed}


def loaded(value: object) -> object:
    return load_request(InboxFile("a-name", "ann", json.dumps(value).encode()))


def test_a_note_is_what_its_hook_said_by_the_files_owner() -> None:
    assert loaded(note()) == HookSpoke(
        "a-name", 5.0, "claude-code", ID, "turn_ended", "/src", f"/p/{ID}.jsonl", None, None, BOOT,
        ((7, 70), (1, 3)), "night", "ann",
    )  # fmt: skip
    turn = {"type": "agent-turn-complete", "thread-id": ID}
    assert loaded(note(turn, hook="codex", launcher_session=None)) == HookSpoke(
        "a-name",
        5.0,
        "codex",
        ID,
        "turn_ended",
        boot_id=BOOT,
        ancestors=((7, 70), (7, 70), (1, 3)),
        said_by="ann",
    )


def test_what_the_script_puts_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNWARD_SESSION_ID", "night")
    runward_hook.put(str(tmp_path), runward_hook.note("claude-code", json.dumps(STOP).encode()))
    (file,) = list_inbox(tmp_path)
    event = load_request(file)
    assert isinstance(event, HookSpoke)
    assert (event.request, event.session_id, event.kind) == (file.name, ID, "turn_ended")
    assert list(map(list, event.ancestors)) == runward_hook.ancestors()
    assert event.launcher_session == "night"


def test_what_tells_nothing_of_a_session_is_no_event_and_no_mistake() -> None:
    assert loaded(note({**STOP, "hook_event_name": "SubagentStop"})) is None


@pytest.mark.parametrize(
    "value",
    [
        {"hook": None},
        {"hook": ["codex"]},
        {"hook": "gemini"},
        note(version=2),
        note(at=None),
        note(at=-1),
        note(at=1e300),
        note(at=True),
        note(payload=b"\xff"),
        note(payload=b"[]"),
        note(payload=b"[" * 100_000),
        note(payload=b"{" + b" " * 10),
        {**note(), "payload": None},
        {**note(), "payload": "no base 64!"},
        {**note(), "payload": "ä"},
        note({**STOP, "session_id": "../x"}),
        note({}),
    ],
)
def test_what_is_no_usable_note_is_told_why(value: object) -> None:
    why = loaded(value)
    assert isinstance(why, str)
    assert why


@pytest.mark.parametrize(
    "bad",
    [None, 7, "x", [7], [[7]], [["7", 1]], [[0, 1]], [[1 << 31, 1]], [[7, -1]], [[7, 1.5]], [[True, 1]]],
)
def test_ancestors_that_can_be_none_are_left_out(bad: object) -> None:
    event = loaded(note(ancestors=bad))
    assert isinstance(event, HookSpoke)
    assert event.ancestors == ()


@pytest.mark.parametrize("bad", [None, 7, "", "NO BOOT", "a" * 65])
def test_without_its_boot_a_process_is_nobody(bad: object) -> None:
    event = loaded(note(boot_id=bad))
    assert isinstance(event, HookSpoke)
    assert (event.boot_id, event.ancestors) == ("", ())


def test_no_more_ancestors_are_kept_than_the_script_gives() -> None:
    event = loaded(note(ancestors=[[7, 70]] * 1000))
    assert isinstance(event, HookSpoke)
    assert len(event.ancestors) == runward_hook.MOST_ANCESTORS


def test_a_text_with_half_a_character_is_made_whole() -> None:
    payload = b'{"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "x\\ud83d"}'
    event = loaded(note(payload))
    assert isinstance(event, HookSpoke)
    assert event.prompt == "x?"


anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.lists(st.integers())
)


@given(st.dictionaries(st.sampled_from(sorted(note())), anything), st.binary(max_size=40))
def test_whatever_a_note_holds_nothing_raises(changed: dict[str, Any], payload: bytes) -> None:
    said = loaded({**note(payload), **changed})
    assert said is None or isinstance(said, str | HookSpoke)
