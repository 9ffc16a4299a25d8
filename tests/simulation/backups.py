"""A person who takes a backup of the store beside the daemon, and later restores it.

What `runward restore` does to the store runs itself; only how the database's file is copied stands for the real one.
"""

import errno
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.ports import STATE
from tests.simulation.restored_stores import LINES
from tests.simulation.universe import Universe

from runward.daemon.backup import Current, Examined, Plan, examined, make_ready, plan_of
from runward.daemon.disk.epoch import write_epoch
from runward.handlers.journal.place import OWN_PLACE

BACKUP: Final = Path("backup.db")
LENGTH: Final = 150.0


class Backup(NamedTuple):
    """A copy of the database, and what was found in it."""

    content: bytes
    found: Examined


def opened(content: bytes) -> sqlite3.Connection:
    """A connection to a database with this content, which nobody else has."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(content)
    return connection


class Backups:
    """The deeds of who takes backups and restores them, by dice of their own."""

    def __init__(self, universe: Universe, do: Callable[[Callable[[], None]], None]) -> None:
        self._universe = universe
        self._do = do
        self._dice = random.Random(f"{universe.seed}/backups")
        self._backup: Backup | None = None

    def plan(self) -> None:
        """Order the deeds: in four of ten histories the store is restored, in some of them twice."""
        if self._dice.random() < 0.6:
            return
        for _ in range(self._dice.choice((1, 1, 2))):
            at = self._dice.uniform(5.0, LENGTH)
            self._after(at, self.take)
            self._after(at + self._dice.choice((1.0, 10.0, 60.0)) * self._dice.random(), self.restore)

    def _after(self, seconds: float, deed: Callable[[], None]) -> None:
        self._universe.timeline.after(seconds, lambda: self._do(deed))

    def take(self) -> None:
        """As `runward backup`, beside a daemon that goes on, or is frozen, or isn't there."""
        self._need_room()
        try:
            content = self._universe.disk.copied()
        except sqlite3.OperationalError:
            self._after(self._dice.uniform(0.1, 5.0), self.take)  # somebody has it locked
            return
        with closing(opened(content)) as connection:
            self._backup = Backup(content, examined(connection, BACKUP, len(content)))

    def restore(self) -> None:
        """The daemon is stopped or killed, then the backup is put in the store's place."""
        daemon = self._universe.current
        wait = 0.01
        if daemon is not None and daemon.ready and self._dice.random() < 0.5:
            daemon.stop()
            wait = self._dice.uniform(0.5, 12.0)
        self._after(wait, self._kill)

    def _kill(self) -> None:
        """A daemon that doesn't stop is killed."""
        for daemon in self._universe.daemons:
            if not daemon.process.over:
                daemon.process.kill()
        self._after(0.01, self._put_back)

    def _put_back(self) -> None:
        universe = self._universe
        try:
            if self._backup is None or universe.chaos.calm:
                return
            self._need_room()
            if any(not daemon.process.over for daemon in universe.daemons):
                raise OSError(errno.EBUSY, "somebody has the store open")
            self._carry_out(self._backup)
        finally:
            universe.timeline.after(self._dice.uniform(0.01, 5.0), universe.start_if_none)

    def _carry_out(self, backup: Backup) -> None:
        """As `runward restore`. Sometimes the store that is replaced can't be read, or the disk that held our journals is lost."""
        universe, now = self._universe, self._universe.clock.now()
        ((epoch,),) = universe.disk.world.execute("select epoch from daemon").fetchall()
        current = Current(STATE / "runward.db", epoch if self._dice.random() < 0.7 else None, None, None)
        with closing(opened(backup.content)) as made:
            plan = plan_of(made, STATE, Plan(BACKUP, backup.found, current, None, 0))
            is_killed = self._dice.random() < 0.1
            if not is_killed and self._dice.random() < 0.6:
                self._lose_journals()
            write_epoch(STATE, plan.epoch)
            make_ready(made, STATE, plan, now)
            if is_killed:
                raise OSError(errno.EINTR, "the restore was killed before its last step")
            self._end_life()
            universe.disk.replace(made)
        universe.tally.reached["a store restored from a backup"] += 1
        universe.tally.reached["a start given up at a restore"] += len(plan.starts)
        universe.tally.reached["a request for a run held at a restore"] += len(plan.jobs)

    def _end_life(self) -> None:
        universe = self._universe
        with universe.whole_record():
            starts = [key for (key,) in universe.peek("select key from starts")]
            rows = universe.peek(LINES)
        nodes = [each.node for each in universe.written if each.node is not None]
        universe.lives.end(rows, nodes, starts)

    def _lose_journals(self) -> None:
        """The journals among our own state are gone."""
        universe, own = self._universe, f"{STATE}/{OWN_PLACE}"
        if not universe.kernel.exists(own):
            return
        universe.harmed |= {path for path, _ in universe.kernel.files() if path.startswith(f"{own}/")}
        universe.written[:] = [each for each in universe.written if each.line.directory.startswith("/")]
        universe.kernel.remove_tree(own)
        universe.tally.reached["journals among our own state lost before a restore"] += 1

    def _need_room(self) -> None:
        if self._universe.chaos.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
