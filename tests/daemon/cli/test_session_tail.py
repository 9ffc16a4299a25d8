"""`runward session tail`: the journal as it lies there, once and followed, no matter who wrote it."""

import json
import os
import shutil
from pathlib import Path

from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.rundir.growing import MAXIMUM_LINE


def _journal(place: Place, name: str, *lines: bytes) -> Path:
    """A finished, recorded run whose journal begins with the run's own lines."""
    run = place.add_run(name, exit_code=0)
    (run / "events.jsonl").write_bytes(b"".join(lines))
    place.daemon_once()
    return run / "events.jsonl"


def test_with_json_the_journal_is_one_list(recorded: Place) -> None:
    lines = recorded.call("session", "tail", "silent", "--json").objects()
    assert [line["event"] for line in lines] == [
        "session_started",
        "contract_snapshotted",
        "artifact_verified",
        "status_changed",
        "session_finished",
    ]


def test_followed_it_is_a_value_a_line_and_ends_with_the_session(recorded: Place) -> None:
    followed = recorded.call("session", "tail", "silent", "-f", "--json")
    assert followed.code == 0
    assert [json.loads(line)["event"] for line in followed.out.splitlines()][-1] == "session_finished"


def test_only_the_last_lines(recorded: Place) -> None:
    for options in (("-n", "2"), ("-n", "2", "-f")):
        shown = recorded.call("session", "tail", "silent", *options).out.splitlines()
        assert [line.split()[4] for line in shown] == ["status_changed", "session_finished"]


def test_people_read_time_role_event_and_path_first(place: Place) -> None:
    _journal(
        place, "told", b'{"ts":"2026-01-02T03:04:05Z","role":"agent","event":"wrote","path":"a.py","n":1}\n'
    )
    first = place.call("session", "tail", "told").out.splitlines()[0]
    assert first == "2026-01-02 03:04:05 UTC  agent     wrote  a.py  n=1"


def test_a_hostile_line_is_escaped_for_people_and_named_for_programs(place: Place) -> None:
    hostile = b'\x1b]0;owned\x07 \xff not json\n{"event":"\\u001b[2J","path":"' + b"x" * 300 + b'"}\n[1]\n'
    _journal(place, "evil", hostile)
    shown = place.call("session", "tail", "evil")
    assert "\x1b" not in shown.out
    first, second, third = shown.out.splitlines()[:3]
    assert first == "\\x1b]0;owned\\x07 \\xff not json  (line 1: not UTF-8 (byte 11))"
    assert "\\x1b[2J" in second
    assert second.endswith("x…")
    assert third == "[1]  (line 3: no object)"
    told = place.call("session", "tail", "evil", "--json")
    assert "line 1 of events.jsonl is left out: not UTF-8" in told.err
    value = told.json()
    assert isinstance(value, list)
    assert value[1] == [1]


def test_an_endless_line_is_cut_and_costs_no_memory(place: Place) -> None:
    _journal(place, "long", b'{"event":"' + b"x" * (MAXIMUM_LINE + 10) + b'"}\n')
    shown = place.call("session", "tail", "long")
    assert "(line 1: it is too long)" in shown.out.splitlines()[0]
    assert len(shown.out.splitlines()[0]) < 300


def test_a_torn_last_line_is_shown(place: Place) -> None:
    run = place.add_run("open")
    place.daemon_once()
    with (run / "events.jsonl").open("ab") as journal:
        journal.write(b'{"event":"torn')
    assert '{"event":"torn  (line 2: not JSON' in place.call("session", "tail", "open").out


def test_a_journal_that_is_a_link_or_a_pipe_is_not_read(place: Place) -> None:
    journal = _journal(place, "swapped")
    secret = place.directory / "secret"
    secret.write_text('{"event":"secret"}\n')
    journal.unlink()
    journal.symlink_to(secret)
    shown = place.call("session", "tail", "swapped")
    assert (shown.code, shown.out) == (3, "")
    journal.unlink()
    os.mkfifo(journal)
    assert place.call("session", "tail", "swapped").code == 3


def test_a_run_directory_that_is_gone_is_not_found(place: Place) -> None:
    journal = _journal(place, "gone")
    shutil.rmtree(journal.parent)
    shown = place.call("session", "tail", "gone")
    assert shown.code == 3
    assert "No such file or directory" in shown.err


def test_a_living_session_is_followed_until_it_is_over(place: Place) -> None:
    run = place.add_run("live")
    with place.daemon():
        wait_for((run / "events.jsonl").exists, "its journal")
        following = place.start("session", "tail", "live", "-f", "--json")
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["event"] == "session_started"
        with (run / "events.jsonl").open("ab") as journal:
            journal.write(b'{"event":"of its own"}\n')
        assert json.loads(following.stdout.readline())["event"] == "of its own"
        place.end_run("live", 0)
        out, _ = following.communicate(timeout=PATIENCE_S)
    assert following.returncode == 0
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["status_changed", "session_finished"]
