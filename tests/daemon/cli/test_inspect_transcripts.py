"""`runward inspect` on foreign sessions: what it finds, and what it says of each."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import zstandard
from tests.daemon.cli.calling import Place
from tests.daemon.writers import held, kill
from tests.handlers.layouts.tiny import END, ERROR, begin, layouts

from runward.config.json_value import JsonValue
from runward.daemon.processes.proc import identity_of
from runward.handlers.layouts import registry

THREAD = "01a1fd0a-53a7-7c50-98f9-4e09b80d7c4f"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layouts of these tests instead of the real ones."""
    monkeypatch.setattr(registry, "LAYOUTS", layouts())


def log(path: Path, *records: dict[str, JsonValue], age: float = 100.0) -> Path:
    """A transcript that last changed `age` seconds ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    path.write_bytes(zstandard.compress(content) if path.suffix == ".zst" else content)
    os.utime(path, (time.time() - age,) * 2)
    return path


def transcript(place: Place, *records: dict[str, JsonValue], name: str = "s") -> Path:
    return log(place.directory / f".claude/projects/-app/{name}.jsonl", *records)


def inspect(place: Place, path: Path) -> dict[str, JsonValue]:
    (session,) = place.call("inspect", str(path), "--json").objects()
    return session


def verdict(place: Place, path: Path) -> tuple[JsonValue, ...]:
    session = inspect(place, path)
    return session["state"], session["evidence"], session["reason_code"], session["activity"]


def pid_file(place: Place, process: subprocess.Popen[bytes], **further: JsonValue) -> None:
    directory = place.directory / ".claude/sessions"
    directory.mkdir(exist_ok=True)
    ticks = str(identity_of(process.pid).start_ticks)
    said = {"pid": process.pid, "sessionId": "s", "procStart": ticks, **further}
    (directory / f"{process.pid}.json").write_text(json.dumps(said))


def test_a_transcript_that_tells_its_end_is_told_with_the_promised_keys(place: Place) -> None:
    path = transcript(place, begin(), {"work": True}, END)
    assert inspect(place, path) == {
        "layout": "claude-code",
        "session_id": "s",
        "state": "completed",
        "evidence": "declared",
        "idle_s": None,
        "reason_code": "run.completed.ok",
        "started_at": "1970-01-01T00:00:10.000Z",
        "finished_at": "1970-01-01T00:00:15.000Z",
        "agent": None,
        "model": None,
        "cwd": None,
        "path": str(path),
        "parent_session_id": None,
        "attempt": 1,
        "activity": None,
        "counts": {"events": 3, "tool_calls": 0, "errors": 0, "subagents": 0},
        "usage": None,
        "problems": [],
    }


def test_a_session_that_was_resumed_started_when_its_first_attempt_did(place: Place) -> None:
    path = transcript(place, begin(), END, begin(at=100.0, attempt=2), END)
    session = inspect(place, path)
    assert (session["attempt"], session["started_at"]) == (2, "1970-01-01T00:00:10.000Z")


def test_an_open_turn_is_running_while_its_process_lives_and_aborted_when_it_was_killed(
    place: Place, process: subprocess.Popen[bytes]
) -> None:
    path = transcript(place, begin(), {"work": True})
    assert verdict(place, path) == ("unknown", None, "run.unknown.open_turn", None)
    pid_file(place, process)
    assert verdict(place, path) == ("running", None, "run.started.ok", "active")
    kill(process)
    assert verdict(place, path) == ("aborted", "process_gone", "run.aborted.process_gone", None)


def test_an_interactive_session_is_idle_until_its_process_is_gone(
    place: Place, process: subprocess.Popen[bytes]
) -> None:
    path = transcript(place, begin(headless=False), END)
    assert verdict(place, path) == ("unknown", None, "run.unknown.no_process", None)
    pid_file(place, process)
    assert verdict(place, path) == ("running", None, "run.started.ok", "idle")
    kill(process)
    assert verdict(place, path) == ("completed", "process_gone", "run.completed.ok", None)


def test_a_session_whose_process_asks_for_leave_waits(place: Place, process: subprocess.Popen[bytes]) -> None:
    path = transcript(place, begin(headless=False), {"work": True})
    pid_file(place, process, status="waiting")
    assert verdict(place, path) == ("running", None, "run.started.ok", "waiting")


def test_a_session_that_goes_on_says_how_long_it_was_silent(place: Place) -> None:
    idle = inspect(place, transcript(place, begin()))["idle_s"]
    assert isinstance(idle, float)
    assert 99 < idle < 300
    assert inspect(place, transcript(place, begin(), ERROR))["idle_s"] is None


def test_a_writers_lock_tells_whether_its_thread_runs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "LAYOUTS", layouts("codex"))
    home = place.directory / ".codex"
    path = log(home / f"sessions/2026/11/21/{THREAD}.jsonl", begin())
    lock = home / f"thread-writer-locks/{THREAD}.lock"
    lock.parent.mkdir()
    lock.touch()
    with held(lock):
        assert verdict(place, path) == ("running", None, "run.started.ok", "active")
    assert verdict(place, path) == ("aborted", "process_gone", "run.aborted.process_gone", None)
    lock.unlink()
    assert verdict(place, path) == ("unknown", None, "run.unknown.open_turn", None)


def test_a_run_directory_that_names_no_process_and_only_says_running_is_unknown(place: Place) -> None:
    run = place.directory / "run"
    run.mkdir()
    (run / "status.json").write_text('{"tool": "tiny"}')
    log(run / "events.jsonl", begin())
    assert verdict(place, run) == ("unknown", None, "run.unknown.no_process", None)
    (run / "status.json").write_text('{"tool": "tiny", "status": "done"}')
    assert verdict(place, run) == ("completed", "declared", "run.completed.ok", None)


def test_everything_under_a_directory_is_listed_in_order_and_sub_agents_never_are(place: Place) -> None:
    for name in ("b", "a"):
        transcript(place, begin(), name=name)
    transcript(place, begin(of="a"), name="a/subagents/agent-1")
    transcript(place, begin(of="gone"), name="gone/subagents/agent-2")
    place.add_run("native", exit_code=0)
    listed = place.call("inspect", str(place.directory / ".claude"), "--json").objects()
    assert [each["session_id"] for each in listed] == ["a", "b"]
    told = place.call("inspect", str(place.directory), "--json").objects()
    assert [each["layout"] for each in told] == ["native"]


def test_a_sub_agents_transcript_alone_is_no_session(place: Place) -> None:
    told = place.call("inspect", str(transcript(place, begin(of="a"))), "--json")
    assert (told.code, told.json()) == (1, [])


@pytest.mark.parametrize("archived", ["s.jsonl.zst", "archived/s.jsonl.zst", "archived/s.jsonl"])
def test_a_session_that_lies_in_two_places_is_one_and_the_plain_or_later_one_counts(
    place: Place, archived: str
) -> None:
    path = transcript(place, begin(), END, {"work": True, "at": 30.0})
    log(path.parent / archived, begin(), END)
    assert inspect(place, path.parent)["path"] == str(path)
    log(path.parent / archived, begin(), END, {"work": True, "at": 40.0})
    assert inspect(place, path.parent)["path"] == str(path.parent / archived)


def test_a_transcript_that_is_packed_or_moved_is_the_same_session(place: Place) -> None:
    path = transcript(place, begin(id="its id"), END)
    session = inspect(place, path)
    packed = log(place.directory / "elsewhere/other.jsonl.zst", begin(id="its id"), END)
    assert inspect(place, packed) == {**session, "path": str(packed)}


def test_native_runs_with_one_id_are_two_runs(place: Place) -> None:
    place.add_run("a", session_id="same")
    place.add_run("b", session_id="same")
    assert len(place.call("inspect", str(place.runs), "--json").objects()) == 2


def test_one_layout_can_be_asked_for(place: Place) -> None:
    transcript(place, begin())
    place.add_run("native")
    (place.directory / "all").mkdir()
    (place.directory / ".claude").rename(place.directory / "all/claude")
    place.runs.rename(place.directory / "all/runs")
    everything = str(place.directory / "all")
    for layout, count in (("auto", 2), ("native", 1), ("claude-code", 1)):
        assert len(place.call("inspect", everything, "--json", "--layout", layout).objects()) == count
    told = place.call("inspect", everything, "--json", "--layout", "ctcp")
    assert (told.code, told.json()) == (1, [])
    assert told.err.count("\n") == 1
    assert "ctcp" in told.err


@pytest.mark.parametrize("name", ["ok.stream.jsonl", "ok.exec.jsonl"])
def test_what_a_program_printed_is_in_no_layout_and_it_is_said(place: Place, name: str) -> None:
    path = place.directory / name
    path.write_text('{"type": "system", "subtype": "init"}\n')
    told = place.call("inspect", str(path), "--json")
    assert (told.code, told.json()) == (1, [])
    assert told.err.count("\n") == 1


def test_lines_that_cannot_be_read_are_problems_and_those_that_are_not_named_are_counted(
    place: Place,
) -> None:
    path = transcript(place, begin())
    with path.open("ab") as file:
        file.write(b'no\n{"torn\nno\nno\n')
    assert inspect(place, path)["problems"] == [
        {"line": 2, "message": "no record"},
        {"line": 3, "message": "no record"},
        {"line": None, "message": "2 further lines can't be read"},
    ]


def test_a_file_that_cannot_be_read_is_a_problem_of_its_session_and_ends_nothing(place: Place) -> None:
    path = transcript(place, begin(), name="known-s")
    (path.parent / "known-damaged.jsonl.zst").write_bytes(b"no zstd")
    damaged, good = place.call("inspect", str(path.parent), "--json").objects()
    assert (damaged["session_id"], damaged["state"]) == ("known-damaged", "unknown")
    (problem,) = damaged["problems"] if isinstance(damaged["problems"], list) else []
    assert "can't be unpacked" in str(problem)
    assert good["problems"] == []


def test_people_see_what_was_counted(place: Place) -> None:
    shown = place.call("inspect", str(transcript(place, begin(headless=False), {"work": True}))).out
    assert "State:     unknown (run.unknown.open_turn)" in shown
    assert "Counted:   2 events, 0 tool calls, 0 errors, 0 subagents" in shown
