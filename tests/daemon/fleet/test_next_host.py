"""A step that any host with a label may run goes on to the next one if the first declines it, also if what hosts accept changes while it waits."""

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet import test_restored_fleet
from tests.daemon.fleet.test_remote_steps import COMPLETED
from tests.daemon.fleet.test_restored_fleet import Three
from tests.waiting import wait_for

from runward.daemon.configuration.offers import hosts_known

pytestmark = pytest.mark.prove

three = test_restored_fleet.three


def _accepts(place: Place, skill: str) -> None:
    """From now on it accepts this playbook instead."""
    path = place.directory / "runward.toml.d/fleet.toml"
    head, _, tail = path.read_text().partition("skills = ")
    path.write_text(f'{head}skills = ["{skill}"]{tail.partition("]")[2]}')


def _row(three: Three) -> tuple[object, ...]:
    with three.server.admin(three.database) as admin:
        (row,) = admin.execute(
            "select state, taken_by, takes, declined ->> 'gpu-box', declined ->> 'farm', settled_at is not null from runward.orders"
        ).fetchall()
    return row


def _shown(three: Three) -> str:
    return three.laptop.call("chain", "run", "show", "@last").out


def _ran_on_farm_after_gpu_declined(three: Three) -> None:
    wait_for(lambda: three.runs() == [COMPLETED], "the end of the chain run")
    wait_for(lambda: not three.owes(three.laptop, three.gpu, three.farm), "that nothing is owed")
    state, taker, takes, why, *rest = _row(three)
    assert (state, taker, takes, rest) == ("ended", "farm", 2, [None, True])
    assert "no [[fleet.accept]] here has skill 'train' from laptop" in str(why)
    assert three.did(three.gpu) == []
    assert three.did(three.farm) == ["one"]
    assert three.did(three.laptop) == ["published"]


def test_a_host_that_accepts_something_else_by_the_time_it_takes_the_step_leaves_it_to_the_next(
    three: Three,
) -> None:
    with three.laptop.daemon():
        with three.gpu.daemon(), three.farm.daemon():
            wait_for(lambda: _who_offers(three) == {"gpu-box", "farm"}, "that laptop knows what both offer")
        three.fire()
        wait_for(lambda: three.orders() == [("open", None, False)], "an open order")
        shown = _shown(three)
        assert "gpu-box (last seen" in shown, shown
        assert "farm (last seen" in shown
        _accepts(three.gpu, "render")
        with three.gpu.daemon():
            wait_for(lambda: _row(three)[3] is not None, "that gpu-box declines it")
            with three.farm.daemon():
                _ran_on_farm_after_gpu_declined(three)


def test_a_step_that_nobody_was_known_to_accept_runs_once_somebody_does(three: Three) -> None:
    _accepts(three.gpu, "render")
    with three.laptop.daemon():
        with three.gpu.daemon():
            wait_for(lambda: _has_said_what_it_offers(three), "that laptop knows that nobody offers it")
        three.fire()
        wait_for(lambda: three.orders() == [("open", None, False)], "an open order")
        assert "no host that is known here accepts it" in _shown(three)
        _accepts(three.gpu, "train")
        with three.gpu.daemon():
            wait_for(lambda: three.runs() == [COMPLETED], "the end of the chain run")
            wait_for(lambda: _who_offers(three) == {"gpu-box"}, "that laptop knows that gpu-box offers it")
    assert three.did(three.gpu) == ["one"]


def _who_offers(three: Three) -> set[str]:
    """Those that laptop knows to accept its step."""
    return {name for name, known in hosts_known(three.laptop.state).items() if "train" in known.skills}


def _has_said_what_it_offers(three: Three) -> bool:
    known = hosts_known(three.laptop.state).get("gpu-box")
    return known is not None and known.slots is not None and not known.skills
