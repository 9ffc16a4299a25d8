"""A step on another host runs once, wherever its origin's or its taker's daemon is killed, and wherever the database crashes."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet import test_random_kills, test_remote_steps
from tests.daemon.fleet.test_remote_steps import POINTS, Pair, program
from tests.daemon.fleet.test_silent_and_frozen import is_frozen
from tests.waiting import PATIENCE_S, wait_for

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]

pair = test_remote_steps.pair
postgresql = test_random_kills.postgresql

HOSTS = ("laptop", "gpu")


@contextmanager
def _faulty_daemon(place: Place, fault: str, said: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A daemon that may be killed at a point at any time, also before it is ready."""
    with said.open("wb") as file:
        process = subprocess.Popen(
            place.argv("daemon"),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=place.directory,
            env={**place.environment, "RUNWARD_FAULT": fault},
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


class Passed(NamedTuple):
    """The points that a daemon passes, in order, and how many of them before anything was ordered."""

    names: list[str]
    before: int


def _passed(said: Path) -> list[str]:
    return [line.split()[1] for line in said.read_text().splitlines() if line.startswith("point ")]


def _points_of(pair: Pair, host: str, said: Path) -> Passed:
    """The points that the daemon of this host passes when nobody disturbs it."""
    place, other = _places(pair, host)
    with other.daemon(), _faulty_daemon(place, "list", said):
        wait_for(lambda: b'"ready"' in said.read_bytes(), "a daemon that is ready")
        before = len(_passed(said))
        pair.fire("undisturbed")
        wait_for(pair.is_over, "the end of the chain run")
    return Passed(_passed(said), before)


def _places(pair: Pair, host: str) -> tuple[Place, Place]:
    return (pair.laptop, pair.gpu) if host == "laptop" else (pair.gpu, pair.laptop)


def _kills_daemon(pair: Pair, host: str, points: Sequence[int | str], said: Path) -> int:
    """Kill a daemon at each of these points, one after the other; returns how many it reached."""
    place, other = _places(pair, host)
    place.daemon_once()  # from here on it has a store to look at
    with other.daemon():
        return sum([_kills_daemon_at(pair, host, point, said) for point in points])


def _kills_daemon_at(pair: Pair, host: str, point: int | str, said: Path) -> bool:
    """Whether a daemon has reached the point, and was killed there."""
    place, _ = _places(pair, host)
    word, fired = f"killed at {point}", len(pair.runs()) + 1
    with _faulty_daemon(place, f"kill@{point}", said) as daemon:
        pair.fire(word)
        wait_for(lambda: daemon.poll() is not None or _all_are_over(pair, fired), f"a kill at {point}")
        was_killed = daemon.poll() == -signal.SIGKILL
    with place.daemon():
        wait_for(lambda: _all_are_over(pair, fired), f"the end of the chain run after a kill at {point}")
    assert pair.runs() == [test_remote_steps.COMPLETED] * fired
    assert pair.did(pair.gpu).count(word) == 1
    assert pair.did(pair.laptop) == ["published"] * fired
    assert pair.orders() == [("ended", 1, True)] * fired
    return was_killed


def _all_are_over(pair: Pair, fired: int) -> bool:
    statuses = [status for status, _ in pair.runs()]
    return len(statuses) == fired and "running" not in statuses and pair.is_over()


@pytest.fixture
def said(tmp_path: Path) -> Path:
    return tmp_path / "said"


def test_a_daemon_that_is_killed_at_a_point_begins_nothing_twice(pair: Pair, said: Path) -> None:
    """Where a launcher runs already, and the store does not know it. The histories kill daemons between commits."""
    pair.let_go()
    assert _kills_daemon(pair, "gpu", ["start.after"], said) == 1


PARTS = 4


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("host", HOSTS)
def test_a_daemon_that_is_killed_at_any_point_that_an_order_passes_begins_nothing_twice(
    pair: Pair, host: str, part: int, said: Path
) -> None:
    pair.let_go()
    passed = _points_of(pair, host, said)
    numbers = range(passed.before, len(passed.names) + 1)[part::PARTS]
    # Not each time are there as many points.
    assert _kills_daemon(pair, host, numbers, said) >= len(numbers) * 3 // 4


def _crashes_database(pair: Pair, host: str, at: str) -> None:
    """The program of a host stands still at a point, and meanwhile the database is killed and begins anew."""
    place, other = _places(pair, host)
    pair.let_go()
    with other.daemon():
        place.environment["RUNWARD_FLEET_FAULT"] = f"stop@{at}"
        with place.daemon():
            pair.fire()
            wait_for(lambda: is_frozen(program(place)), f"a program that is frozen at {at}")
            pair.server.kill()
            pair.server.start()
            os.kill(program(place), signal.SIGCONT)
            wait_for(pair.is_over, "the end of the chain run", within=90.0)
            test_remote_steps.ran_once(pair)


def test_a_database_that_crashes_while_results_are_sent_loses_nothing(pair: Pair) -> None:
    _crashes_database(pair, "gpu", "fleet.orders.sent")


@pytest.mark.sweep
@pytest.mark.parametrize(("host", "at"), [(host, at) for host, points in POINTS.items() for at in points])
def test_a_database_that_crashes_at_any_point_of_a_program_loses_nothing(
    pair: Pair, host: str, at: str
) -> None:
    _crashes_database(pair, host, at)
