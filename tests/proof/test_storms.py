"""Runs that are made and finished at once: while the daemon works, while it is frozen, while it is down.

None is lost, none doubled, and all are judged soon after the last rename, SIGCONT or READY.
"""

import time
from collections import Counter
from datetime import datetime

import pytest
from tests.proof.account import account
from tests.proof.place import Place
from tests.waiting import wait_for

COUNT = 200
WITHIN = 20.0
"""Seconds: far above what it takes, for these tests run beside others; how fast it goes is the benchmark's subject."""
FROZEN = 3.0


def _storm(place: Place) -> float:
    """Make the runs without a pause; when the last rename was over (Unix seconds)."""
    for number in range(COUNT):
        place.finished_run(f"run-{number}")
    return time.time()


def _judged_at(place: Place) -> float:
    """When the last verdict was committed (Unix seconds)."""
    place.wait_ended(COUNT)
    lines = wait_for(
        lambda: found if len(found := place.log("session.finished")) >= COUNT else None, "every line"
    )
    return max(datetime.fromisoformat(str(line["committed_at"])).timestamp() for line in lines)


def _none_lost_none_doubled(place: Place) -> None:
    account(place)
    assert place.statuses() == {f"run-{number}": "completed" for number in range(COUNT)}
    ends = Counter(
        str(lane) for (lane,) in place.rows("select lane from events where type = 'SessionFinished'")
    )
    assert set(ends.values()) == {1}
    assert len(ends) == COUNT
    for number in range(COUNT):
        told = Counter(place.journal_of_ours(f"run-{number}"))
        assert told == {
            "session_started": 1,
            "contract_snapshotted": 1,
            "artifact_verified": 1,
            "status_changed": 1,
            "session_finished": 1,
        }


def test_a_storm_while_the_daemon_works_loses_and_doubles_nothing(place: Place) -> None:
    with place.serving():
        last = _storm(place)
        assert _judged_at(place) - last < WITHIN
    _none_lost_none_doubled(place)


@pytest.mark.prove
def test_a_storm_while_the_daemon_is_frozen_loses_and_doubles_nothing(place: Place) -> None:
    with place.serving() as daemon:
        daemon.stop()
        frozen = time.monotonic()
        _storm(place)
        # A freeze of less than two seconds is none by design: this one has to last.
        time.sleep(max(0.0, frozen + FROZEN - time.monotonic()))
        thawed = time.time()
        daemon.go_on()
        assert _judged_at(place) - thawed < WITHIN
    _none_lost_none_doubled(place)


@pytest.mark.prove
def test_a_storm_while_the_daemon_is_down_loses_and_doubles_nothing(place: Place) -> None:
    with place.serving():
        pass
    _storm(place)
    with place.serving():
        ready = time.time()
        assert _judged_at(place) - ready < WITHIN
    _none_lost_none_doubled(place)
