"""Events of one host fire chains on another one, each once, whatever is killed or stops in between."""

import json
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
name: on-build
trigger: {event: EVENT, host: build}
steps:
  - {id: note, skill: note, with: {what: "{{ trigger.host }} {{ chain.event_id }}"}}
"""
NOTE = 'name: note\ncommand: [sh, -c, \'echo "$1" >> "$0"\', PLACE/noted, "{{ with.what }}"]\n'
WORK = "name: work\ncommand: [sh, -c, 'exit 0']\n"
ACCEPT = '\n[[fleet.accept]]\nfrom = ["build"]\nevents = ["data.ready", "session.finished"]\n'


class Pair:
    """`laptop`, which has a chain that waits for events of the host `build`."""

    def __init__(self, server: Server, database: str, laptop: Place, build: Place) -> None:
        self.server, self.database, self.laptop, self.build = server, database, laptop, build

    def waits_for(self, event: str) -> None:
        (self.laptop.directory / "chains/on-build.yaml").write_text(CHAIN.replace("EVENT", event))

    def tell(self, place: Place, name: str) -> None:
        told = place.call("event", "emit", "data.ready", "--id", name, "data=set")
        assert told.code == 0, told.err

    def noted(self) -> list[str]:
        path = self.laptop.directory / "noted"
        return path.read_text().splitlines() if path.exists() else []

    def heard(self) -> list[str]:
        rows = self.build.rows("select heard from fleet_reporting")
        return list(json.loads(str(rows[0][0]))) if rows else []

    def firings(self) -> list[tuple[object, ...]]:
        return self.laptop.rows("select result, count(*) from firings group by result order by result")

    @contextmanager
    def daemons(self) -> Iterator[None]:
        with self.laptop.daemon(), self.build.daemon():
            yield


@pytest.fixture
def pair(postgresql: Server, database: str, office: Place, laptop: Place, tmp_path: Path) -> Pair:
    build = new_place(tmp_path / "build")
    joined(office, laptop, "laptop")
    joined(office, build, "build")
    with (laptop.directory / "runward.toml.d/fleet.toml").open("a") as file:
        file.write(ACCEPT)
    (laptop.directory / "runward.toml").write_text(
        (laptop.directory / "runward.toml").read_text() + 'chains = ["chains"]\n'
    )
    (laptop.directory / "chains").mkdir()
    for place, name, text in ((laptop, "note", NOTE), (build, "work", WORK)):
        text = text.replace("PLACE", str(place.directory))
        (place.directory / f"playbooks/{name}.playbook.yaml").write_text(text)
    made = Pair(postgresql, database, laptop, build)
    made.waits_for("data.ready")
    return made


def test_an_event_of_another_host_fires_a_chain_once(pair: Pair) -> None:
    with pair.daemons():
        wait_for(lambda: pair.heard() == ["data.ready", "session.finished"], "what the laptop accepts")
        for _ in range(2):
            pair.tell(pair.build, "one")
        pair.tell(pair.laptop, "of-the-laptop")
        wait_for(lambda: pair.noted() == ["build build/one"], "a step of the chain")
        pair.tell(pair.build, "two")
        wait_for(lambda: pair.noted() == ["build build/one", "build build/two"], "another one")
        assert pair.firings() == [("firing.fired.event", 2)]


POINTS = {
    "build": ("fleet.events.read", "fleet.events.sent", "fleet.events.committed"),
    "laptop": ("fleet.events.looked", "fleet.events.put"),
}
"""By the host whose program is killed there."""

SAMPLE = (("build", "fleet.events.committed"), ("laptop", "fleet.events.put"))


@pytest.mark.parametrize(("host", "at"), SAMPLE)
def test_a_program_that_is_killed_brings_each_event_once(pair: Pair, host: str, at: str) -> None:
    _kills_program(pair, host, at)


@pytest.mark.sweep
@pytest.mark.parametrize(("host", "at"), [(host, at) for host, points in POINTS.items() for at in points])
def test_a_program_that_is_killed_at_any_point_brings_each_event_once(pair: Pair, host: str, at: str) -> None:
    _kills_program(pair, host, at)


def _kills_program(pair: Pair, host: str, at: str) -> None:
    """Each program of a daemon is killed at a point. The next daemon's is not."""
    place = pair.laptop if host == "laptop" else pair.build
    with pair.daemons():
        wait_for(pair.heard, "what the laptop accepts")
    place.environment["RUNWARD_FLEET_FAULT"] = f"kill@{at}"
    with pair.daemons():
        pair.tell(pair.build, "one")
        wait_for(lambda: _killed(place), f"a program that is killed at {at}")
    del place.environment["RUNWARD_FLEET_FAULT"]
    with pair.daemons():
        pair.tell(pair.build, "two")
        wait_for(lambda: len(pair.noted()) == 2, "both firings")
        wait_for(lambda: not pair.build.rows("select 1 from fleet_events"), "events that are told")
        assert sorted(pair.noted()) == ["build build/one", "build build/two"]
        assert pair.firings() == [("firing.fired.event", 2)]


def _killed(place: Place) -> bool:
    report = json.loads((place.state / "status.json").read_bytes())
    return any("ended with -9" in str(each) for each in report["degraded"])


def test_what_happens_while_the_database_is_down_fires_the_chain_once_it_is_back(pair: Pair) -> None:
    pair.waits_for("session.finished")
    with pair.daemons():
        wait_for(pair.heard, "what the laptop accepts")
    pair.server.stop()
    try:
        # This daemon has not asked the fleet since it started: it knows what others accept from before.
        with pair.build.daemon():
            pair.build.add_run("native-1", exit_code=0)
            wait_for(lambda: pair.build.rows("select 1 from fleet_events"), "an event that is owed")
    finally:
        pair.server.start()
    with pair.daemons():
        wait_for(lambda: len(pair.noted()) == 1, "the chain's step")
        assert pair.noted()[0].startswith("build build/native:")
        ((fields,),) = pair.laptop.rows("select trigger_event from chain_runs")
        assert json.loads(str(fields))["cwd"] is None
