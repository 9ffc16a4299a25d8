"""Two hosts whose clocks are four days apart: their daemons, programs and launchers decide as if the clocks were right."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet import test_events_of_hosts, test_remote_steps
from tests.daemon.fleet.test_remote_steps import CHAIN, Pair, ran_once
from tests.waiting import wait_for

pytestmark = pytest.mark.prove

pair = test_remote_steps.pair
other_pair = test_events_of_hosts.pair

TWO_DAYS = 2 * 86_400.0


@contextmanager
def _ahead_and_behind(ahead: Place, behind: Place) -> Iterator[None]:
    """Daemons whose clocks, and those of all that they start, are two days wrong."""
    for place, seconds in ((ahead, TWO_DAYS), (behind, -TWO_DAYS)):
        site = Path(__file__).with_name("wrong_clock")
        place.environment["PYTHONPATH"] = f"{site}:{place.environment['PYTHONPATH']}"
        place.environment["TESTS_CLOCK_IS_WRONG_BY"] = str(seconds)
    with ahead.daemon_process(), behind.daemon_process():
        yield


@pytest.mark.parametrize("is_ahead", [True, pytest.param(False, marks=pytest.mark.sweep)])
def test_a_step_runs_in_time_and_times_out_in_time_whatever_clocks_say(pair: Pair, is_ahead: bool) -> None:
    chains = pair.laptop.directory / "chains"
    (chains / "show.yaml").write_text(CHAIN.replace("host: gpu-box,", "host: gpu-box, start_within: 1h,"))
    # Nobody is there who could take the step of this one.
    late = CHAIN.replace("host: gpu-box,", "host: nobody, start_within: 2s,").replace(
        "name: show", "name: late"
    )
    (chains / "late.yaml").write_text(late)
    pair.let_go()
    hosts = (pair.laptop, pair.gpu) if is_ahead else (pair.gpu, pair.laptop)
    with _ahead_and_behind(*hosts):
        pair.fire()
        wait_for(pair.is_over, "the end of the chain run")
        ran_once(pair)
        ((started,),) = pair.gpu.rows("select started_at from sessions")
        assert abs(float(str(started)) - time.time()) > TWO_DAYS / 2, "its clock is wrong"
        for place in hosts:
            told = place.call("fleet", "verify")
            assert told.code == 0, told.out
        assert pair.laptop.call("chain", "fire", "late", "data=two").code == 0
        timed_out = "select 1 from chain_steps where reason_code = 'step.timed_out.start_within'"
        wait_for(lambda: pair.laptop.rows(timed_out), "that it times out")
        wait_for(lambda: pair.orders()[-1] == ("withdrawn", 0, True), "that its order is withdrawn")


def test_an_event_fires_a_chain_once_whatever_clocks_say(other_pair: test_events_of_hosts.Pair) -> None:
    pair = other_pair
    with _ahead_and_behind(pair.laptop, pair.build):
        wait_for(lambda: pair.heard() == ["data.ready", "session.finished"], "what the laptop accepts")
        for _ in range(2):
            pair.tell(pair.build, "one")
        wait_for(lambda: pair.noted() == ["build build/one"], "a step of the chain")
        pair.tell(pair.build, "two")
        wait_for(lambda: pair.noted() == ["build build/one", "build build/two"], "another one")
        assert pair.firings() == [("firing.fired.event", 2)]
