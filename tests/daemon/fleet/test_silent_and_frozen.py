"""A step on another host while a network is silent, a program is frozen, or the database's processes are killed: it runs once."""

import os
import signal
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet import test_remote_steps
from tests.daemon.fleet.test_remote_steps import POINTS, Pair, degraded, program, ran_once
from tests.demo.cable import Cable
from tests.waiting import wait_for

pytestmark = pytest.mark.prove

pair = test_remote_steps.pair


def _goes_through(place: Place, cable: Cable, port: int) -> None:
    """The place reaches the database by this cable."""
    settings = place.directory / "runward.toml.d/fleet.toml"
    text = settings.read_text()
    assert f":{port}/" in text
    settings.write_text(text.replace(f":{port}/", f":{cable.port}/"))


@pytest.mark.parametrize("host", ["gpu", pytest.param("laptop", marks=pytest.mark.sweep)])
def test_a_silent_network_delays_only_the_result(pair: Pair, host: str) -> None:
    place = pair.gpu if host == "gpu" else pair.laptop
    with Cable(pair.server.port) as cable:
        _goes_through(place, cable, pair.server.port)
        with pair.daemons():
            pair.fire()
            wait_for(lambda: pair.did(pair.gpu) == ["one"], "a step that runs there")
            cable.pull()
            pair.let_go()
            wait_for(
                lambda: pair.gpu.rows("select 1 from orders_taken where state = 'ended'"),
                "a verdict without the database",
            )
            # Nobody tells it: it notices by itself that nothing answers.
            wait_for(lambda: degraded(place), "that status says so", within=60.0)
            assert pair.runs()[0][0] == "running"
            cable.plug_in()
            wait_for(pair.is_over, "the end of the chain run", within=90.0)
            ran_once(pair)


def is_frozen(pid: int) -> bool:
    return pid > 0 and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _freezes_program(pair: Pair, host: str, at: str) -> None:
    """A program stands still at a point, in the middle of a transaction perhaps, until somebody wakes it."""
    place, other = (pair.gpu, pair.laptop) if host == "gpu" else (pair.laptop, pair.gpu)
    pair.let_go()
    with other.daemon():
        place.environment["RUNWARD_FLEET_FAULT"] = f"stop@{at}"
        with place.daemon():
            pair.fire()
            wait_for(lambda: is_frozen(program(place)), f"a program that is frozen at {at}")
            # Its daemon goes on without it.
            place.add_run("meanwhile", exit_code=0)
            wait_for(
                lambda: place.rows(
                    "select 1 from sessions where session_id = 'meanwhile' and status = 'completed'"
                ),
                "a verdict while it is frozen",
            )
            os.kill(program(place), signal.SIGCONT)
            wait_for(pair.is_over, "the end of the chain run", within=90.0)
            ran_once(pair)


def test_a_program_that_was_frozen_in_a_transaction_begins_nothing_twice(pair: Pair) -> None:
    _freezes_program(pair, "gpu", "fleet.orders.sent")


@pytest.mark.sweep
@pytest.mark.parametrize(("host", "at"), [(host, at) for host, points in POINTS.items() for at in points])
def test_a_program_that_was_frozen_anywhere_begins_nothing_twice(pair: Pair, host: str, at: str) -> None:
    _freezes_program(pair, host, at)


def test_a_killed_process_of_the_database_delays_only_the_result(pair: Pair) -> None:
    """All connections end with it, since the server begins anew."""
    with pair.daemons():
        pair.fire()
        wait_for(lambda: pair.did(pair.gpu) == ["one"], "a step that runs there")
        with pair.server.admin(pair.database) as admin:
            found = admin.execute("select pid from pg_stat_activity where usename like 'host_%'").fetchall()
        assert len(found) == 2
        os.kill(int(str(found[0][0])), signal.SIGKILL)
        pair.let_go()
        wait_for(pair.is_over, "the end of the chain run", within=90.0)
        ran_once(pair)
