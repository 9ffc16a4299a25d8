"""Daemons that serve and launchers that are used again, killed where the one speaks to the other.

Whichever process is killed: each run has one verdict, its command ran at most once, and nothing is left alive in the end.
"""

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.launching import members
from tests.proof.place import Place, write
from tests.proof.processes import Process
from tests.waiting import wait_for

from runward.daemon.processes.proc import send_signal

SUPERSEDED: Final = 75
COMPLETED: Final = "run.completed.ok"
GONE: Final = "run.aborted.process_gone"

OF_THE_DAEMON: Final = (
    "start.before",
    "start.after",
    *(f"start.after commit.turn.{moment}" for moment in ("begin", "before", "after")),
    "start.recorded",
    "start.acknowledged",
    "start.ended",
    *(f"start.ended commit.turn.{moment}" for moment in ("begin", "before", "after")),
    "start.free",
    "start.freed",
)
"""From the order to the moment at which its launcher waits for another one."""

OF_A_LAUNCHER: Final = {
    **dict.fromkeys(
        ("launch.directory", "launch.forked", "launch.contained", "launch.announced"), (COMPLETED, 1)
    ),
    **dict.fromkeys(("launch.run_json", "launch.process_json", "launch.recorded"), (GONE, 0)),
    **dict.fromkeys(("launch.released", "launch.ended", "launch.announced_again"), (GONE, 1)),
    **dict.fromkeys(("launch.renamed", "launch.told", "launch.exit_json", "launch.over"), (COMPLETED, 1)),
}
"""What comes of the run, and how often its command ran. Before `run.json` another launcher begins it."""

SAMPLE: Final = 3
"""CI takes every so many of these points, `make sweep` all."""

SHORT: Final = 'echo "$RUNWARD_SESSION_ID" >> DIRECTORY/did'
WAITS: Final = f"{SHORT}; until [ -e DIRECTORY/go ]; do sleep 0.02; done"


class Served:
    """A place whose daemons are asked to start runs: short ones, and some that wait until they may end."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._asked: list[str] = []
        (place.directory / "playbooks").mkdir()
        for name, script in (("short", SHORT), ("waits", WAITS)):
            command = json.dumps(["sh", "-c", script.replace("DIRECTORY", str(place.directory))])
            write(place.directory / "playbooks" / f"{name}.playbook.yaml", f"command: {command}\n")

    def daemon(self) -> Process:
        daemon = self.place.daemon(fences_out=["spared"])
        self.place.wait_ready(daemon)
        return daemon

    def ask(self, playbook: str = "short") -> str:
        """Ask for a run; returns the key of its start."""
        said = {"at": float(len(self._asked)), "playbook": playbook, "given": {}, "cwd": "/"}
        self._asked.append(
            self.place.put_request({"type": "PlayRunRequested", "version": 1, "payload": said})
        )
        return self._asked[-1]

    def plan(self, who: str, deed: str) -> None:
        write(self.place.directory / who, deed)

    def passed(self, who: str, what: str = "passed") -> list[list[str]]:
        """Who passed which point, in order."""
        path = self.place.directory / f"{what}-{who}"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def reason(self, key: str) -> str | None:
        """The reason of a run's verdict; None before that."""
        query = "select reason_code from sessions join starts on session_key = sessions.key"
        for (reason,) in self.place.rows(f"{query} where starts.key = ? and status <> 'running'", key):
            return str(reason)
        return None

    def wait_over(self, key: str) -> str:
        return wait_for(lambda: self.reason(key), f"the verdict on {key}")

    def wait_told(self) -> None:
        """Until every line that is owed to a run is in it: a daemon that stops leaves the rest to the next one."""
        wait_for(lambda: self.place.rows("select count(*) from outbox") == [(0,)], "every line of the runs")

    def wait_begun(self, key: str) -> None:
        wait_for(lambda: self.ran(key), f"the command of {key}")

    def wait_free(self, daemon: Process, lost: int = 0) -> None:
        """Until all launchers that this daemon acknowledged wait for another order, but for so many that were killed."""

        def are_free() -> bool:
            points = [name for pid, name in self.passed("daemon") if int(pid) == daemon.pid]
            return 0 < points.count("start.acknowledged") - lost == points.count("start.freed")

        wait_for(are_free, "free launchers")

    def wait_struck(self, number: int) -> list[str]:
        """The launcher that was struck as this one in order, and where."""
        struck = wait_for(
            lambda: self.passed("launcher", "struck")[number - 1 :], "a launcher that is struck"
        )
        return struck[0]

    def directory(self, key: str) -> Path:
        ((directory,),) = self.place.rows("select directory from starts where key = ?", key)
        return Path(str(directory))

    def launcher(self, key: str) -> int:
        return int(json.loads((self.directory(key) / "run.json").read_text())["launcher"]["pid"])

    def ran(self, key: str) -> int:
        """How often its command ran."""
        did = self.place.directory / "did"
        if not did.exists() or not self.place.rows("select 1 from starts where key = ?", key):
            return 0
        return did.read_text().splitlines().count(self.directory(key).name)

    def launchers(self) -> list[int]:
        """Every living launcher, and what forks them: their words name the state directory, and nobody else's do."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            if os.fsencode(self.place.state) in words:
                found.append(int(entry.name))
        return found

    def check(self, runs: dict[str, tuple[str, int]]) -> None:
        """After the last daemon: what became of each run, once, and that nobody is left."""
        assert {key: (self.reason(key), self.ran(key)) for key in runs} == runs
        assert sorted(runs) == sorted(self._asked)
        starts = self.place.rows("select count(*), count(distinct session_key), min(state) from starts")
        assert starts == [(len(runs), len(runs), "begun")]
        for event in ("AttemptStarted", "AttemptEnded"):
            times = self.place.rows("select lane, count(*) from events where type = ? group by lane", event)
            assert len(times) == len(runs)
            assert {count for _, count in times} == {1}, event
        for key in runs:
            told = self.place.journal_of_ours(self.directory(key).name)
            assert len(told) == len(set(told)) >= 2
        assert list((self.place.state / "inbox").iterdir()) == []
        assert members(str(self.place.runs)) == []
        wait_for(lambda: not self.launchers(), f"the end of the launchers {self.launchers()}")

    def close(self) -> None:
        for pid in (*members(str(self.place.runs)), *self.launchers()):
            send_signal(pid, signal.SIGKILL)


@pytest.fixture
def served(place: Place) -> Iterator[Served]:
    made = Served(place)
    yield made
    made.close()


def _kill_daemons(served: Served, points: Sequence[str]) -> None:
    """A daemon that serves is killed at each of the points, while a launcher carries out its second order."""
    runs: dict[str, tuple[str, int]] = {}
    last = None
    for point in points:
        daemon = served.daemon()
        if last is not None:
            served.wait_over(last)
        first = served.ask()
        served.wait_over(first)
        served.wait_free(daemon)
        served.plan("daemon", f"kill {point}")
        last = served.ask()
        assert daemon.wait() == -signal.SIGKILL, point
        if point != "start.before":  # else another daemon orders it, from a launcher of its own
            assert served.launcher(last) == served.launcher(first), "it is used again"
        runs |= {first: (COMPLETED, 1), last: (COMPLETED, 1)}
    with served.place.serving():
        for key in runs:
            served.wait_over(key)
        served.wait_told()
    served.check(runs)


def _kill_launchers(served: Served, points: Sequence[str]) -> None:
    """Beside one daemon, launchers are killed, one at each of the points, while they carry out a further order."""
    runs: dict[str, tuple[str, int]] = {}
    daemon, lost = served.daemon(), 0
    for number, point in enumerate(points, start=1):
        first = served.ask()
        served.wait_over(first)
        served.wait_free(daemon, lost)
        served.plan("launcher", f"kill {point}")
        last = served.ask()
        struck, name = served.wait_struck(number)
        assert name == point
        assert served.passed("launcher").count([struck, "launch.directory"]) > 1, "it was used again"
        runs |= {first: (COMPLETED, 1), last: OF_A_LAUNCHER[point]}
        # Before that another one carries the order out, or nobody announces the run.
        lost += [*OF_A_LAUNCHER].index(point) >= [*OF_A_LAUNCHER].index("launch.recorded")
    for key in runs:
        served.wait_over(key)
    served.wait_told()
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.said()[-3000:]
    served.check(runs)


def test_a_daemon_killed_when_it_hears_of_an_end_loses_and_doubles_nothing(served: Served) -> None:
    _kill_daemons(served, ["start.ended"])


@pytest.mark.prove
def test_a_daemon_that_serves_may_be_killed_at_some_points_where_it_speaks_to_a_launcher(
    served: Served,
) -> None:
    _kill_daemons(served, OF_THE_DAEMON[::SAMPLE])


@pytest.mark.sweep
@pytest.mark.longest
def test_a_daemon_that_serves_may_be_killed_wherever_it_speaks_to_a_launcher(served: Served) -> None:
    _kill_daemons(served, OF_THE_DAEMON)


def test_a_launcher_killed_before_it_tells_of_an_end_loses_and_doubles_nothing(served: Served) -> None:
    _kill_launchers(served, ["launch.renamed"])


@pytest.mark.prove
def test_a_launcher_that_is_used_again_may_be_killed_at_some_points(served: Served) -> None:
    _kill_launchers(served, [*OF_A_LAUNCHER][::SAMPLE])


@pytest.mark.sweep
@pytest.mark.longest
def test_a_launcher_that_is_used_again_may_be_killed_anywhere(served: Served) -> None:
    _kill_launchers(served, list(OF_A_LAUNCHER))


@pytest.mark.prove
def test_a_daemon_restarted_while_launchers_run_and_wait_knows_every_run_once(served: Served) -> None:
    daemon = served.daemon()
    running = [served.ask("waits") for _ in range(3)]
    for key in running:
        served.wait_begun(key)
    short = served.ask()
    served.wait_over(short)
    of_running = {served.launcher(key) for key in running}
    free = served.launcher(short)
    wait_for(lambda: served.passed("daemon").count([str(daemon.pid), "start.freed"]) == 1, "a free launcher")
    assert len(of_running) == 3
    # Three run, one is free, one has had no order yet, and one process forks them.
    before = wait_for(lambda: found if len(found := {*served.launchers()}) == 6 else None, "six of them")
    assert before > of_running | {free}
    daemon.kill()
    wait_for(lambda: {*served.launchers()} == of_running, "the end of all that carry out nothing")
    with served.place.serving():
        after = served.ask()
        served.wait_over(after)
        assert [served.reason(key) for key in running] == [None] * 3
        write(served.place.directory / "go", "")
        for key in running:
            served.wait_over(key)
        served.wait_told()
    served.check(dict.fromkeys((*running, short, after), (COMPLETED, 1)))


@pytest.mark.prove
@pytest.mark.parametrize(
    "point",
    [
        "start.before",
        pytest.param("start.after", marks=pytest.mark.sweep),
        "start.recorded",
        pytest.param("start.ended", marks=pytest.mark.sweep),
    ],
)
def test_a_superseded_daemon_begins_nothing_twice_with_its_launchers(served: Served, point: str) -> None:
    first = served.daemon()
    running = served.ask("waits")
    served.wait_begun(running)
    short = served.ask()
    served.wait_over(short)
    wait_for(lambda: served.passed("daemon").count([str(first.pid), "start.freed"]) == 1, "a free launcher")
    served.plan("daemon", f"stop {point}")
    last = served.ask()
    assert first.wait_stopped()
    (served.place.state / "lock").unlink()
    with served.place.serving():
        if point == "start.before":
            served.wait_over(last)
        first.go_on()  # it orders the run from its free launcher, or acknowledges what that announced
        assert first.wait() == SUPERSEDED, first.said()[-3000:]
        served.wait_over(last)
        write(served.place.directory / "go", "")
        served.wait_over(running)
        served.wait_told()
    served.check(dict.fromkeys((running, short, last), (COMPLETED, 1)))
