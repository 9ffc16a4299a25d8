"""A whole daemon is frozen at each point, and goes on after its successor did the work, or it is killed there: one effect.

Random histories meet this too, but only a directed one shows what each of the two fences is worth:
the epoch that every write checks, and the token that a job is completed under.
"""

from contextlib import closing
from typing import Final

import pytest
from tests.simulation.chaos import Strike
from tests.simulation.daemons import Daemon
from tests.simulation.laws import Laws
from tests.simulation.runs import Run
from tests.simulation.standing_in import simulated
from tests.simulation.story import Story
from tests.simulation.tally import Tally
from tests.simulation.universe import ROOTS, Universe

from runward.daemon.host.supervisor import Supervisor
from runward.daemon.store.batch import Write
from runward.daemon.store.store import Store
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables import jobs
from runward.daemon.store.transaction import Fenced
from runward.handlers import route
from runward.handlers.model.requests import JobRetryRequested

SHORT: Final = 0.9
LONG: Final = 30.0
POINTS: Final = (
    "commit.turn.begin",
    "commit.turn.before",
    "commit.turn.after",
    "commit.finish.begin",
    "commit.finish.before",
    "commit.finish.after",
    "commit.apply.begin",
    "commit.apply.before",
    "commit.apply.after",
    "outbox.before",
    "journal.append.before",
    "journal.append.after",
    "outbox.after",
    "sweep.sync.before",
    "commit.outbox.begin",
    "commit.outbox.before",
    "commit.outbox.after",
)


class FrozenDaemon:
    """A run and a request, a daemon that is frozen at `point` over them, and its successor.

    A short time is one that its own heartbeat doesn't notice. With none, it is killed.
    """

    def __init__(self, point: str, seconds: float | None = SHORT) -> None:
        self.universe = Universe(f"frozen at {point}", Tally())
        self.story = Story(self.universe)
        self.laws = Laws(self.universe, self.story.places)
        self.point = point
        self.seconds = seconds
        self.frozen = False
        self.universe.chaos.calm = True
        self.universe.settings = self.universe.settings._replace(batch=256)
        self.universe.chaos.hits = self._hits  # type: ignore[method-assign] # this seed decides by itself

    def _hits(self, name: str) -> Strike | None:
        timeline = self.universe.timeline
        if name == self.point and not self.frozen and timeline.time > 1002.0:
            self.frozen = True
            timeline.after(0.1, self.universe.start_daemon)
            if self.seconds is None:
                return "crash"
            timeline.running.freeze(timeline.time + self.seconds)
        return None

    def close(self) -> None:
        self.universe.disk.close()

    def states_of(self, handler: str) -> list[str]:
        """The states of the jobs of this handler."""
        with self.universe.whole_record():
            rows = self.universe.peek("select state from jobs where handler = ?", (handler,))
        return [state for (state,) in rows]

    def play(self) -> Daemon:
        """Let it all happen; returns the daemon that was frozen."""
        timeline, run = self.universe.timeline, Run(self.story.scene, ROOTS[0], "run")
        run.playbook, run.snapshot, run.host = None, False, None
        request = JobRetryRequested("00000000-0000-4000-8000-000000000000", 0.0, 1 << 20)
        timeline.after(0.1, self.universe.start_daemon)
        for deed in (run.make, run.begin, run.end, lambda: self.story.people.request(request)):
            timeline.after(3.0, deed)
        timeline.after(33.5, run.talk)
        timeline.after(90.0, self.laws.at_rest)
        timeline.after(90.0, timeline.finish)
        with simulated(self.universe), pytest.MonkeyPatch.context() as patch:
            # A verdict that was foreseen needs no second transaction.
            if self.point.startswith("commit.finish."):
                patch.setattr(route, "foreseeing", lambda event: None)
            timeline.run()
        assert self.frozen
        assert run.place.exits
        return self.universe.daemons[0]


@pytest.mark.parametrize("seconds", [SHORT, LONG, pytest.param(None, id="killed")])
@pytest.mark.parametrize("point", POINTS)
def test_a_daemon_that_was_frozen_or_killed_there_does_nothing_twice(
    point: str, seconds: float | None
) -> None:
    with closing(FrozenDaemon(point, seconds)) as history:
        history.play()
        assert len(history.universe.daemons) > 1


def test_a_turn_that_was_held_between_claim_and_completion_is_refused_by_its_epoch() -> None:
    with closing(FrozenDaemon("commit.finish.begin")) as history:
        frozen = history.play()
        assert history.universe.tally.reached["a refused epoch"] == 1
        assert frozen.process.over


def without_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks which epoch it is, and the simulation doesn't mind."""
    patch.setattr(Store, "_check_epoch", lambda self, rows: None)
    patch.setattr(Supervisor, "_check_epoch", lambda self: None)
    patch.setattr(Daemon, "_committed", lambda self: None)


def test_without_the_epoch_the_token_refuses_it_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_epoch(monkeypatch)
    with closing(FrozenDaemon("commit.finish.begin")) as history:
        history.universe.refusals = (Fenced,)
        frozen = history.play()
        assert history.states_of("sessions/ended") == ["done"]
        assert frozen.process.over
        assert frozen.store.fences_refused > 0


def test_without_both_a_job_that_is_done_is_worked_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_epoch(monkeypatch)
    loose = Write(jobs.FINISH.sql.replace("and token = ? and state = 'running'", "and ? is not null"))
    assert loose.sql != jobs.FINISH.sql
    writes = tuple(loose if each is jobs.FINISH else each for each in tables.WRITES)
    monkeypatch.setattr(jobs, "FINISH", loose)
    monkeypatch.setattr(tables, "WRITES", writes)
    with closing(FrozenDaemon("commit.finish.begin")) as history:
        history.play()
        # The session's own guard refuses the second end. But what the successor had done is undone: its job is held.
        assert history.states_of("sessions/ended") == ["held"]
