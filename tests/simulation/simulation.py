"""A history from its seed: the whole daemon on a simulated machine, from the watch to the outbox.

`run` plays two hundred deeds under faults, turns the faults off, waits until all is quiet, stops
the daemon in order, lets `daemon --once` look again, and checks the laws all the way.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from tests.simulation.agent_laws import count_rare_sessions
from tests.simulation.broken import Broken
from tests.simulation.chains import OPEN_JOBS, STILL_RUNNING
from tests.simulation.laws import Laws
from tests.simulation.ports import INBOX, journal_path
from tests.simulation.standing_in import simulated
from tests.simulation.story import Story
from tests.simulation.tally import Tally
from tests.simulation.universe import Universe

SEEDS: Final = range(500)
"""The histories that are always the same: CI plays the first tenth of them, `make sweep` all others, `make explore` those first."""

IN_CI: Final = SEEDS[: len(SEEDS) // 10]
"""And as many more as it takes until every fault struck and every rare path was taken."""

PATIENCE: Final = 400.0
"""Virtual seconds after the last fault within which everything must be quiet."""

STEP: Final = 1.0


@dataclass(frozen=True, slots=True)
class History:
    """What came of a seed: a digest of the store, the journals and the trace."""

    seed: int
    digest: str
    tally: Tally
    trace: tuple[str, ...]
    seconds: float


class HistoryFailed(AssertionError):
    """A seed that shows a bug. Its message says how to play it again."""

    def __init__(self, seed: int, why: BaseException, trace: list[str]) -> None:
        tail = "\n".join(trace[-60:])
        super().__init__(
            f"seed {seed}: {why}\nplay it again: RUNWARD_SEED={seed} pytest tests/simulation\n{tail}"
        )
        self.why = why
        self.trace = trace


def run(seed: int, trades: bool = False) -> History:
    """Play the history of `seed`, in one that `trades` with an exchange. Raises `HistoryFailed`."""
    tally = Tally()
    universe = Universe(str(seed), tally)
    try:
        with simulated(universe):
            _play(universe, trades)
    except Exception as error:
        raise HistoryFailed(seed, error, universe.trace) from error
    finally:
        universe.disk.close()
    return History(seed, universe.digest, tally, tuple(universe.trace), universe.timeline.time)


def _play(universe: Universe, trades: bool) -> None:
    story = Story(universe)
    laws = Laws(universe, story.places)
    ending = Ending(universe, story, laws)
    story.plan()
    if trades:
        story.trade()
    assert story.left == 0
    universe.timeline.after(0.5, universe.start_if_none)
    universe.timeline.after(STEP, ending.watch)
    universe.timeline.after(max(story.last, universe.foreign_agents.last) + 25.0, ending.begin)
    universe.timeline.run()


class Ending:
    """How a history comes to rest, and the checks on the way."""

    def __init__(self, universe: Universe, story: Story, laws: Laws) -> None:
        self._universe = universe
        self._story = story
        self._laws = laws
        self._calm_since = 0.0
        self._events = 0
        self._quiet = False

    def watch(self) -> None:
        """Check what always holds, again and again."""
        self._laws.always()
        if self._story.first_seen is None:
            for (at,) in self._universe.peek("select first_seen_at from roots where name = 'old'"):
                self._story.first_seen = at
        if not self._universe.chaos.calm:
            self._universe.timeline.after(STEP, self.watch)

    def begin(self) -> None:
        """All faults are off; what was broken is fixed; anyone who is frozen goes on."""
        universe = self._universe
        universe.say("calm")
        universe.chaos.calm = True
        universe.chaos.full = universe.disk.full = False
        universe.bugs.clear()
        universe.thaw()
        self._calm_since = universe.timeline.time
        universe.timeline.after(0.5, self._settle)

    def _settle(self) -> None:
        """Put right what people would, then wait for rest."""
        universe = self._universe
        universe.start_if_none()
        self._story.people.take_all_roots()
        self._story.people.retry_held()
        self._story.people.accept_roots()
        self._story.people.ask_for_scan()
        universe.timeline.after(20.0, self._rest)

    def _rest(self) -> None:
        universe = self._universe
        self._laws.always()
        was_quiet, self._quiet = self._quiet, self._is_quiet()
        if (
            was_quiet and self._quiet
        ):  # what ended a moment ago in a root that is not watched is seen by asking
            self._laws.at_rest()
            self._events = self._recorded()
            for daemon in universe.daemons:
                if daemon is not universe.current and not daemon.process.over:
                    daemon.process.kill()
            assert universe.current is not None
            universe.current.stop()
            universe.timeline.after(25.0, self._look_again)
        elif universe.timeline.time - self._calm_since > PATIENCE:
            self._laws.at_rest()
            raise Broken(f"still not quiet {PATIENCE} s after the last fault")
        else:
            universe.timeline.after(5.0, self._rest)

    def _recorded(self) -> int:
        """How many events were ever recorded.

        Where the clock was stepped, of native runs only: anyone who starts anew has nothing but the clock to say when this
        machine started, and what is older than that, and of which no process is known, is over. Time goes on, so that a
        timer of what is over may ring.
        """
        ours = " and lane like 'native:%'" if self._universe.clock.stepped else ""
        with self._universe.whole_record():
            return int(
                self._universe.peek(f"select count(*) from events where type <> 'TimerRang'{ours}")[0][0]
            )

    def _is_quiet(self) -> bool:
        universe, daemon = self._universe, self._universe.current
        if daemon is None or not daemon.ready or universe.frozen() or universe.kernel.names(INBOX):
            return False
        supervisor = daemon.supervisor
        if self._story.people.held():
            self._story.people.retry_held()
            return False
        if any(
            self._universe.kernel.exists(journal_path(directory)) for directory, _ in self._laws.uncompared()
        ):
            return False
        owed = supervisor.assembly.outbox.owed - len(self._laws.waiting())
        busy = len(supervisor.assembly.hints) or owed or supervisor.assembly.outbox.unsynced
        doubted = any(root.doubted or root.due for root in supervisor.assembly.roots.values())
        open_jobs = universe.peek(f"select count(*) from ({OPEN_JOBS})")
        open_jobs += universe.peek("select count(*) from starts where state = 'owed'")
        open_jobs += universe.peek("select count(*) from notices where state = 'pending'")
        open_jobs += universe.peek("select count(*) from worktrees where removed_at is null")
        open_jobs += universe.peek("select count(*) from prunings where ended_at is null")
        open_jobs += universe.peek(
            f"select count(*) from ({universe.chains.not_over} union all {STILL_RUNNING})"
        )
        busy = busy or universe.launchers.busy() or universe.chains.watching
        return not busy and not doubted and sum(count for (count,) in open_jobs) == 0

    def _look_again(self) -> None:
        """`daemon --once` over what is done changes nothing."""
        if self._universe.current is not None:
            raise Broken("the daemon doesn't stop")
        self._universe.start_daemon(once=True)
        self._universe.timeline.after(60.0, self._end)

    def _end(self) -> None:
        universe = self._universe
        if universe.current is not None:
            raise Broken("daemon --once doesn't end")
        self._laws.at_rest()
        self._laws.count_rare_paths()
        with universe.whole_record():
            count_rare_sessions(universe)
        events = self._recorded()
        if events != self._events:
            raise Broken(f"{events - self._events} events were recorded by looking once more")
        universe.digest = digest(universe)
        universe.timeline.finish()


def digest(universe: Universe) -> str:
    """One hash over the store, every file and the trace."""
    whole = hashlib.sha256()
    for line in universe.disk.world.iterdump():
        whole.update(line.encode())
    for path, node in universe.kernel.files():
        whole.update(path.encode() + b"\0" + bytes(node.data))
    whole.update("\n".join(universe.trace).encode())
    return whole.hexdigest()
