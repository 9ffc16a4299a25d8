"""What stands still delays no verdict and holds no transaction: a stopped `runward top`, a pager, a pipe or a terminal that nobody reads."""

import fcntl
import os
import select
import signal
import sqlite3
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.cli.live_screen import LiveScreen, live_screen
from tests.preloaded import commands as preloaded
from tests.waiting import wait_for

_RUNS = 60
_PROMPTLY_S = 20.0
"""Far more than a verdict takes, and less than the period of the scan that finds what nothing told."""

_PAGE = 4096
"""The smallest pipe."""

Standing: TypeAlias = Callable[[Place], AbstractContextManager[Callable[[], bool]]]
"""Has something stand still; yields whether it still does."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A daemon that works over more sessions than a screen has rows, and than the smallest pipe has room for."""
    place = Place(tmp_path_factory.mktemp("busy"))
    place.furnish()
    for number in range(_RUNS):
        run = place.add_run(f"run-{number:02}", exit_code=0, contract=CONTRACT)
    (run / "stdout.log").write_text("line\n" * 100_000)
    (place.directory / "pager").write_text("#!/bin/sh\necho standing\nread word </dev/tty\n")
    (place.directory / "pager").chmod(0o700)
    with place.daemon():
        wait_for(lambda: _verdict(place, run.name) == "failed", "the verdicts")
        yield place


def _verdict(place: Place, name: str) -> object:
    """The status that the daemon has recorded: of a run that it has not judged, its files alone already tell one."""
    shown = place.call("session", "show", name, "--json")
    if shown.code != 0 or shown.object()["not_judged_yet"]:
        return None
    return shown.object()["status"]


@contextmanager
def _stopped_top(place: Place) -> Iterator[Callable[[], bool]]:
    with live_screen(place, 24, 80, "top") as screen:
        screen.shows("keys  q")
        os.kill(screen.pid, signal.SIGSTOP)
        stands = partial(_is_stopped, screen.pid)
        wait_for(stands, "a screen that stands still")
        yield stands


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@contextmanager
def _stopped_terminal(place: Place, *command: str, shows: str) -> Iterator[Callable[[], bool]]:
    """As with Ctrl-S, or where an ssh is stuck: whatever is written waits."""
    with live_screen(place, 24, 80, *command) as screen:
        screen.shows(shows)
        terminal = os.open(os.readlink(f"/proc/{screen.pid}/fd/1"), os.O_RDWR | os.O_NOCTTY)
        termios.tcflow(terminal, termios.TCOOFF)
        while screen.read(0.0):
            pass
        screen.resized(25, 90)  # so that all of it is drawn again
        yield lambda: _lives(screen) and not screen.read(0.0)
        os.close(terminal)


def _lives(screen: LiveScreen) -> bool:
    return screen.process.poll() is None


@contextmanager
def _pager(place: Place, *command: str) -> Iterator[Callable[[], bool]]:
    with live_screen(place, 10, 80, *command, PAGER=str(place.directory / "pager")) as screen:
        screen.shows("standing")
        yield partial(_lives, screen)


@contextmanager
def _full_pipe(place: Place, *command: str) -> Iterator[Callable[[], bool]]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PAGE)
    process = subprocess.Popen(
        preloaded.argv(*command), stdout=writing, cwd=place.directory, env=place.environment
    )

    def is_full() -> bool:
        return process.poll() is None and not select.select([], [writing], [], 0)[1]

    try:
        wait_for(is_full, "a pipe that is full")
        yield is_full
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


_LISTED = ("session", "list", "--limit", "0")
_LAST = f"run-{_RUNS - 1}"


def _standing() -> dict[str, Standing]:
    def terminal(*command: str, shows: str) -> Standing:
        return lambda place: _stopped_terminal(place, *command, shows=shows)

    def pager(*command: str) -> Standing:
        return lambda place: _pager(place, *command)

    def pipe(*command: str) -> Standing:
        return lambda place: _full_pipe(place, *command)

    return {
        "a stopped top": _stopped_top,
        "a terminal with top": terminal("top", shows="keys  q"),
        "a terminal with a list": terminal("session", "list", "--watch", "0.1", shows="run-"),
        "a pager with a list": pager(*_LISTED),
        "a pager with the log": pager("log", "-n", "1000"),
        "a pipe with a list": pipe(*_LISTED),
        "a pipe with JSON": pipe(*_LISTED, "--json"),
        "a pipe with the log": pipe("log", "--follow", "-n", "1000"),
        "a pipe with the output of a run": pipe("session", "logs", _LAST, "--follow"),
    }


_ALL = _standing()


@pytest.mark.parametrize("name", _ALL)
def test_it_delays_no_verdict_and_keeps_the_log_of_the_store_from_nothing(busy: Place, name: str) -> None:
    run = f"while {name} stands".replace(" ", "-")
    with _ALL[name](busy) as stands:
        busy.add_run(run, exit_code=0, contract=CONTRACT)
        wait_for(lambda: _verdict(busy, run) == "failed", "the verdict", _PROMPTLY_S)
        wait_for(lambda: _is_checkpointed(busy), "a store of which nobody reads an old state", _PROMPTLY_S)
        assert stands()


def _is_checkpointed(place: Place) -> bool:
    """Whether all of the store's log is in the store, and it begins anew: a transaction that is open keeps it."""
    store = sqlite3.connect(place.state / "runward.db", timeout=0, isolation_level=None)
    try:
        return bool(store.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0)
    except sqlite3.OperationalError:
        return False  # the daemon itself writes
    finally:
        store.close()


def test_a_transaction_that_stays_open_would_be_seen(busy: Place) -> None:
    reader = sqlite3.connect(f"file:{busy.state}/runward.db?mode=ro", uri=True, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from sessions").fetchone()
    busy.add_run("while-somebody-reads", exit_code=0, contract=CONTRACT)
    wait_for(lambda: _verdict(busy, "while-somebody-reads") == "failed", "the verdict")
    assert not _is_checkpointed(busy)
    reader.close()
    wait_for(lambda: _is_checkpointed(busy), "a store of which nobody reads an old state")
