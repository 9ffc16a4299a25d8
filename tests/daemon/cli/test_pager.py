"""What is longer than the screen is shown in a pager, which changes nothing else."""

import os
import shlex
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.cli.live_screen import LiveScreen, live_screen
from tests.waiting import wait_for

_ENOUGH = 40


def _with_sessions(directory: Path) -> Place:
    place = Place(directory)
    place.furnish()
    for number in range(_ENOUGH):
        place.add_run(f"run-{number:02}", exit_code=0, contract=CONTRACT)
    place.daemon_once()
    return place


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return _with_sessions(tmp_path_factory.mktemp("busy"))


@pytest.fixture
def busy(recorded_once: Place) -> Iterator[Place]:
    """A place with more sessions than a screen has rows, for tests that only read; what pagers leave is removed."""
    before = set(recorded_once.directory.iterdir())
    yield recorded_once
    for left in set(recorded_once.directory.iterdir()) - before:
        left.unlink()


@pytest.fixture
def changed(tmp_path: Path) -> Place:
    """The same, for a test that records more."""
    return _with_sessions(tmp_path)


def _program(place: Place, text: str, name: str = "my pager") -> str:
    """A pager of our own, as `$PAGER` names it."""
    path = place.directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return shlex.quote(str(path))


_READS_ALL = 'echo "LESS=$LESS"; cat >paged; echo shown; read word </dev/tty'


@pytest.mark.parametrize(
    "command",
    [
        "session list --limit 0",
        "session list --wide",
        "help --all",
        "log",
        "why run-00 --all",
        "queue list --state done",
    ],
)
def test_what_is_long_is_in_the_pager_and_ends_with_the_commands_own_code(busy: Place, command: str) -> None:
    with live_screen(busy, 10, 80, *command.split(), PAGER=_program(busy, _READS_ALL)) as screen:
        screen.shows("shown")
        assert "LESS=FRX" in screen.text
        screen.press(b"on\n")
        assert screen.ended() == 0
    assert len((busy.directory / "paged").read_text().splitlines()) >= 10


def test_the_pager_gets_everything_and_a_set_less_is_left(busy: Place) -> None:
    pager = _program(busy, _READS_ALL)
    with live_screen(
        busy, 10, 80, "session", "list", "--limit", "0", RUNWARD_PAGER=pager, PAGER="false", LESS=""
    ) as screen:
        screen.shows("LESS=\n".strip())
        screen.press(b"on\n")
        assert screen.ended() == 0
    lines = (busy.directory / "paged").read_text().splitlines()
    assert len(lines) == _ENOUGH + 1


@pytest.mark.parametrize(
    ("rows", "arguments", "environment"),
    [
        (100, ("session", "list"), {}),
        (10, ("session", "list", "--no-pager"), {}),
        (10, ("session", "list"), {"PAGER": "cat"}),
        (10, ("session", "list"), {"PAGER": ""}),
        (10, ("session", "list"), {"RUNWARD_PAGER": ""}),
        (10, ("session", "list"), {"RUNWARD_PAGER": "/no/such/pager"}),
        (10, ("session", "list"), {"RUNWARD_PAGER": "'"}),
        (10, ("session", "list"), {"TERM": "dumb"}),
        (10, ("session", "list", "--json"), {}),
        (10, (), {}),
        (10, ("status",), {}),
        (10, ("status", "--all"), {}),
    ],
)
def test_without_need_or_wish_there_is_no_pager(
    busy: Place, rows: int, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    pager = _program(busy, "echo PAGED; cat >/dev/null")
    with live_screen(busy, rows, 80, *arguments, **{"PAGER": pager, **environment}) as screen:
        assert screen.ended() == busy.call(*(arguments or ("status",))).code
        assert b"PAGED" not in screen.raw
        assert screen.raw


@pytest.mark.parametrize("text", ["exit 1", "head -1 >/dev/null; exit 3", "kill -9 $$", "exec /no/such"])
def test_a_pager_that_dies_is_no_error(busy: Place, text: str) -> None:
    with live_screen(busy, 10, 80, "session", "list", PAGER=_program(busy, text)) as screen:
        assert screen.ended() == 0
        assert b"Traceback" not in screen.raw
        assert b"rror" not in screen.raw


def test_one_that_can_not_be_started_is_as_if_there_were_none(busy: Place) -> None:
    path = busy.directory / "broken"
    path.write_bytes(b"\x00\x01 no program")
    path.chmod(0o700)
    with live_screen(busy, 10, 80, "session", "list", PAGER=str(path)) as screen:
        assert screen.ended() == 0
        assert b"run-00" in screen.raw


def test_no_shell_sees_its_words_or_its_text(changed: Place) -> None:
    changed.add_run("hostile", exit_code=0, command=["$(touch owned)", "`touch owned`", "\x1b]0;owned\x07"])
    changed.daemon_once()
    pager = _program(changed, 'for word in "$@"; do echo "[$word]"; done; cat >paged')
    with live_screen(
        changed, 10, 80, "session", "list", "--wide", PAGER=f"{pager} '$(touch owned)' ';' x"
    ) as screen:
        screen.shows("[$(touch owned)]")
        assert screen.ended() == 0
    assert not (changed.directory / "owned").exists()
    shown = (changed.directory / "paged").read_text()
    assert "$(touch owned)" in shown
    assert "\x1b]" not in shown


_WAITS = "echo standing; stty raw -echo </dev/tty; trap 'exit 0' TERM; while :; do read word </dev/tty; done"


def _stands(screen: LiveScreen) -> None:
    screen.shows("standing")
    wait_for(lambda: screen.is_as_before() is False, "a terminal that the pager has changed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", ["", "trap '' TERM; "])
def test_a_signal_ends_the_pager_and_leaves_the_terminal_as_it_was(
    busy: Place, number: signal.Signals, ignored: str
) -> None:
    pager = _program(busy, _WAITS.replace("trap 'exit 0' TERM; ", ignored))
    with live_screen(busy, 10, 80, "session", "list", PAGER=pager) as screen:
        _stands(screen)
        os.kill(screen.pid, number)
        assert screen.waited() == {signal.SIGTERM: 143, signal.SIGHUP: 141}[number]
        assert screen.is_as_before()


def test_a_pager_that_is_killed_leaves_no_terminal_without_echo(busy: Place) -> None:
    pager = _program(busy, "stty raw -echo </dev/tty; kill -9 $$")
    with live_screen(busy, 10, 80, "session", "list", PAGER=pager) as screen:
        assert screen.waited() == 0
        assert screen.is_as_before()


def test_ctrl_c_is_a_key_of_the_pager(busy: Place) -> None:
    pager = _program(
        busy,
        "trap 'echo interrupted' INT; echo standing; read word </dev/tty; read word </dev/tty; cat >paged",
    )
    with live_screen(busy, 10, 80, "session", "list", PAGER=pager) as screen:
        screen.shows("standing")
        screen.press(b"\x03")
        screen.shows("interrupted")
        screen.press(b"on\non\n")
        assert screen.ended() == 0
    assert "run-00" in (busy.directory / "paged").read_text()


@pytest.mark.parametrize(
    "command",
    [
        "session list --limit 0",
        "chain runs",
        "why run-00 --all",
        "session show run-00 --all",
        "log",
        "usage",
        "session logs run-00",
    ],
)
def test_a_pager_that_stands_still_holds_no_transaction(changed: Place, command: str) -> None:
    (changed.directory / "state/runs/run-00/stdout.log").write_text("line\n" * 100_000)
    with live_screen(changed, 2, 80, *command.split(), PAGER=_program(changed, _WAITS)) as screen:
        if command == "chain runs":  # there is nothing to page
            assert screen.ended() == 0
        else:
            _stands(screen)
        store = sqlite3.connect(changed.state / "runward.db", timeout=0, isolation_level=None)
        for statement in ("create table grown (x)", "drop table grown"):
            store.execute(statement)
            assert store.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0, "somebody reads"
        store.close()
        changed.add_run("late", exit_code=0, contract=CONTRACT)
        changed.daemon_once()
        assert changed.call("session", "show", "late", "--json").object()["status"] == "failed"
        screen.process.terminate()


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_less_itself_shows_it_and_ends(busy: Place) -> None:
    with live_screen(busy, 10, 80, "session", "list") as screen:
        screen.shows(":")
        screen.press(b"G")
        screen.shows("(END)")
        screen.press(b"q")
        assert screen.ended() == 0
        assert screen.is_as_before()
