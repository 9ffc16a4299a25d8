"""What keys of `runward top` ask of the daemon, and what it makes of that."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.daemon.cli.calling import CONTRACT, SETTINGS, Place
from tests.daemon.cli.everyday import Everyday
from tests.daemon.cli.live_screen import LiveScreen, live_screen
from tests.daemon.cli.test_session_cancel import seen
from tests.waiting import PATIENCE_S, wait_for

_LONG = "x" * 10_000 + " \x1b[2Jend"
_ACTIONS = '[actions.merge]\ncommand = ["echo", "merged", "{{ with.head }}"]\n'
_CHAIN = """\
name: release
trigger: {manual: true}
steps:
  - {id: merge, action: merge, with: {head: "{{ trigger.head }}"}, requires_approval: true}
"""


@pytest.fixture
def releasing(place: Place) -> Place:
    """A place with a chain whose only step waits for a person."""
    (place.directory / "runward.toml").write_text(SETTINGS + _ACTIONS)
    (place.directory / "release.yaml").write_text(_CHAIN)
    return place


def _fire(place: Place, head: str) -> str:
    assert place.call("chain", "define", "release.yaml").code == 0
    fired = place.call("chain", "fire", "release", f"head={head}")
    assert fired.code == 0, fired.err
    return fired.out.strip()


def _status(place: Place, run: str) -> object:
    return place.call("chain", "run", "show", run, "--json").object()["status"]


@contextmanager
def _top(place: Place, rows: int = 24, columns: int = 80, **environment: str) -> Iterator[LiveScreen]:
    with live_screen(place, rows, columns, "top", **environment) as shown:
        shown.shows("keys  q")
        yield shown
        shown.press(b"\x1bq")
        assert shown.ended() == 0
        assert shown.is_as_before()
        assert b"Traceback" not in shown.raw


def test_an_approval_shows_the_whole_command_and_the_chain_goes_on(releasing: Place) -> None:
    with releasing.daemon(), _top(releasing) as top:
        run = _fire(releasing, "mult")
        top.shows("asks: echo merged mult")
        top.press(b"a")
        lines = top.shows("Approve it? y/N")
        assert any(line.strip() == "echo merged mult" for line in lines)
        top.press(b"n")
        top.shows("keys  q")
        assert _status(releasing, run) == "waiting_approval"
        top.press(b"a")
        top.shows("Approve it? y/N")
        top.press(b"y")
        top.shows(f"of {run} is approved")
        top.shows("✓ completed")
        assert _status(releasing, run) == "completed"


@pytest.mark.parametrize("arguments", [(), ("--quiet",)], ids=["told", "quiet"])
def test_what_begins_to_wait_is_told_once_and_commands_nothing(
    releasing: Place, arguments: tuple[str, ...]
) -> None:
    hostile = "\x1b]52;c;ZXZpbA==\x07\u202e; \nend"
    with releasing.daemon(), live_screen(releasing, 24, 80, "top", *arguments, TERM="foot") as top:
        top.shows("keys  q")
        _fire(releasing, hostile)
        top.shows("asks: echo merged")
        top.press(b"q")
        assert top.ended() == 0
    sent = top.raw.split(b"\x1b]")[1:]
    if arguments:
        assert sent == []
        assert b"\a" not in top.raw
        return
    (only,) = sent
    text, end, _ = only.partition(b"\x1b\\\a")
    assert end
    assert text.startswith(b"777;notify;Runward;Runward: release/merge waits: asks: echo merged")
    assert text.count(b";") == 3
    assert text.decode().isprintable()
    assert top.raw.count(b"\a") == 1


def test_a_denial_aborts_the_chain_run(releasing: Place) -> None:
    with releasing.daemon(), _top(releasing) as top:
        run = _fire(releasing, "mult")
        top.shows("asks: echo merged mult")
        top.press(b"d")
        top.shows("Deny it? y/N")
        top.press(b"Y")
        top.shows("is denied")
        top.shows("✗ aborted")
        assert _status(releasing, run) == "aborted"


def test_nobody_approves_what_they_have_not_seen(releasing: Place) -> None:
    with releasing.daemon():
        run = _fire(releasing, _LONG)
        with _top(releasing, 12, 40) as top:
            top.shows("asks  echo merged")
            top.press(b"ay")  # typed before the question is there
            top.shows("more below")
            top.press(b"y")
            top.press(b" ")
            top.shows(lambda lines: "more below" in lines[-1] and "asks" not in "\n".join(lines))
            assert _status(releasing, run) == "waiting_approval"
            top.press(b" " * 40)
            top.shows("Approve it? y/N")
            assert "\\x1b[2Jend" in top.text
            top.press(b"y")
            top.shows("completed: merge.")
        assert _status(releasing, run) == "completed"


def test_without_a_daemon_an_answer_is_kept(releasing: Place) -> None:
    with releasing.daemon():
        run = _fire(releasing, "mult")
        wait_for(lambda: _status(releasing, run) == "waiting_approval", "a step that waits")
    with _top(releasing) as top:
        top.press(b"a")
        top.shows("y/N")
        top.press(b"y")
        top.shows("no daemon is running")
        with releasing.daemon():
            top.shows("✓ completed")


def test_a_failure_is_marked_as_seen(place: Place) -> None:
    place.add_run("good", exit_code=0)
    failing = place.start("run", "--name", "bad", "--", "false")
    failing.communicate(timeout=PATIENCE_S)
    assert failing.returncode == 1
    with place.daemon(), _top(place) as top:
        # It is shown before the daemon has judged it, too.
        wait_for(lambda: place.rows("select 1 from sessions where status = 'failed'"), "the verdict")
        top.shows("1 failed")
        top.press(b"s")
        top.shows("bad is seen")
        top.shows(lambda lines: "1 failed" not in lines[0])
        top.press(b"s")
        top.shows("bad is not a failure that `runward status` shows")
        top.press(b"a")
        top.shows("bad does not wait for approval")


def test_a_run_is_cancelled_after_a_question(place: Place) -> None:
    with place.daemon(), _top(place) as top:
        running = place.start("run", "--name", "long", "--", "sleep", "1000")
        try:
            top.shows("● working")
            seen(place, "long")
            top.press(b"x")
            top.shows("Cancel long? y/N")
            top.press(b"q")
            top.shows("keys  q")
            assert running.poll() is None
            top.press(b"x")
            top.shows("Cancel long? y/N")
            top.press(b"y")
            top.shows("– cancelled")  # noqa: RUF001  # the sign
        finally:
            running.communicate(timeout=PATIENCE_S)
        top.press(b"x")
        top.shows("only a running one can be cancelled")


def test_a_chain_run_is_cancelled(releasing: Place) -> None:
    with releasing.daemon(), _top(releasing) as top:
        run = _fire(releasing, "mult")
        top.shows("asks: echo merged mult")
        top.press(b"x")
        top.shows(f"Cancel {run}? y/N")
        top.press(b"y")
        top.shows("– cancelled")  # noqa: RUF001  # the sign
        assert _status(releasing, run) == "cancelled"


def test_what_runward_did_not_launch_is_not_cancelled(everyday: Everyday) -> None:
    with _top(everyday) as top:
        top.press(b"jx")
        top.shows("end the agent yourself")


def test_all_of_why_is_in_the_pager_and_then_the_list_is_there_again(place: Place, tmp_path: Path) -> None:
    place.add_run("silent", exit_code=0, contract=CONTRACT)
    place.daemon_once()
    pager = tmp_path / "my pager"
    pager.write_text("#!/bin/sh\necho LESS=$LESS\ncat >paged\nread word </dev/tty\n")
    pager.chmod(0o700)
    with _top(place, 8, 80, PAGER=shlex.quote(str(pager))) as top:
        top.press(b"\r")
        top.shows("LESS=FRX")
        assert top.is_as_before(), "the pager has the terminal as it was"
        top.press(b"on\n")
        top.shows("keys  q")
    told = (place.directory / "paged").read_text()
    assert told.startswith("session native:runs/silent: ")
    assert "run.failed.missing_artifact" in told


@pytest.mark.parametrize("pager", ["cat", "", "/no/such/pager", "'"])
def test_without_a_pager_all_of_why_is_scrolled(place: Place, pager: str) -> None:
    place.add_run("silent", exit_code=0, contract=CONTRACT)
    place.daemon_once()
    with _top(place, 8, 60, RUNWARD_PAGER=pager, PAGER="false") as top:
        top.press(b"\r")
        top.shows("more below: Space or j")
        top.press(b" " * 20)
        top.shows("q back")
        top.press(b"q")
        top.shows("keys  q")
