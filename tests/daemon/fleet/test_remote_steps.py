"""A chain of one host runs steps on another one, at most once each, whatever is killed or stops in between."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined, new_place
from tests.waiting import wait_for

pytestmark = pytest.mark.prove
"""Each starts two daemons with programs, which takes several seconds."""

CHAIN = """\
name: show
trigger: {manual: true}
steps:
  - {id: train, skill: train, host: gpu-box, with: {data: "{{ trigger.data }}"}}
  - {id: publish, skill: publish, condition: "{{ steps.train.outcome.passed }}"}
"""
TRAIN = """\
name: train
command:
  - sh
  - -c
  - 'echo "$1" >> "$0"; until [ -e "$0.go" ]; do sleep 0.02; done;
     echo "{\\"outcome_kind\\": \\"ci_result\\", \\"summary\\": \\"trained\\", \\"passed\\": true}" > "$RUNWARD_ARTIFACTS_DIR/outcome.json"'
  - PLACE/did
  - "{{ with.data }}"
"""
PUBLISH = "name: publish\ncommand: [sh, -c, 'echo published >> \"$0\"', PLACE/did]\n"
ACCEPT = '\n[[fleet.accept]]\nfrom = ["laptop"]\nskills = ["train*"]\n'


class Pair:
    """`laptop` with the chain, and `gpu`, the host gpu-box, with the playbook of its step."""

    def __init__(self, server: Server, database: str, laptop: Place, gpu: Place) -> None:
        self.server, self.database, self.laptop, self.gpu = server, database, laptop, gpu

    def fire(self, data: str = "one") -> None:
        told = self.laptop.call("chain", "fire", "show", f"data={data}")
        assert told.code == 0, told.err

    def let_go(self) -> None:
        (self.gpu.directory / "did.go").touch()

    def runs(self) -> list[tuple[object, ...]]:
        return self.laptop.rows("select status, reason_code from chain_runs order by created_at")

    def step(self) -> tuple[object, ...]:
        rows = self.laptop.rows(
            "select status, reason_code from chain_steps where step = 0 order by attempt desc"
        )
        return rows[0] if rows else ()

    def did(self, place: Place) -> list[str]:
        path = place.directory / "did"
        return path.read_text().splitlines() if path.exists() else []

    def orders(self) -> list[tuple[object, ...]]:
        with self.server.admin(self.database) as admin:
            return admin.execute(
                "select state, takes, settled_at is not null from runward.orders order by placed_at"
            ).fetchall()

    @contextmanager
    def daemons(self) -> Iterator[None]:
        with self.laptop.daemon(), self.gpu.daemon():
            yield

    def are_heard(self, *hosts: str) -> bool:
        """Whether the programs of these hosts have given a sign of life: from then on they hear of orders by notices."""
        with self.server.admin(self.database) as admin:
            heard = admin.execute("select name from runward.hosts where says_begun").fetchall()
        return {(host,) for host in hosts} <= set(heard)

    def is_over(self) -> bool:
        """The chain run is over, and both hosts and the database agree on all of it."""
        if [status for status, _ in self.runs() if status != "running"] == []:
            return False
        return all(place.rows("select 1 from fleet_outbox") == [] for place in (self.laptop, self.gpu))


def degraded(place: Place) -> list[str]:
    report = json.loads((place.state / "status.json").read_bytes())
    return [each for each in map(str, report["degraded"]) if each.startswith("fleet: ")]


def program(place: Place) -> int:
    """The process id of the program of this place's daemon."""
    lines = (place.state / "log/runward.jsonl").read_text().splitlines()
    started = [line for line in map(json.loads, lines) if line["event"] == "fleet.started"]
    return int(started[-1]["pid"]) if started else 0


@pytest.fixture
def pair(postgresql: Server, database: str, office: Place, laptop: Place, tmp_path: Path) -> Pair:
    gpu = new_place(tmp_path / "gpu")
    joined(office, laptop, "laptop")
    joined(office, gpu, "gpu-box")
    with (gpu.directory / "runward.toml.d/fleet.toml").open("a") as file:
        file.write(ACCEPT)
    (laptop.directory / "runward.toml").write_text(
        (laptop.directory / "runward.toml").read_text() + 'chains = ["chains"]\n'
    )
    (laptop.directory / "chains").mkdir()
    (laptop.directory / "chains/show.yaml").write_text(CHAIN)
    for place, name, text in ((gpu, "train", TRAIN), (laptop, "publish", PUBLISH)):
        text = text.replace("PLACE", str(place.directory))
        (place.directory / f"playbooks/{name}.playbook.yaml").write_text(text)
    return Pair(postgresql, database, laptop, gpu)


COMPLETED = ("completed", "chain.completed.ok")


def ran_once(pair: Pair) -> None:
    assert pair.runs() == [COMPLETED]
    assert pair.did(pair.gpu) == ["one"]
    assert pair.did(pair.laptop) == ["published"]
    assert pair.orders() == [("ended", 1, True)]
    assert pair.gpu.rows("select state from orders_taken") == [("ended",)]


def test_a_step_runs_on_another_host_and_the_chain_continues_with_its_outcome(pair: Pair) -> None:
    with pair.daemons():
        pair.fire()
        wait_for(lambda: pair.step() == ("running", "step.running.remote"), "a step that runs there")
        pair.let_go()
        wait_for(pair.is_over, "the end of the chain run")
        ran_once(pair)


def test_what_the_settings_of_the_target_do_not_accept_fails_with_its_reason(pair: Pair) -> None:
    settings = pair.gpu.directory / "runward.toml.d/fleet.toml"
    settings.write_text(settings.read_text().replace('"train*"', '"render"'))
    with pair.daemons():
        pair.fire()
        wait_for(pair.is_over, "the end of the chain run")
        assert pair.step() == ("failed", "step.failed.declined")
        assert pair.did(pair.gpu) == []
        assert pair.orders() == [("declined", 1, True)]
        shown = pair.laptop.call("chain", "run", "show", "@last")
        assert "gpu-box" in shown.out
        assert "fleet.accept" in shown.out


def test_without_an_entry_nothing_is_taken_and_the_step_waits(pair: Pair) -> None:
    settings = pair.gpu.directory / "runward.toml.d/fleet.toml"
    text = settings.read_text()
    settings.write_text(text.replace(ACCEPT, ""))
    with pair.daemons():
        pair.fire()
        wait_for(lambda: pair.orders() == [("open", 0, False)], "an open order")
        wait_for(lambda: pair.step() == ("waiting", "step.waiting.host"), "a step that waits")
        settings.write_text(text)
        pair.let_go()
        wait_for(pair.is_over, "the end of the chain run")
        ran_once(pair)


def test_a_database_that_is_down_while_the_step_runs_delays_only_its_result(pair: Pair) -> None:
    with pair.daemons():
        pair.fire()
        wait_for(lambda: pair.did(pair.gpu) == ["one"], "a step that runs there")
        wait_for(lambda: pair.step() == ("running", "step.running.remote"), "its origin knows")
        pair.server.stop()
        try:
            pair.let_go()
            wait_for(
                lambda: pair.gpu.rows("select 1 from orders_taken where state = 'ended'"),
                "a verdict without the database",
            )
            assert pair.runs()[0][0] == "running"
        finally:
            pair.server.start()
        wait_for(pair.is_over, "the end of the chain run")
        ran_once(pair)


POINTS = {
    "laptop": (
        "fleet.orders.read",
        "fleet.orders.sent",
        "fleet.orders.committed",
        "fleet.orders.told",
        "fleet.orders.looked",
        "fleet.orders.put",
    ),
    "gpu": (
        "fleet.orders.looked",
        "fleet.orders.taken",
        "fleet.orders.put",
        "fleet.orders.read",
        "fleet.orders.sent",
        "fleet.orders.committed",
        "fleet.orders.told",
    ),
}
"""By the host whose program is killed there."""


SAMPLE = (("gpu", "fleet.orders.taken"), ("gpu", "fleet.orders.sent"))


def _killed(place: Place) -> bool:
    return any("ended with -9" in each for each in degraded(place))


@pytest.mark.parametrize(("host", "at"), SAMPLE)
def test_a_program_that_is_killed_loses_nothing_and_begins_nothing_twice(
    pair: Pair, host: str, at: str
) -> None:
    _kills_program(pair, host, at)


@pytest.mark.sweep
@pytest.mark.parametrize(("host", "at"), [(host, at) for host, points in POINTS.items() for at in points])
def test_a_program_that_is_killed_at_any_point_loses_nothing(pair: Pair, host: str, at: str) -> None:
    _kills_program(pair, host, at)


def _kills_program(pair: Pair, host: str, at: str) -> None:
    """Each program of a daemon is killed at a point. The next daemon's is not."""
    place = pair.laptop if host == "laptop" else pair.gpu
    place.environment["RUNWARD_FLEET_FAULT"] = f"kill@{at}"
    pair.let_go()
    with pair.daemons():
        pair.fire()
        wait_for(lambda: _killed(place), f"a program that is killed at {at}")
    del place.environment["RUNWARD_FLEET_FAULT"]
    with pair.daemons():
        wait_for(pair.is_over, "the end of the chain run")
        ran_once(pair)


def test_a_program_that_is_killed_is_replaced_and_goes_on(pair: Pair) -> None:
    with pair.daemons():
        pair.fire()
        wait_for(lambda: pair.did(pair.gpu) == ["one"], "a step that runs there")
        for place in (pair.laptop, pair.gpu):
            os.kill(program(place), signal.SIGKILL)
        pair.let_go()
        wait_for(pair.is_over, "the end of the chain run")
        ran_once(pair)


@pytest.mark.parametrize("host", ["gpu", pytest.param("laptop", marks=pytest.mark.sweep)])
def test_a_daemon_that_is_killed_while_the_step_runs_changes_nothing(pair: Pair, host: str) -> None:
    place, other = (pair.laptop, pair.gpu) if host == "laptop" else (pair.gpu, pair.laptop)
    with other.daemon():
        with place.daemon_process() as daemon:
            pair.fire()
            wait_for(lambda: pair.did(pair.gpu) == ["one"], "a step that runs there")
            daemon.kill()
            daemon.wait()
        pair.let_go()
        with place.daemon():
            wait_for(pair.is_over, "the end of the chain run")
            ran_once(pair)


def test_a_chain_run_that_is_cancelled_ends_its_step_on_the_other_host(pair: Pair) -> None:
    with pair.daemons():
        pair.fire()
        wait_for(lambda: pair.did(pair.gpu) == ["one"], "a step that runs there")
        wait_for(lambda: pair.step() == ("running", "step.running.remote"), "its origin knows")
        ((run,),) = pair.laptop.rows("select id from chain_runs")
        assert pair.laptop.call("chain", "run", "cancel", str(run)).code == 0
        wait_for(
            lambda: pair.gpu.rows("select status from sessions") == [("cancelled",)], "the end of the session"
        )
        wait_for(lambda: pair.orders() == [("ended", 1, True)], "a settled order")
        wait_for(lambda: pair.runs()[0][0] == "cancelled", "the end of the chain run")


def test_both_hosts_say_where_a_running_step_is_and_who_ordered_it(pair: Pair) -> None:
    with pair.daemons():
        pair.fire()
        wait_for(lambda: pair.did(pair.gpu) == ["one"], "a step that runs there")
        began = "select result ->> '$.began_there' from chain_steps where step = 0"
        wait_for(lambda: pair.laptop.rows(began) == [("yes",)], "its origin knows that it began")
        run = json.loads(pair.laptop.call("chain", "run", "show", "@last", "--json").out)
        step, name = run["steps"][0], run["chain_run_id"]
        session = step["session_id"]
        assert (step["status"], step["host"], step["began_there"]) == ("running", "gpu-box", "yes")
        assert step["taken_at"] is not None
        for asked in (name, f"{name}-0-1", session):
            told = pair.laptop.call("why", asked).out
            assert f"step train runs on gpu-box ({session})" in told
            assert f"`runward why {session}` on gpu-box says more" in told
        entry = '[[fleet.accept]] from = ["laptop"], skills = ["train*"]'
        ordered = json.loads(pair.gpu.call("session", "show", session, "--json").out)["ordered_by"]
        assert ordered.pop("taken_at") is not None
        assert ordered == {
            "host": "laptop",
            "order": f"{name}-0-1",
            "chain": "show",
            "chain_run_id": name,
            "step": "train",
            "try": 1,
            "accepted_by": [entry],
        }
        shown = pair.gpu.call("session", "show", session).out
        assert f"laptop, for step train of show ({name})" in shown
        assert entry in shown
        told = pair.gpu.call("why", session).out
        assert f"laptop ordered it: step train of show ({name})" in told
        assert f"accepted by {entry}" in told
        assert json.loads(pair.laptop.call("why", name, "--json").out)["not_done"][0]["why"].startswith(
            "gpu-box took it at "
        )
        pair.let_go()
        wait_for(pair.is_over, "the end of the chain run")


def test_a_step_whose_taker_is_silent_ends_in_time_and_never_begins_once_that_is_back(pair: Pair) -> None:
    chain = pair.laptop.directory / "chains/show.yaml"
    chain.write_text(chain.read_text().replace('data }}"}}', 'data }}"}, start_within: 8s}'))
    summary = "select reason_summary from chain_steps where step = 0"
    pair.let_go()
    with pair.laptop.daemon():
        # The time runs from here on, so it must not have to start a program, too.
        wait_for(lambda: pair.are_heard("laptop"), "a program that reports")
        pair.fire()
        wait_for(lambda: pair.orders() == [("open", 0, False)], "an open order")
        with pair.server.admin(pair.database) as admin:
            # As a host does that dies right after it.
            admin.execute(
                "update runward.orders set state = 'taken', taken_by = 'gpu-box', taken_at = now(), takes = 1"
            )
        wait_for(lambda: pair.step() == ("running", "step.running.remote"), "its origin knows of the take")
        wait_for(lambda: pair.runs() == [("timed_out", "chain.timed_out.step_timed_out")], "the end in time")
        assert pair.step() == ("timed_out", "step.timed_out.start_within")
        ((why,),) = pair.laptop.rows(summary)
        assert "gpu-box took it at " in str(why)
        assert "it may have begun there" in str(why)
        with pair.gpu.daemon():
            wait_for(lambda: pair.orders() == [("withdrawn", 1, True)], "a settled order")
            wait_for(lambda: "it never began" in str(pair.laptop.rows(summary)), "what became of it")
    assert pair.did(pair.gpu) == []
    assert pair.gpu.rows("select 1 from sessions") == []


def test_a_step_that_nobody_took_in_time_never_began(pair: Pair) -> None:
    chain = pair.laptop.directory / "chains/show.yaml"
    chain.write_text(chain.read_text().replace('data }}"}}', 'data }}"}, start_within: 1s}'))
    with pair.laptop.daemon():
        pair.fire()
        wait_for(lambda: pair.orders() == [("withdrawn", 0, True)], "a withdrawn order")
        known = "select reason_summary, result ->> '$.began_there' from chain_steps where step = 0"
        never = "step train could not begin within 1 s (start_within); it never began: nobody had taken it"
        wait_for(lambda: pair.laptop.rows(known) == [(never, "no")], "what is known by now")
        shown = json.loads(pair.laptop.call("chain", "run", "show", "@last", "--json").out)["steps"][0]
        assert (shown["reason"]["summary"], shown["began_there"]) == (never, "no")


def test_an_order_is_taken_as_soon_as_it_is_placed(pair: Pair) -> None:
    """By a notice: without one it would take up to half a minute. It is the database's clock that says how long it took."""
    pair.let_go()
    with pair.daemons():
        wait_for(lambda: pair.are_heard("laptop", "gpu-box"), "two programs that report")
        pair.fire()
        wait_for(pair.is_over, "the end of the chain run")
        with pair.server.admin(pair.database) as admin:
            ((waited,),) = admin.execute(
                "select extract(epoch from taken_at - placed_at)::float from runward.orders"
            ).fetchall()
        assert float(str(waited)) < 15.0
