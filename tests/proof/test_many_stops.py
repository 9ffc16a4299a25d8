"""Stops at random moments under load, by SIGTERM, by SIGINT and by a closed terminal: each ends with 0, and nothing is lost.

One state directory sees them all, one daemon after another, while finished runs keep coming and a run that a daemon
started goes on.
"""

import os
import pty
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.proof.account import account, difference
from tests.proof.history import first_chapter, let_go
from tests.proof.place import Place
from tests.proof.processes import Forks, Process
from tests.waiting import wait_for

from runward.daemon.host.signals import HEARD

LIMIT: Final = 30.0
"""Seconds after which systemd would kill: `TimeoutStopSec` of the unit."""

RUNS: Final = 6
"""Finished runs that come while a daemon is up."""

LONGEST: Final = 0.5
"""Seconds that a daemon is up at most; a start takes about half of that."""


class Stop:
    """A daemon that is started and stopped by a signal."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def start(self, place: Place) -> Process:
        """A daemon that may be stopped in this way."""
        return place.daemon()

    def stop(self, daemon: Process) -> None:
        """Stop it."""
        daemon.send(self._number)


class ClosedTerminal(Stop):
    """A daemon in the foreground of a terminal, which is closed."""

    def __init__(self) -> None:
        super().__init__(signal.SIGHUP)
        self._near = -1

    def start(self, place: Place) -> Process:
        self._near, far = pty.openpty()
        daemon = place.daemon(terminal=os.ttyname(far))
        wait_for(lambda: _listens(daemon) or daemon.ended(), "a daemon that has its terminal")
        os.close(far)
        return daemon

    def stop(self, daemon: Process) -> None:
        os.close(self._near)


WAYS: Final[dict[str, Callable[[], Stop]]] = {
    "SIGTERM": lambda: Stop(signal.SIGTERM),
    "SIGINT": lambda: Stop(signal.SIGINT),
    "closed terminal": ClosedTerminal,
}


def _listens(daemon: Process) -> bool:
    """Whether it hears signals: before that it is a program that loads."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return all(caught >> (number - 1) & 1 for number in HEARD)


def _add_run(place: Place, number: int) -> None:
    """A run that is finished the moment that it is there, so that every history sees the same of it."""
    made = place.finished_run(f"late-{number}", place.directory)
    made.rename(place.runs / made.name)


def _stop_again_and_again(place: Place, stop: Stop, dice: random.Random, times: int) -> None:
    for number in range(times):
        daemon = stop.start(place)
        wait_for(lambda daemon=daemon: _listens(daemon) or daemon.ended(), "a daemon that hears")  # type: ignore[misc] # bound at once
        moment = time.monotonic() + dice.uniform(0.0, LONGEST)
        for run in range(RUNS):
            _add_run(place, number * RUNS + run)
            time.sleep(max(0.0, moment - time.monotonic()) / (RUNS - run))
        began = time.monotonic()
        stop.stop(daemon)
        assert daemon.wait() == 0, f"stop {number}:\n{daemon.said()[-3000:]}"
        assert time.monotonic() - began < LIMIT
        assert "Traceback" not in daemon.said()


def _prove(in_memory: Path, forks: Forks, way: str, seed: int, times: int) -> None:
    expected = Place(in_memory / f"expected-{way}-{seed}", forks)
    first_chapter(expected)
    for number in range(times * RUNS):
        _add_run(expected, number)
    assert expected.once() == 0
    place = Place(in_memory / f"stopped-{way}-{seed}", forks)
    first_chapter(place)
    _stop_again_and_again(place, WAYS[way](), random.Random(f"{way}/{seed}"), times)
    assert place.once() == 0
    let_go(expected)
    let_go(place)
    parted = difference(account(expected), account(place))
    assert not parted, parted


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 5))])
@pytest.mark.parametrize("way", WAYS)
def test_a_hundred_stops_under_load_lose_nothing(in_memory: Path, forks: Forks, way: str, seed: int) -> None:
    """Four times 25 of each, for the tests of one kind may run beside each other."""
    _prove(in_memory, forks, way, seed, 25)
