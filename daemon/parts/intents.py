"""Intents of runs: each line that a run appends to its `intents.jsonl` becomes one event, and moves the cursor.

A file is read after its run was looked at, and to its end once the run is over. The store keeps what is still to be
read, so a crash loses no line. Only a limited number of intents of one run wait to be carried out; the others stay in
its file.

A run is known by what its launcher recorded, and by each id and start that its `run.json` ever had, and never by its place.
So the lines of a directory that was copied or moved are carried out once, wherever they are read. Lines of a run that has
neither are refused: nothing would tell its copy from another run.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.part import Part
from runward.daemon.rundir.intents import INTENTS, IntentCursor, IntentsRead
from runward.daemon.store.batch import Rows
from runward.daemon.store.tables import intent_files, problems, sessions, starts
from runward.daemon.users import name_of
from runward.daemon.watch.hints import Target
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.files import Files
from runward.handlers.layouts import native
from runward.handlers.layouts.native import RunName
from runward.handlers.model.exchange import IntentMade, RecordAction
from runward.handlers.model.sessions import Launch, Session

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
    run: str | None = None
    """The session where this run was first seen, if its directory was copied or moved."""
    known: int = 0
    """How many lines of it had been read there."""
    names: tuple[RunName, ...] = ()
    """What the run was known by when it was last read."""
    is_nameless: bool = False
    """Whether nothing says who the run is."""
    is_over: bool = False
    is_due: bool = True
    retry_at: float = 0.0


@dataclass(slots=True)
class Intents(Part):
    """The files that are read, by session. `roots` is by name; `uid` is the daemon's user."""

    wakes_on: ClassVar = (RecordAction,)
    concern: ClassVar = "intents"

    files: Files
    roots: Mapping[str, WatchedRoot]
    record: Record
    most_waiting: Callable[[], int]
    uid: int
    _reading: dict[str, _Reading] = field(default_factory=dict)
    _unknown: dict[str, str] = field(default_factory=dict)
    """The directories of runs that were looked at, and may or may not write intents."""
    _ended: dict[str, str] = field(default_factory=dict)
    """The directories of runs with intents whose end was just seen."""
    _recorded: dict[RunName, str] = field(default_factory=dict)
    """Names of runs that were recorded, and whether they are in the store is not known yet, with their sessions."""

    async def begin(self) -> None:
        """Resume reading where the previous daemon stopped."""
        for each in await intent_files.owed(self.store):
            self._reading[each.session_key] = _Reading(
                each.directory, each.cursor, True, is_over=each.state == "over", is_due=True
            )

    def look(self, target: Target) -> None:
        """Something changed in a run that is not over."""
        root = self.roots.get(target[0])
        if root is None or root.shape is not None or root.records_history:
            return
        key, path = native.session_key(*target), f"{root.path}/{target[1]}"
        reading = self._reading.get(key)
        if reading is None:
            # Whether it writes intents is found out in a thread, not in the middle of the batch.
            self._unknown[key] = path
        else:
            reading.is_due, reading.is_over = True, False
        self.wake()

    def at_end(self, root: WatchedRoot, directory: str, attempt: int) -> tuple[Rows, ...]:
        """The rest of the file of a run that is over, to be recorded with its end. Called in a thread.

        That a file was removed is recorded, too, if lines of it were read: the bundle waits for the others.
        """
        path, key = f"{root.path}/{directory}", native.session_key(root.name, directory)
        if root.records_history or not (key in self._reading or self.files.has_intents(path)):
            return ()
        # Remembered only after its end is durable: `close` is called then.
        self._ended[key] = path
        # In the same transaction as the end. So a crash can't make the rest of the file be forgotten.
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
        # Taken before the thread looks: runs that are looked at meanwhile are asked about next time.
        unknown, self._unknown = self._unknown, {}
        sessions_here = await in_thread(
            lambda: {key for key, path in unknown.items() if self.files.has_intents(path)}
        )
        for key in sorted(sessions_here):
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
        # The session isn't opened yet. Its lines need its agent, so they wait.
        if session is None:
            reading.retry_at = self.clock.monotonic() + RETRY
            return False
        file = await intent_files.intent_file(self.store, key)
        if not reading.is_known and file is not None:
            reading.cursor = file.cursor
        reading.is_known = True
        if file is not None and file.problem is not None:
            return self._give_up(key, reading)
        reported = 0 if file is None else file.told
        # A run that writes faster than its actions are decided waits here, and fills no queue.
        room = min(AT_ONCE, self.most_waiting() - (reading.cursor.line - reported))
        if room <= 0:
            reading.retry_at = self.clock.monotonic() + RETRY  # a recorded action wakes it earlier
            return False
        # The last line counts as whole only when the run is over and its verdict is recorded.
        is_over = reading.is_over and session.status != "running"
        lines = await in_thread(lambda: self.files.intents(reading.directory, reading.cursor, room, is_over))
        if lines is None:
            if (
                reading.is_over and not is_over
            ):  # its verdict is in progress: the end of the file is recorded after it
                reading.retry_at = self.clock.monotonic() + RETRY
                return False
            if is_over:
                problem = "was removed before it was read" if reading.cursor.line else None
                place = (key, reading.directory, session.attempt, *reading.cursor, True, problem, None)
                self.record(f"{key} intents", (), (Rows(intent_files.READ, [place]),))
            return self._give_up(key, reading)
        launch = (await starts.last_launches(self.store, [key])).get(key)
        if file is not None and file.run is not None:
            reading.run = file.run
        is_new = reading.cursor.line == 0
        names = await self._recognize(key, reading, lines, launch, is_new=is_new)
        if reading.run is not None:
            reading.known = await intent_files.lines_known(self.store, reading.run)
        return self._note(
            key=key,
            session=session,
            reading=reading,
            lines=lines,
            is_over=is_over,
            names=names,
            launched=launch is not None,
        )

    async def _recognize(
        self,
        key: str,
        reading: _Reading,
        lines: IntentsRead,
        launch: Launch | None,
        *,
        is_new: bool,
    ) -> tuple[RunName, ...]:
        """Find out whether this run `is_new` here but was seen in another place before; returns what it is known by now.

        It may change its `run.json` at any time, and a copy says what that said when it was made. So each name counts for
        ever. What is on its way to the store is not there yet, so it is remembered here until it is.
        """
        says = lines.says
        names = () if says.name is None else (says.name,)
        if launch is not None:  # with a record of its own it is never a copy, whatever its files say
            at = round(launch.at * 1_000_000) / 1_000_000
            by_launcher = RunName(reading.directory.rsplit("/", 1)[-1], at)
            names = (*names, by_launcher, native.name_by_launcher(launch.launcher))
        elif is_new and reading.run is None:
            asked = names if says.launcher is None else (*names, says.launcher)
            on_their_way = (self._recorded.get(name) for name in asked)
            reading.run = await intent_files.first_place(self.store, key, asked) or next(
                (other for other in on_their_way if other not in (None, key)), None
            )
            if reading.run is not None:
                self.log.info("intents.of_a_copy", session=key, run=reading.run)
        if names != reading.names:
            for name in list(self._recorded):
                if await intent_files.is_known(self.store, name):
                    del self._recorded[name]
        has_name = bool(names or reading.names or reading.run)
        reading.is_nameless = not (has_name or await intent_files.is_named(self.store, key))
        return names

    def _note(
        self,
        key: str,
        session: Session,
        reading: _Reading,
        lines: IntentsRead,
        is_over: bool,
        names: tuple[RunName, ...],
        *,
        launched: bool,
    ) -> bool:
        """Record the lines, and the cursor after them."""
        now = self.clock.now()
        is_read = lines.problem is not None or (is_over and not lines.more)
        owner = None if lines.owner == self.uid else name_of(lines.owner)
        events = [
            IntentMade(
                *(key, session.attempt, line.number, now, session.agent, line.text, line.complaint, owner),
                run=reading.run,
                launched=launched,
                nameless=reading.is_nameless,
            )
            for line in lines.lines
            if line.number > reading.known
        ]
        rows: list[Rows] = []
        is_renamed = bool(names) and names != reading.names
        if lines.lines or is_read or is_renamed:
            cursor = lines.cursor
            place = (key, reading.directory, session.attempt, *cursor, is_read, lines.problem, reading.run)
            rows.append(Rows(intent_files.READ, [place]))
        if is_renamed:
            for name in names:
                self._recorded.setdefault(name, key if reading.run is None else reading.run)
            rows.append(Rows(intent_files.NAME, [(*name, key) for name in names]))
            reading.names = names
        if lines.problem is not None:
            path = f"{reading.directory}/{INTENTS}"
            self.log.warning("intents.refused", session=key, why=lines.problem)
            rows.append(Rows(problems.DELETE, [(path,)]))
            fix = "append whole lines to a regular file, and don't change existing lines"
            rows.append(Rows(problems.INSERT, [(path, lines.cursor.line + 1, lines.problem, fix, now)]))
        if rows:
            self.record(f"{key} intents", events, rows)
        # The cursor is recorded with the events in one transaction, so no line is lost or read twice.
        reading.cursor, reading.is_due, reading.retry_at = lines.cursor, lines.more, 0.0
        if reading.is_over and not is_over:
            # The run is over, and its verdict is in progress.
            reading.is_due, reading.retry_at = True, self.clock.monotonic() + RETRY / 10
        if is_read:
            self._give_up(key, reading)
        return bool(lines.lines)

    def _give_up(self, key: str, reading: _Reading) -> bool:
        """Stop reading this file."""
        if reading.is_over:
            self._reading.pop(key, None)
        else:
            reading.is_due = False
        return False
