"""Intents of runs: each line that a run appends to its `intents.jsonl` becomes one event, and moves the cursor.

A file is read after its run was looked at, and to its end once the run is over. The store keeps what is still to be
read, so a crash loses no line. Only a limited number of intents of one run wait to be carried out; the others stay in
its file.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

import structlog

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.ports.clock import Clock
from runward.daemon.ports.files import Files
from runward.daemon.ports.intents import IntentCursor, IntentsRead
from runward.daemon.rundir.intents import INTENTS
from runward.daemon.store.store import Store
from runward.daemon.store.tables import intent_files, problems, sessions
from runward.daemon.store.tables.table import Rows
from runward.daemon.users import name_of
from runward.daemon.watch.hints import Target
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.worker.part import Part
from runward.handlers.exchange.effects import RecordAction
from runward.handlers.exchange.events import IntentMade
from runward.handlers.facts import Session
from runward.handlers.layouts import native

AT_ONCE: Final = 256
"""Lines that are recorded together."""

RETRY: Final = 1.0
"""Seconds until it is tried again where a file or the store can't be read, or a session is not known yet."""


UNREAD: Final = IntentCursor()


class Record(Protocol):
    """Has events recorded, with rows in the same transaction."""

    def __call__(self, subject: str, events: Sequence[IntentMade], rows: Sequence[Rows], /) -> None: ...


@dataclass(slots=True)
class _Reading:
    """A file that is being read: its run's directory, how far it was read, and whether the run is over."""

    directory: str
    cursor: IntentCursor = UNREAD
    is_known: bool = False
    """Whether the store was already asked how far it was read."""
    is_over: bool = False
    is_due: bool = True
    retry_at: float = 0.0


@dataclass(slots=True)
class Intents(Part):
    """The files that are read, by session. `roots` is by name; `uid` is the daemon's user."""

    wakes_on: ClassVar = (RecordAction,)

    files: Files
    store: Store
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    roots: Mapping[str, WatchedRoot]
    record: Record
    most_waiting: Callable[[], int]
    uid: int
    trouble: str | None = None
    _reading: dict[str, _Reading] = field(default_factory=dict)
    _unknown: dict[str, str] = field(default_factory=dict)
    """The directories of runs that were looked at, and may or may not write intents."""
    _ended: dict[str, str] = field(default_factory=dict)
    """The directories of runs with intents whose end was just seen."""

    def degraded(self) -> list[str]:
        """What keeps intents from being read, for `status`."""
        return [] if self.trouble is None else [f"intents: {self.trouble}"]

    async def begin(self) -> None:
        """Resume reading where the previous daemon stopped."""
        for each in await intent_files.owed(self.store):
            self._reading[each.session_key] = _Reading(
                each.directory, each.cursor, True, each.state == "over", is_due=True
            )

    def look(self, target: Target) -> None:
        """Something changed in a run that is not over."""
        root = self.roots.get(target[0])
        if root is None or root.shape is not None or root.records_history:
            return
        key, path = native.session_key(*target), f"{root.path}/{target[1]}"
        reading = self._reading.get(key)
        if reading is None:
            self._unknown[key] = path
        else:
            reading.is_due, reading.is_over = True, False
        self.wake()

    def at_end(self, root: WatchedRoot, directory: str, attempt: int) -> tuple[Rows, ...]:
        """The rest of the file of a run that is over, to be recorded with its end. Called in a thread."""
        path = f"{root.path}/{directory}"
        if root.records_history or not self.files.has_intents(path):
            return ()
        key = native.session_key(root.name, directory)
        self._ended[key] = path
        return (Rows(intent_files.OWE, [(key, path, attempt)]),)

    def close(self, target: Target) -> None:
        """A run is over: read its file to the end, if it has one."""
        key = native.session_key(*target)
        path = self._ended.pop(key, None)
        self._unknown.pop(key, None)
        if path is not None:
            self._reading.setdefault(key, _Reading(path))
        reading = self._reading.get(key)
        if reading is not None:
            reading.is_due = reading.is_over = True
            self.wake()

    async def _meet(self) -> None:
        """Find out which of the runs that were looked at wrote any intents."""
        unknown, self._unknown = self._unknown, {}
        found = await in_thread(
            lambda: {key for key, path in unknown.items() if self.files.has_intents(path)}
        )
        for key in found:
            self._reading.setdefault(key, _Reading(unknown[key]))

    def pause(self) -> float | None:
        now = self.clock.monotonic()
        waits = [each.retry_at - now for each in self._reading.values() if each.is_due]
        return max(0.05, min(waits)) if waits else None

    async def carry_out(self) -> bool:
        """Read the next lines of each file that is due; returns whether there were any."""
        now, did = self.clock.monotonic(), False
        if self._unknown:
            await self._meet()
        for key, reading in list(self._reading.items()):
            if not reading.is_due or reading.retry_at > now:
                continue
            try:
                did = await self._read(key, reading) or did
                self.trouble = None
            except (OSError, sqlite3.Error) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                self.trouble = f"{reading.directory}/{INTENTS}: {why}"
                self.log.warning("intents.not_read", session=key, why=why)
                reading.retry_at = now + RETRY
        return did

    async def _read(self, key: str, reading: _Reading) -> bool:
        session = (await sessions.known(self.store, [key])).get(key)
        if session is None:
            reading.retry_at = self.clock.monotonic() + RETRY
            return False
        file = await intent_files.intent_file(self.store, key)
        if not reading.is_known and file is not None:
            reading.cursor = file.cursor
        reading.is_known = True
        if file is not None and file.problem is not None:
            return self._give_up(key, reading)
        told = 0 if file is None else file.told
        room = min(AT_ONCE, self.most_waiting() - (reading.cursor.line - told))
        if room <= 0:
            reading.retry_at = self.clock.monotonic() + RETRY  # a recorded action wakes it earlier
            return False
        is_over = reading.is_over and session.status != "running"
        found = await in_thread(lambda: self.files.intents(reading.directory, reading.cursor, room, is_over))
        if found is None:
            if is_over:
                problem = "was removed before it was read" if reading.cursor.line else None
                place = (key, reading.directory, session.attempt, *reading.cursor, True, problem)
                self.record(f"{key} intents", (), (Rows(intent_files.READ, [place]),))
            return self._give_up(key, reading)
        return self._note(key, session, reading, found, is_over)

    def _note(self, key: str, session: Session, reading: _Reading, found: IntentsRead, is_over: bool) -> bool:
        """Record the lines, and the cursor after them."""
        now = self.clock.now()
        is_read = found.problem is not None or (is_over and not found.more)
        owner = None if found.owner == self.uid else name_of(found.owner)
        events = [
            IntentMade(
                *(key, session.attempt, line.number, now, session.agent, line.text, line.complaint, owner)
            )
            for line in found.lines
        ]
        rows: list[Rows] = []
        if events or is_read:
            place = (key, reading.directory, session.attempt, *found.cursor, is_read, found.problem)
            rows.append(Rows(intent_files.READ, [place]))
        if found.problem is not None:
            path = f"{reading.directory}/{INTENTS}"
            self.log.warning("intents.refused", session=key, why=found.problem)
            rows.append(Rows(problems.DELETE, [(path,)]))
            fix = "append whole lines to a regular file, and don't change existing lines"
            rows.append(Rows(problems.INSERT, [(path, found.cursor.line + 1, found.problem, fix, now)]))
        if rows:
            self.record(f"{key} intents", events, rows)
        reading.cursor, reading.is_due, reading.retry_at = found.cursor, found.more, 0.0
        if reading.is_over and not is_over:
            # The run is over, and its verdict is in progress.
            reading.is_due, reading.retry_at = True, self.clock.monotonic() + RETRY / 10
        if is_read:
            self._give_up(key, reading)
        return bool(events)

    def _give_up(self, key: str, reading: _Reading) -> bool:
        """Stop reading this file."""
        if reading.is_over:
            self._reading.pop(key, None)
        else:
            reading.is_due = False
        return False
