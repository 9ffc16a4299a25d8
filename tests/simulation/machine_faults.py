"""What befalls the machine, beside the faults at named points: clocks, disks, roots and daemons."""

import sqlite3
from collections.abc import Callable
from typing import Final

from tests.simulation.people import FUTURE
from tests.simulation.ports import STATE, journal_path
from tests.simulation.runs import Scene
from tests.simulation.universe import ROOTS, cut_pieces

from runward.daemon.disk.epoch import write_epoch
from runward.daemon.store.hash_chain import GENESIS, event_hash
from runward.daemon.store.tables.jobs import JOBS_AN_EVENT

STEPS: Final = (-86400.0, -3600.0, -5.0, -0.5, 0.5, 5.0, 3600.0, 86400.0)
"""Seconds by which somebody steps the clock."""


class MachineFaults:
    """Things that happen to a machine. `later` has something happen in a while."""

    def __init__(self, scene: Scene, later: Callable[[Callable[[], None]], None]) -> None:
        self._scene = scene
        self._later = later

    def step_clock(self) -> None:
        step = self._scene.dice.choice(STEPS)
        self._scene.universe.clock.step(step)

    def fill_disk(self) -> None:
        self._full(True)
        self._scene.universe.timeline.after(self._scene.dice.uniform(0.5, 15.0), lambda: self._full(False))

    def _full(self, full: bool) -> None:
        self._scene.universe.chaos.full = self._scene.universe.disk.full = full

    def hide_root(self) -> None:
        """The file system of a root is away for a while."""
        root = self._scene.dice.choice(ROOTS)
        if self._scene.universe.kernel.exists(root + ".away"):
            return  # one thing at a time
        self._scene.universe.kernel.rename(root, root + ".away")
        for place in self._scene.places.by_key.values():
            place.hidden = place.hidden or place.root == root

        def back() -> None:
            self._scene.universe.kernel.rename(root + ".away", root)
            self._scene.universe.tally.reached["a root that went away and came back"] += 1

        self._later(back)

    def empty_root(self) -> None:
        """A mount is gone and leaves an empty directory; all runs in it seem to have vanished."""
        root, kernel = self._scene.dice.choice(ROOTS), self._scene.universe.kernel
        if kernel.exists(root + ".away"):
            return  # one thing at a time
        kernel.rename(root, root + ".away")
        kernel.mkdir(root)
        for place in self._scene.places.by_key.values():
            if place.root == root:
                place.shaken = True
                place.reopened += 1

        def back() -> None:
            # What was made meanwhile lies under the mount, where nobody sees it.
            for place in self._scene.places.by_key.values():
                place.shaken = place.shaken or (place.root == root and kernel.exists(place.path))
            kernel.remove_tree(root)
            kernel.rename(root + ".away", root)
            for place in self._scene.places.by_key.values():
                if place.root == root:
                    place.reopened += 1

        self._later(back)

    def lock_root(self) -> None:
        """A root can't be read for a while."""
        root = self._scene.dice.choice(ROOTS)
        node = self._scene.universe.kernel.node(root)

        def lock(locked: bool) -> None:
            node.locked = locked
            for place in self._scene.places.by_key.values():
                place.locked = place.locked or place.root == root

        def unlock() -> None:
            lock(False)

        lock(True)
        self._later(unlock)

    def kill_daemon(self) -> None:
        self._scene.universe.kill_current()

    def stop_daemon(self) -> None:
        """Stopped in order, and started again a while later."""
        daemon = self._scene.universe.current
        if daemon is not None and daemon.ready and daemon.process.frozen_until is None:
            daemon.stop()
            self._scene.universe.timeline.after(
                self._scene.dice.uniform(0.5, 20.0), self._scene.universe.start_if_none
            )

    def freeze_daemon(self) -> None:
        """SIGSTOP where it waits."""
        daemon = self._scene.universe.current
        if daemon is not None and daemon.ready:
            seconds = self._scene.dice.uniform(1.0, 20.0)
            daemon.process.call(lambda: daemon.process.freeze(self._scene.universe.timeline.time + seconds))

    def reboot(self) -> None:
        if self._scene.dice.random() < 0.3:
            self._scene.universe.power_cut()

    def meddle(self) -> None:
        """A daemon is killed, and before the next one starts a journal loses its end or somebody edits it."""
        universe, dice = self._scene.universe, self._scene.dice
        if universe.frozen():
            return  # anyone who wakes up with a journal's lock knows nothing of it
        self.kill_daemon()
        if universe.peek("select stopped_cleanly from daemon") != [(0,)]:
            return  # after a stop in order the next daemon compares nothing
        rows = universe.peek(
            'select directory, name, content, "offset" from journal_lines where places is null'
        )
        standing = [
            (journal_path(directory, name), offset, content)
            for directory, name, content, offset in rows
            if offset is not None and self._stands(journal_path(directory, name), offset, content)
        ]
        if not standing:
            return
        path, offset, content = dice.choice(standing)
        universe.harmed.add(path)
        at = offset + dice.randrange(len(content) - 1)
        deed = dice.choice(("change", "insert", "insert", "cut"))  # power cuts cut journals, too
        if deed == "change":
            universe.kernel.change(path, at, b"X")
        elif deed == "insert":
            universe.kernel.insert(path, b'{"role":"somebody"}\n')
        else:
            cut_pieces(universe.kernel.node(path), at)
            if dice.random() < 0.5:
                universe.kernel.append(path, b'{"role":"agent","event":"went on"}\n')

    def _stands(self, path: str, offset: int, content: bytes) -> bool:
        kernel = self._scene.universe.kernel
        return kernel.exists(path) and kernel.content(path)[offset : offset + len(content)] == content

    def run_newer_version(self) -> None:
        """A newer Runward ran in between and left an event that this one can't know."""
        self.kill_daemon()
        world = self._scene.universe.disk.world
        try:
            world.execute("begin immediate")
        except sqlite3.OperationalError:
            return  # somebody frozen has the store locked
        world.execute("update daemon set epoch = epoch + 1")
        last = world.execute(
            "select seq, hash from events union all select last, hash from absent_events order by 1 desc limit 1"
        ).fetchone()
        seq, head = last or (0, GENESIS)
        lane, at = f"{FUTURE}{seq}", self._scene.universe.clock.now()
        digest = event_hash(head, lane, "FutureThing", 1, at, None, 0, "{}")
        world.execute(
            "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
            " values (?, ?, 'FutureThing', 1, ?, ?, ?, null, 0, '{}', ?)",
            (seq + 1, lane, lane, at, at, digest),
        )
        world.execute(
            "insert into jobs (id, event, handler, lane, state, epoch, updated_at) values (?, ?, 'future', ?, 'waiting', 0, ?)",
            (JOBS_AN_EVENT * (seq + 1), seq + 1, lane, at),
        )
        world.commit()
        ((epoch,),) = world.execute("select epoch from daemon").fetchall()
        write_epoch(STATE, epoch)
