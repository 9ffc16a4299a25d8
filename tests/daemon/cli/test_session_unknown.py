"""A session that may or may not be running: no command says that it is at work."""

import json
import os
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.daemon.cli.calling import SETTINGS, Place
from tests.handlers.layouts import codex_lines, opencode_rows
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript
from tests.waiting import wait_for

from runward.daemon.processes.proc import identity_of
from runward.handlers.sessions.observe import Watched

_ROOTS = """
[[roots]]
name = "claude"
path = ".claude/projects"
layout = "claude-code"
history = "live"

[[roots]]
name = "codex"
path = ".codex"
layout = "codex"
history = "live"

[[roots]]
name = "opencode"
path = ".opencode"
layout = "opencode"
history = "live"
"""
_SILENT_S = 100.0
"""Not longer than any machine runs: what was written before it was started has no process on it."""


@pytest.fixture
def agents(place: Place) -> Place:
    """A place whose roots are those of Claude Code, Codex and opencode."""
    (place.directory / "runward.toml").write_text(SETTINGS + _ROOTS)
    for path in (".claude/projects/-app", ".codex/sessions/2026/11/21", ".opencode"):
        (place.directory / path).mkdir(parents=True)
    return place


def _claude_code(place: Place) -> str:
    transcript = Transcript(now=time.time() - _SILENT_S)
    transcript.prompt("fix it")
    return _written(place, f".claude/projects/-app/{SESSION}.jsonl", transcript.content(), SESSION)


def _codex(place: Place) -> str:
    lines = [line.content for line in codex_lines.ok().lines()]
    opened = next(number for number, line in enumerate(lines) if b"task_started" in line)
    content = b"".join(line + b"\n" for line in lines[: opened + 1])
    return _written(place, f".codex/sessions/2026/11/21/{codex_lines.NAME}", content, codex_lines.THREAD)


def _opencode(place: Place) -> str:
    with closing(opencode_rows.made(place.directory / ".opencode/opencode.db")) as connection:
        sessions = opencode_rows.Sessions(connection)
        sessions.clock = int((time.time() - _SILENT_S) * 1000)
        sessions.session().prompt()
    place.daemon_once()
    return opencode_rows.SESSION


def _written(place: Place, name: str, content: bytes, session: str) -> str:
    path = place.directory / name
    path.write_bytes(content)
    os.utime(path, (time.time() - _SILENT_S,) * 2)
    place.daemon_once()
    return session


@pytest.mark.parametrize(
    ("layout", "write"), [("claude-code", _claude_code), ("codex", _codex), ("opencode", _opencode)]
)
def test_an_open_transcript_whose_process_nobody_names_is_not_said_to_be_active(
    agents: Place, layout: str, write: object
) -> None:
    assert callable(write)
    session = write(agents)
    found = agents.call("session", "show", session, "--json").object()
    (listed,) = agents.call("session", "list", "--json").objects()
    assert (found["status"], found["activity"], listed["activity"]) == ("running", None, None)
    shown = agents.call("session", "show", session).out
    assert (
        "Activity:  unknown: it is not known whether it still runs; nothing has been heard since 20" in shown
    )
    assert "(1m ago)" in shown
    assert "`stale_after` of its root ends such a session after a silence" in shown
    assert f"`runward hook install {layout}`" in shown
    (obstacle,) = agents.call("why", session, "--json").items("not_done")
    assert str(obstacle["why"]).startswith(
        "its turn is open, and it is not known whether its process is still there; it has been silent for 1m "
    )
    assert "`stale_after` of its root" in str(obstacle["fix"])
    table = agents.call("session", "list")
    assert table.out.splitlines()[1].split()[:3] == [session, "running?", "run.started.ok"]
    assert "silent 1m " in table.out
    assert "running?: it is not known whether it still runs" in table.err
    (line,) = [line for line in agents.call("status").out.splitlines() if line.startswith(f"  {session}")]
    assert line.endswith("  it is not known whether it still runs")


def test_a_record_that_is_yet_to_come_hides_no_silence(agents: Place) -> None:
    transcript = Transcript(now=time.time() + 300 * 365 * 24 * 3600)
    transcript.prompt("fix it")
    session = _written(agents, f".claude/projects/-app/{SESSION}.jsonl", transcript.content(), SESSION)
    assert "silent 1m " in agents.call("session", "list").out
    assert "(1m ago)" in agents.call("session", "show", session).out


def test_a_native_run_that_names_no_process_is_not_said_to_be_active(recorded: Place) -> None:
    assert recorded.call("session", "show", "open", "--json").object()["activity"] is None
    shown = recorded.call("session", "show", "open").out
    assert "unknown: it is not known whether it still runs; nothing has been heard since" in shown
    assert "write its exit.json" in shown
    assert "running?" in recorded.call("session", "list", "--status", "running").out


def test_a_native_run_whose_process_is_known_is_active(place: Place) -> None:
    launcher = subprocess.Popen(["sleep", "60"])
    try:
        place.add_run("busy", launcher=dict(identity_of(launcher.pid)._asdict()), host=os.uname().nodename)
        place.add_run("late")
        named = json.dumps(dict(identity_of(launcher.pid)._asdict()))
        Path(place.runs, "late/process.json").write_text(named)
        place.daemon_once()
        for run in ("busy", "late"):
            assert place.call("session", "show", run, "--json").object()["activity"] == "active"
        assert "?" not in place.call("session", "list").out
        assert "nobody can tell" not in place.call("status").out
    finally:
        launcher.kill()
        launcher.wait()


def test_a_run_that_was_launched_is_active_while_it_runs(place: Place) -> None:
    with place.start("run", "--", "sleep", "60") as launched:
        try:
            wait_for(lambda: any(place.runs.glob("*/process.json")), "the run to begin")
            place.daemon_once()
            (listed,) = place.call("session", "list", "--json").objects()
            assert (listed["status"], listed["activity"]) == ("running", "active")
            assert "nobody can tell" not in place.call("status").out
        finally:
            launched.terminate()


def test_a_native_run_on_another_host_is_not_said_to_be_active(place: Place) -> None:
    place.add_run("far", launcher=dict(identity_of(os.getpid())._asdict()), host="elsewhere")
    place.daemon_once()
    assert place.call("session", "show", "far", "--json").object()["activity"] is None


def test_the_store_is_asked_for_the_fields_in_which_processes_stand() -> None:
    assert Watched._fields[8:11] == ("launcher", "process", "host")
