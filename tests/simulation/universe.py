"""One simulated machine: its disk, its processes, the daemons on it, and what the seed does to them."""

import asyncio
import random
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

from tests.handlers.exchange.test_model import Act
from tests.simulation.broken import Broken
from tests.simulation.bundles import ShownReplays
from tests.simulation.chains import Chains
from tests.simulation.chaos import Chaos, Strike
from tests.simulation.daemons import Daemon
from tests.simulation.deliveries import Deliveries
from tests.simulation.foreign_agents import ForeignAgents
from tests.simulation.hooks import Hooks
from tests.simulation.kernel import Kernel, Node
from tests.simulation.launchers import Launchers
from tests.simulation.ports import EXCHANGE, INBOX, STATE, ProcessTable, SimulatedClock, Written
from tests.simulation.recipients import Recipients
from tests.simulation.restored_stores import Lives
from tests.simulation.storage import Disk
from tests.simulation.tally import Tally
from tests.simulation.virtual_time import Killed, Timeline
from tests.simulation.worktrees import Worktrees

from runward.config.root import Root
from runward.config.settings import Scan, Settings
from runward.daemon.disk.epoch import EpochPassed
from runward.daemon.log import Log, log_into
from runward.daemon.store.tables.replays import LastTold, told_actions
from runward.daemon.store.transaction import CommitUnknown, EpochRefused
from runward.handlers.calls import Told

ROOTS: Final = ("/srv/runs", "/srv/old")


PATHS_IN_THE_LOG: Final = {
    "clock.stepped": "a clock step noticed",
    "journal.torn_line_closed": "a torn foreign line closed off",
    "journals.not_compared": "a comparison that the store refused",
    "journal.unreadable": "a journal that couldn't be compared at once",
    "journal.gone": "a line owed to a directory that is gone",
    "inbox.rejected": "a rejected request",
    "watch.failed": "a watch that can't be had",
    "job.delayed": "a fact that can't be read now",
}


class Universe:
    """Everything of one history but its story. `trace` is what happened, for anyone who reads a failure."""

    def __init__(self, seed: str, tally: Tally) -> None:
        self.seed = seed
        self.tally = tally
        self.timeline = Timeline()
        self.clock = SimulatedClock(self.timeline)
        self.chaos = Chaos(seed, self.timeline, tally)
        self.deliveries = Deliveries(seed, self.timeline, self.chaos, tally)
        self.kernel = Kernel(
            lambda: int(self.clock.now() * 1e9),
            self.chaos,
            lambda path: self.deliveries.changed(self.kernel, path),
        )
        self.kernel.me = self._me
        self.kernel.appended = self._appended
        self.disk = Disk()
        self.table = ProcessTable()
        self.launchers = Launchers(self)
        self.worktrees = Worktrees(self)
        self.chains = Chains(self)
        self.recipients = Recipients(self)
        self.hooks = Hooks(self)
        self.foreign_agents = ForeignAgents(self)
        self.intents: dict[str, Mapping[str, Any] | None] = {}
        """What the texts mean that somebody wanted done in the exchange; None for what means nothing."""
        self.acts: dict[str, Act] = {}
        """The same in histories with call trees."""
        self.exchange = EXCHANGE
        self.unnamed: dict[str, str] = {}
        """Sessions of runs whose `run.json` did not say who they are when they began, and whether it says so later or never."""
        self.has_trees = False
        """Whether code runs in the exchange."""
        self.written: list[Written] = []
        self.shown = ShownReplays(self.kernel)
        self.lives = Lives()
        self.trace: list[str] = []
        self.daemons: list[Daemon] = []
        self.current: Daemon | None = None
        self._actor: str | None = None
        self._whole: sqlite3.Connection | None = None
        self.harmed: set[str] = set()
        """Journals from which a lying disk took what was synced, or in which somebody changed something."""
        self.left_out: set[str] = set()
        """The roots that were out of the settings for a while."""
        self.bugs: dict[str, str] = {}
        """Sessions in whose handlers, or handlers in which, there is a bug, and which."""
        self.digest = ""
        self.refusals: tuple[type[Exception], ...] = (EpochRefused, EpochPassed)
        """What a daemon may die of once another one took over."""
        self.rebooted: Callable[[], None] = lambda: None
        self._dice = random.Random(f"{seed}/world")
        self.pruning = random.Random(f"{seed}/pruning")
        """The dice of those who have the record pruned, in every other history."""
        self.packs = self.pruning.random() < 0.5
        """Whether sessions are packed soon: in every other history."""
        self.signs = random.Random(f"{seed}/signing").random() < 0.5
        """Whether receipts are signed when they are made: in every other history."""
        for path in (
            "/home",
            "/home/dev",
            "/home/dev/app",
            "/srv",
            *ROOTS,
            *(root.path for root in self.foreign_agents.roots),
            "/state",
            INBOX,
            "/state/rejected",
            "/state/starts",
        ):
            self.kernel.mkdir(path)
        self.flat = frozenset(self._dice.sample(ROOTS, 1)) if self._dice.random() < 0.2 else frozenset()
        self.all_roots = (
            Root("runs", ROOTS[0]),
            Root("old", ROOTS[1], history="record"),
            *self.foreign_agents.roots,
        )
        self.settings = Settings(
            str(STATE),
            roots=self.all_roots,
            batch=self._dice.choice((1, 3, 256, 256)),
            scan=Scan(self._dice.choice((30.0, 60.0))),
            retention=self.pruning.choice((None, None, 20.0, 60.0)),
        )

    def say(self, what: str) -> None:
        """Keep what happened for anyone who reads a failure."""
        self.trace.append(f"{self.timeline.time:9.3f} {what}")

    @contextmanager
    def acting_as(self, name: str) -> Iterator[None]:
        """What happens inside is done by a process of this name, which is no daemon."""
        self._actor = name
        try:
            yield
        finally:
            self._actor = None

    def _me(self) -> str:
        if self._actor is not None:
            return self._actor
        return "agent" if self.timeline.happening else self.timeline.running.name

    def logger(self, name: str) -> Log:
        """A daemon's log, which goes into the trace."""

        return log_into(lambda line: self._noted(name, str(line.pop("level")), line))

    def _noted(self, name: str, method: str, event: dict[str, object]) -> None:
        what = str(event.pop("event"))
        event.pop("pid", None)  # the machine's own, which differs from one replay to the next
        self.say(f"{name}: {method} {what} {event}")
        path = PATHS_IN_THE_LOG.get(what)
        if path is not None:
            self.tally.reached[path] += 1
        if what == "journal.damaged":
            for found in ("lost", "torn_bytes", "changed", "moved"):
                self.tally.reached[f"a damaged journal: {found}"] += bool(event[found])

    def peek(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """What the store says, to somebody outside; nothing while a writer has it locked."""
        try:
            return (self._whole or self.disk.world).execute(sql, values).fetchall()
        except sqlite3.OperationalError:
            return []

    def told_actions(self, key: str, count: int, last: LastTold) -> Generator[Told]:
        """What the store tells of a session's actions, on a connection of its own."""
        with closing(self.disk.open()) as connection:
            yield from told_actions(connection, key, count, last)

    @contextmanager
    def whole_record(self) -> Iterator[None]:
        """Inside, `peek` answers from all that was ever recorded, also of what was pruned since."""
        self._whole = self.disk.whole()
        try:
            yield
        finally:
            self._whole.close()
            self._whole = None

    # Daemons.

    def start_daemon(self, once: bool = False) -> Daemon:
        """A daemon takes the state directory over, even if another believes that it has it."""
        daemon = Daemon(self, len(self.daemons) + 1, once)
        self.daemons.append(daemon)
        self.current = daemon
        self.say(f"{daemon.process.name} starts")
        daemon.start()
        return daemon

    def reload(self) -> None:
        """Send the daemon SIGHUP, if there is one."""
        if self.current is not None and self.current.ready:
            self.current.reload(self.settings)

    def daemon_ended(self, daemon: Daemon) -> None:
        """A daemon's process is over, one way or another."""
        self.kernel.end(daemon.process.name)
        self.deliveries.end(daemon.process)
        self._count(daemon)
        failure = daemon.process.failure
        self.say(f"{daemon.process.name} ended: {'killed' if daemon.process.killed else failure!r}")
        if not daemon.process.killed:
            self._judge(daemon, failure)
        if daemon is self.current:
            self.current = None
            if not daemon.stopping and not daemon.once:
                self.timeline.after(self._dice.uniform(0.05, 4.0), self.start_if_none)

    def start_if_none(self) -> None:
        """Start a daemon where there is none, as systemd does."""
        if self.current is None:
            self.start_daemon()

    def _judge(self, daemon: Daemon, failure: BaseException | None) -> None:
        if failure is None:
            if not daemon.stopping and not daemon.once:
                raise Broken(f"{daemon.process.name} stopped though nobody told it to")
            return
        causes = leaves(failure)
        superseded = daemon is not self.daemons[-1]
        if superseded and all(isinstance(each, self.refusals) for each in causes):
            refused = any(isinstance(each, EpochRefused) for each in causes)
            self.tally.reached["a refused epoch" if refused else "a journal refused to an old epoch"] += 1
            return
        if not daemon.ready and all(
            isinstance(each, OSError | sqlite3.Error | CommitUnknown) for each in causes
        ):
            if any("locked" in str(each) for each in causes) and self.frozen():
                self.tally.reached["a store that a frozen daemon has locked"] += 1
            return
        raise Broken(f"{daemon.process.name} died: {causes!r}") from failure

    def frozen(self) -> bool:
        """Whether any daemon is frozen now."""
        return any(each.process.frozen_until is not None for each in self.daemons if not each.process.over)

    def _count(self, daemon: Daemon) -> None:
        """What a daemon says of itself at its end."""
        reached, supervisor = self.tally.reached, getattr(daemon, "supervisor", None)
        if supervisor is None:
            return
        refused = daemon.process.failure is not None and any(
            isinstance(each, EpochRefused) for each in leaves(daemon.process.failure)
        )
        reached["a refused fence"] += max(0, daemon.store.fences_refused - int(refused))
        reached["a stolen job"] += supervisor.assembly.queue.tally.stolen
        reached["a halved batch"] += supervisor.assembly.queue.tally.halved
        if supervisor.assembly.coverage.overflows and supervisor.assembly.coverage.found_by_scan:
            reached["an overflow rescanned"] += 1
        if supervisor.assembly.queue.tally.refused:
            raise Broken(f"observations were refused: {supervisor.assembly.queue.tally.refused}")

    # Faults.

    def point(self, name: str) -> None:
        """A daemon passes a named point."""
        process = self.timeline.running
        if process.killed:
            raise Killed
        strike = self.chaos.hits(name)
        if strike is not None:
            self.strike(strike, name)

    def strike(self, strike: Strike, where: str) -> None:
        """Something happens to the daemon that runs now."""
        process = self.timeline.running
        self.say(f"{process.name}: {strike} at {where}")
        self.tally.faults[strike] += 1
        if strike == "crash":
            process.kill()
            raise Killed
        if strike == "cut":
            self.power_cut()
            raise Killed
        owner = self.current is not None and self.current.process is process
        if strike == "zombie" and owner and not self.frozen():
            self.timeline.after(self._dice.uniform(0.1, 3.0), self.start_daemon_anyway)
        process.freeze(self.timeline.time + self._dice.uniform(1.0, 25.0))

    def start_daemon_anyway(self) -> None:
        """A successor, whose lock was free because somebody unlinked the file."""
        if not self.chaos.calm:
            self.start_daemon()

    def kill_current(self) -> None:
        """`kill -9` of the daemon, if there is one."""
        if self.current is not None:
            self.current.process.kill()

    def power_cut(self) -> None:
        """Everything stops at once; of what was not synced any part may be gone."""
        self.tally.reached["a power cut"] += 1
        self.say("power cut")
        self.launchers.power_cut()
        self.table.reboot(self.timeline.time)
        self.foreign_agents.rebooted()
        self.rebooted()
        for daemon in self.daemons:
            if not daemon.process.over:
                daemon.process.kill()
                daemon.connection.abandon()
                self.kernel.end(daemon.process.name)
        for path, node in self.kernel.files():
            safe = node.synced if node.refused is None else min(node.refused, node.synced)
            if self.chaos.climate.lies and path.endswith(".jsonl") and not self.chaos.calm:
                taken = self._dice.choice((0, 1, 100, 1000))
                safe = max(0, safe - taken)
                self.harmed |= {path} if taken else set()
            node.refused = None
            kept = self._dice.randint(safe, len(node.data)) if len(node.data) > safe else None
            if kept is not None:
                self.say(f"of {path} {kept} of {len(node.data)} bytes are left")
                cut_pieces(node, kept)
                node.synced = kept

    def thaw(self) -> None:
        """Anyone who is frozen goes on now."""
        for daemon in self.daemons:
            if daemon.process.frozen_until is not None:
                daemon.process.wakes_at = self.timeline.time

    def _appended(self, writer: str, lock_is_older: bool) -> None:
        """No daemon appends once the next epoch was written, unless it had the lock before."""
        daemon = next((each for each in self.daemons if each.process.name == writer), None)
        if daemon is None:
            return
        epoch = int(self.kernel.content(f"{STATE}/epoch"))
        if daemon.store.epoch == epoch:
            return
        if not lock_is_older:
            self.timeline.fail(
                Broken(f"{writer} appended under epoch {daemon.store.epoch}, now it is {epoch}")
            )


def leaves(error: BaseException) -> list[BaseException]:
    """The exceptions inside groups of them, but for mere cancellations."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [] if isinstance(error, asyncio.CancelledError) else [error]


def cut_pieces(node: Node, kept: int) -> None:
    """Take away what a file has beyond `kept` bytes, also from the account of who wrote it."""
    del node.data[kept:]
    node.torn = True
    left: list[tuple[str, int]] = []
    for writer, length in node.pieces:
        length = min(length, kept)
        kept -= length
        if length:
            left.append((writer, length))
    node.pieces[:] = left
