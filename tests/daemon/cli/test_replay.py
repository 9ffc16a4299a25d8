"""`runward replay`: events as plain lines, as JSON, on a terminal, and in the older form."""

import json
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import screen
from tests.handlers.bundle.bundles import bundle

from runward.handlers.bundle.canonical import hash_of

LINES = [
    {"event": "SessionStart", "session_id": "s-1", "t": "2026-01-13T10:00:00Z"},
    {
        "event": "ToolCall",
        "id": "tc_1",
        "tool": "Bash",
        "params": {"command": "ls"},
        "t": "2026-01-13T10:00:01Z",
    },
    {
        "event": "ToolResult",
        "id": "tc_1",
        "output": {"content": "a.txt\n\x1b[2J"},
        "t": "2026-01-13T10:00:01.5Z",
    },
    {"event": "ToolCall", "id": "tc_2", "tool": "Read", "params": {}, "t": "2026-01-13T10:20:00Z"},
    {"event": "SessionEnd", "status": "Success", "t": "2026-01-13T10:20:01Z"},
]


@pytest.fixture
def replay(place: Place) -> Path:
    path = place.directory / "REPLAY.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def test_events_are_plain_lines_where_there_is_no_terminal(place: Place, replay: Path) -> None:
    shown = place.call("replay", str(replay), "--speed", "0.001")
    lines = shown.out.splitlines()
    assert len(lines) == len(LINES)
    assert lines[1] == '    1.000s  ToolCall tc_1 Bash {"command": "ls"}'
    assert "a.txt" in lines[2]
    assert "\x1b" not in shown.out
    assert place.call("replay", "show", str(replay)).out == shown.out
    assert place.call("replay", ".").out == shown.out


def test_json_is_each_event_whole_on_a_line(place: Place, replay: Path) -> None:
    shown = place.call("replay", str(replay), "--json").out.splitlines()
    assert [json.loads(line) for line in shown] == LINES


def test_a_bad_line_is_shown_in_its_place_and_the_rest_too(place: Place, replay: Path) -> None:
    with replay.open("a") as file:
        file.write('{"event": "To')
    assert "line 6: column 11: not JSON" in place.call("replay", str(replay)).out
    told = place.call("replay", str(replay), "--json")
    assert len(told.out.splitlines()) == len(LINES)
    assert "REPLAY.jsonl:6: " in told.err
    assert place.call("replay", "./nowhere.jsonl").code == 3


def test_a_terminal_steps_searches_jumps_and_pauses(place: Place, replay: Path) -> None:
    with screen(place, 24, 100, "replay", str(replay), "--step") as shown:
        shown.until("[paused, 0 of 5]")
        shown.press(b"s")
        assert "SessionStart s-1" in shown.until("[paused, 1 of 5]")
        shown.press(b"/")
        shown.until("search: ")
        shown.press(b"READ\n")
        assert "ToolCall tc_2 Read" in shown.until("[paused, 4 of 5]")
        shown.press(b"g")
        shown.until("go to line: ")
        shown.press(b"2\n")
        assert "ToolCall tc_1 Bash" in shown.until("[paused, 2 of 5]")
        shown.press(b"/")
        shown.until("search: ")
        shown.press(b"nowhere\n")
        shown.until("not found: nowhere")
        shown.press(b" ")
        shown.until("[playing, ")
        shown.press(b" ")
        shown.until("[paused, ")
        shown.press(b"q")
        assert shown.end() == 0


def test_a_terminal_plays_to_the_end_at_the_speed_that_is_asked_for(place: Place, replay: Path) -> None:
    with screen(place, 24, 100, "replay", str(replay), "--speed", "100000") as shown:
        assert "SessionEnd Success" in shown.until("[end, 5 of 5]")
        shown.press(b"s")
        assert shown.end() == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_becomes_an_older_bundle_and_the_same_replay_again(place: Place, seed: int) -> None:
    path = place.directory / "R.jsonl"
    path.write_bytes(bundle(seed).replay)
    assert place.call("replay", "convert", "R.jsonl", "--to", "bundle", "--output", "old.json").code == 0
    old = json.loads((place.directory / "old.json").read_text())
    assert (old["version"], old["id"]) == ("1.0", f"replay_{bundle(seed).fields['session_id']}")
    assert old["timeline"][0]["t"] == 0
    assert place.call("replay", "convert", "old.json", "--to", "jsonl", "--output", "new.jsonl").code == 0
    assert (place.directory / "new.jsonl").read_bytes() == path.read_bytes()


OLDER = {
    "version": "1.0",
    "id": "replay_sess_9",
    "created_at": "2026-01-13T10:00:00Z",
    "metadata": {"model": "x"},
    "timeline": [
        {"t": 0, "type": "phase_start", "data": {"phase": "planning"}},
        {"t": 100, "type": "tool_call", "tool": "Bash", "data": {"tool": "Bash", "input": {"command": "ls"}}},
        {"t": 350, "type": "tool_result", "tool": "Bash", "data": {"tool": "Bash", "output": "a.txt"}},
    ],
    "receipts": {},
}


def test_an_older_programs_bundle_becomes_a_replay_that_holds_together(place: Place) -> None:
    (place.directory / "old.json").write_text(json.dumps(OLDER))
    assert place.call("replay", "convert", "old.json", "--to", "jsonl", "--output", "new.jsonl").code == 0
    lines = [json.loads(line) for line in (place.directory / "new.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        "SessionStart",
        "phase_start",
        "ToolCall",
        "ToolResult",
        "SessionEnd",
    ]
    assert (lines[0]["session_id"], lines[2]["params"]) == ("sess_9", {"command": "ls"})
    assert (lines[2]["params_hash"], lines[3]["latency_ms"]) == (hash_of({"command": "ls"}), 250)
    assert lines[4]["status"] is None  # nobody told how it ended
    assert place.call("replay", "check", "./new.jsonl").code == 0


@pytest.mark.parametrize("text", ["[]", '{"version": "2"}', '{"version": "1.0", "timeline": [1]}', "{", ""])
def test_what_is_no_older_bundle_ends_with_2_and_writes_nothing(place: Place, text: str) -> None:
    (place.directory / "old.json").write_text(text)
    refused = place.call("replay", "convert", "old.json", "--to", "jsonl", "--output", "new.jsonl")
    assert refused.code == 2
    assert "is not an older replay bundle" in refused.err
    assert not (place.directory / "new.jsonl").exists()
