"""`session wait`: until a session is over and judged, and then its status as the exit code."""

import json
import os
import pty
import subprocess

import pytest
from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S, wait_for


@pytest.mark.parametrize(
    ("name", "code"), [("plain", 0), ("delivered", 0), ("silent", 1), ("crashed", 1), ("open", 75)]
)
def test_it_ends_by_the_status_of_the_session(recorded: Place, name: str, code: int) -> None:
    told = recorded.call("session", "wait", name)
    assert told.code == code
    if code == 75:
        assert "session open is not judged yet, and no daemon is running" in told.err
    else:
        assert told.out.startswith(f"session {name} is ")


def test_json_is_the_session_as_the_list_has_it(recorded: Place) -> None:
    told = recorded.call("session", "wait", "crashed", "--json")
    listed = recorded.call("session", "list", "--search", "crashed", "--json").objects()
    assert (told.code, [told.object()]) == (1, listed)


def test_nobody_s_session_is_not_found(recorded: Place) -> None:
    assert recorded.call("session", "wait", "nobody").code == 3


def test_it_waits_for_the_end_and_for_the_verdict(place: Place) -> None:
    with place.daemon():
        place.add_run("long")
        wait_for(lambda: place.rows("select 1 from sessions where session_id = 'long'"), "the session")
        assert place.call("session", "wait", "long", "--timeout", "200ms").code == 124
        waiting = place.start("session", "wait", "long")
        place.end_run("long", 4)
        out, err = waiting.communicate(timeout=PATIENCE_S)
    assert (waiting.returncode, err) == (1, "")
    assert out == "session long is failed: exited with 4\n"


def test_the_terminal_is_told_at_the_end_of_the_wait(recorded: Place) -> None:
    ends, other = pty.openpty()
    with open(ends, "rb", buffering=0) as terminal:
        waiting = subprocess.Popen(
            recorded.argv("session", "wait", "crashed", "--notify", "--json"),
            cwd=recorded.directory,
            env=recorded.environment | {"TERM": "xterm-kitty", "LANG": "C.UTF-8"},
            stdout=subprocess.PIPE,
            stderr=other,
        )
        os.close(other)
        out, _ = waiting.communicate(timeout=PATIENCE_S)
        said = terminal.read(4096)
    assert (waiting.returncode, json.loads(out)["session_id"]) == (1, "crashed")
    assert said == b"\x1b]99;;Runward: crashed is failed: exited with 3\x1b\\\a"


def test_without_a_terminal_nobody_is_told(recorded: Place) -> None:
    told = recorded.call("session", "wait", "crashed", "--notify")
    assert (told.code, told.out, told.err) == (1, "session crashed is failed: exited with 3\n", "")
