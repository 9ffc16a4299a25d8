"""A stop is bounded though the world hangs: it ends with 0 in time, the runs live on, and the next daemon loses nothing."""

import re
import signal
import time
from pathlib import Path

import pytest
from tests.project.repository import ROOT
from tests.proof.account import Account, account, difference
from tests.proof.hangs import HANGS
from tests.proof.history import first_chapter, let_go
from tests.proof.place import Place
from tests.proof.processes import Forks
from tests.waiting import wait_for

from runward.daemon.host.signals import BOUND

LIMIT = 30.0
"""Seconds after which systemd would kill: `TimeoutStopSec` of the unit."""


@pytest.fixture(scope="module")
def undisturbed(in_memory: Path, forks: Forks) -> Account:
    """The account of a history in which nothing hung."""
    place = Place(in_memory / "undisturbed", forks)
    first_chapter(place)
    assert place.once() == 0
    let_go(place)
    return account(place)


def test_the_bound_leaves_systemd_time() -> None:
    units = [path.read_text() for path in (ROOT / "systemd").rglob("runward*.service")]
    limits = [
        float(limit) for unit in units for limit in re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    ]
    assert limits
    assert min(limits) >= LIMIT >= 2 * BOUND


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", HANGS)
def test_a_stop_ends_in_time_wherever_the_world_hangs(
    undisturbed: Account, in_memory: Path, forks: Forks, where: str
) -> None:
    place = Place(in_memory / where.replace(" ", "-"), forks)
    first_chapter(place)
    daemon = place.daemon(hangs=where)
    wait_for(lambda: "it hangs" in daemon.said() or daemon.ended(), f"a hang where {where}")
    began = time.monotonic()
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.said()
    assert time.monotonic() - began < LIMIT
    assert "Traceback" not in daemon.said()
    assert place.once() == 0
    let_go(place)
    parted = difference(undisturbed, account(place))
    assert not parted, parted


def test_a_second_signal_ends_a_stop_that_hangs_at_once_and_a_later_start_goes_on(
    undisturbed: Account, in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "second", forks)
    first_chapter(place)
    daemon = place.daemon(hangs="a line is written")
    wait_for(lambda: "it hangs" in daemon.said() or daemon.ended(), "a hang")
    daemon.send(signal.SIGTERM)
    wait_for(lambda: '"event":"stopping"' in daemon.said() or daemon.ended(), "the first SIGTERM")
    daemon.send(signal.SIGINT)
    assert daemon.wait() == 0, daemon.said()
    assert "stopped.by_force" in daemon.said()
    assert place.once() == 0
    let_go(place)
    assert not difference(undisturbed, account(place))


def test_settings_that_hang_while_they_are_read_again_keep_no_stop_from_its_end(place: Place) -> None:
    daemon = place.daemon(hangs="the settings are read again")
    place.wait_ready(daemon)
    daemon.send(signal.SIGHUP)
    wait_for(lambda: "it hangs" in daemon.said(), "a daemon that reads its settings again")
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.said()
    assert place.log("stopped"), "in order, for nothing that is written was waited for"
