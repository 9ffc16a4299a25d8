"""A slow reader of a command's output keeps nobody from the store: nothing is printed in a transaction."""

import array
import contextlib
import fcntl
import sqlite3
import termios
from typing import Final
from unittest import mock

import pytest
from tests.daemon.cli import calling
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.cli.everyday import COMMANDS, Everyday
from tests.waiting import wait_for

_FURTHER: Final = (
    "session diff night-shift trade-0",
    "session diff night-shift night-shift",
    "receipt chain",
    "usage",
    "log",
    "queue list --state done",
    "session list --wide",
    "session artifact list",
    "session logs night-shift",
)


def _nobody_reads(place: Place) -> None:
    """Fails where a transaction is open: what was written before it could not be moved into the store."""
    store = sqlite3.connect(place.state / "runward.db", timeout=0, isolation_level=None)
    with contextlib.closing(store):
        for statement in ("create table if not exists grown (x)", "drop table grown"):
            store.execute(statement)
            assert store.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0, "somebody reads"


@pytest.mark.parametrize("form", ["", "--json"])
@pytest.mark.parametrize("command", [*COMMANDS, *_FURTHER])
def test_nothing_is_printed_in_a_transaction(everyday: Everyday, command: str, form: str) -> None:
    written: list[int] = []

    class Watched(calling._Captured):
        def write(self, text: str, /) -> int:
            written.append(len(text))
            _nobody_reads(everyday)
            return super().write(text)

    with mock.patch.object(calling, "_Captured", Watched):
        called = everyday.call(*command.split(), *form.split())
    assert called.code in (0, 1, 2, 3), called
    assert "Traceback" not in called.err
    assert written


def test_a_full_pipe_that_stands_still_holds_no_transaction(place: Place) -> None:
    place.add_run("long", exit_code=0, contract=CONTRACT, command=["echo", "x" * 100_000])
    place.daemon_once()
    shows = place.start("session", "show", "long", "--json")
    assert shows.stdout is not None
    pipe = shows.stdout.fileno()
    room, there = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ), array.array("i", [0])

    def is_full() -> bool:
        fcntl.ioctl(pipe, termios.FIONREAD, there)
        return there[0] == room

    wait_for(is_full, "a pipe that is full")
    _nobody_reads(place)
    place.add_run("late", exit_code=0, contract=CONTRACT)
    place.daemon_once()
    assert place.call("session", "show", "late", "--json").object()["status"] == "failed"
    out, _ = shows.communicate()
    assert '"session_id": "long"' in out
    assert shows.returncode == 0
