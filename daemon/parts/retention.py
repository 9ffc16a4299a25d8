"""Retention: the records of sessions that ended long ago are packed into one row each, later pruned, in slices that never delay a verdict."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, TypeVar

from runward.config.settings import Settings
from runward.daemon.disk.durable import write_durably
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.part import Part, Slices
from runward.daemon.engine.queue import Queue
from runward.daemon.store import packing, pruning
from runward.daemon.store.packing import FIRST_TO_PACK, PackPlace, Slice
from runward.daemon.store.pruning import FIRST, FIRST_LOOSE, Place
from runward.daemon.store.tables import prunings, receipts
from runward.daemon.store.transaction import NOT_STORED
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.handlers.model.requests import PruneSessions
from runward.handlers.model.stored import Stored, as_json

P = TypeVar("P")


async def _in_slices(
    queue: Queue, slices: Slices, first: P, some: Callable[[P, int], Awaitable[P | None]]
) -> None:
    """Walk over old rows. `some` works on the next ones, at most so many, and returns the walk's position after them."""
    place: P | None = first
    while place is not None:
        await slices.begin()
        # Under the queue's lock: no completed job may be packed or pruned while it is unknown whether its commit
        # succeeded.
        place = await queue.beside(partial(some, place, slices.size))
        await slices.end()


AFTER: Final = 86_400.0
"""Seconds after its end from which on a session is packed: until then people look at it, and it may be resumed."""

PACKING_PERIOD: Final = 60.0
"""Seconds between two looks at what has become old enough."""

PACKED_SESSIONS: Final = 64
"""The maximum number of sessions that are packed in one transaction."""


@dataclass(slots=True)
class Packer(Part):
    """One task that packs what is old enough."""

    is_owed: ClassVar = False
    concern: ClassVar = "packing is postponed"

    queue: Queue
    busy: Callable[[], bool]
    """Whether verdicts, or their journals, are on their way."""
    packed: int = 0
    """Sessions that this daemon has packed."""

    def pause(self) -> float | None:
        return PACKING_PERIOD

    async def carry_out(self) -> bool:
        """Pack all that is old enough now; returns whether anything was."""
        before = self.packed
        try:
            await self._pack(self.clock.now() - AFTER)
        except NOT_STORED as error:
            if self.trouble != str(error):
                self.log.warning("packing.put_off", why=str(error))
            self.trouble = str(error)
        else:
            self.trouble = None
        if self.packed > before:
            self.log.info("sessions.packed", sessions=self.packed - before)
        return self.packed > before

    async def _pack(self, before: float) -> None:
        async def some(place: PackPlace, most: int) -> PackPlace | None:
            due = await packing.sessions_to_pack(self.store, place, before, most, self.clock.now())
            if due.keys:
                await self.store.run(due.statements, "pack")
                self.packed += len(due.keys)
            return due.place

        await _in_slices(self.queue, Slices(self.clock, self.busy, PACKED_SESSIONS), FIRST_TO_PACK, some)


CLOCK: Final = "clock"
"""The file in the state directory."""

LONGEST_LEAP: Final = 7 * 86_400.0
"""Seconds of the longest leap that is believed, and the seconds that a clock must run on before it is believed."""


# If the clock were 18 months ahead at one start, everything would be pruned. So the daemon regularly records
# what the clock says, across restarts, and believes it once it has been consistent for a while.
class Noted(NamedTuple):
    """What the clock said (Unix seconds): since when and until when without a leap, and where the last leap began.

    `leapt_from` is None if there was no leap, or one back.
    """

    since: float
    until: float
    leapt_from: float | None = None


class Doubt(NamedTuple):
    """Why the clock is not believed: where it leapt ahead, and when it will be believed again (Unix seconds)."""

    leapt_from: float | None
    until: float


def moment(at: float) -> str:
    """A time in UTC, for people who read the log or the status."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def patience(retention: float) -> float:
    """The longest leap that is believed (seconds): a wrong clock costs at most a quarter of the retention time."""
    return min(LONGEST_LEAP, retention / 4)


def noted(before: Noted | None, now: float, leap: float) -> Noted:
    """What is known about the clock when it says `now`; `leap` is the longest leap that is believed (seconds)."""
    if before is None or now < before.until - leap:
        return Noted(now, now)
    if now > before.until + leap:
        # If it leaps repeatedly, the first time is the right one.
        was_believed = before.until - before.since >= leap or before.leapt_from is None
        return Noted(now, now, before.until if was_believed else before.leapt_from)
    return before._replace(until=max(before.until, now))


_STORED: Final = Stored(Noted)


@dataclass(slots=True)
class ClockTrust:
    """Kept in the state directory, if there is one."""

    state: Path | None
    clock: Clock
    _noted: Noted | None = None

    def doubt(self, retention: float) -> Doubt | None:
        """Why nothing may be treated as old now; None if the clock is believed. Blocks; raises `OSError`."""
        leap, now = patience(retention), self.clock.now()
        before = self._noted or self._read()
        after = noted(before, now, leap)
        # Written before it is used: a start with a wrong clock must be known to the next one.
        if after != before:
            self._write(after)
        self._noted = after
        return None if now - after.since >= leap else Doubt(after.leapt_from, after.since + leap)

    def _read(self) -> Noted | None:
        if self.state is None:
            return None
        try:
            stored = _STORED.load((self.state / CLOCK).read_bytes())
        except (FileNotFoundError, ValueError):
            return None  # nothing is known: the clock is believed after a while
        return stored if all(map(math.isfinite, (stored.since, stored.until))) else None

    def _write(self, value: Noted) -> None:
        if self.state is not None:
            write_durably(self.state, CLOCK, as_json(value).encode())


PRUNING_PERIOD: Final = 86_400.0
"""Seconds between two searches for sessions that are older than the settings allow."""

PRUNED_SESSIONS: Final = 64
"""The maximum number of sessions that are pruned in one transaction."""

PAGES: Final = 256
"""Pages that are given back to the disk at once."""

TROUBLED: Final = 2.0
"""Seconds after which what the store refused is tried again."""


# Requests by people are read from their table, so a successor continues where a daemon stopped. Pruning by
# the settings needs no row: the daemon checks at its start and then once a day. Run directories are never
# touched. Replays and summaries in our own state are removed just before the record of their session, so
# none is left behind if a daemon is killed in between.
@dataclass(slots=True)
class Pruner(Part):
    """One task that prunes what is due."""

    wakes_on: ClassVar = (PruneSessions,)
    concern: ClassVar = "pruning is postponed"

    files: Files
    queue: Queue
    busy: Callable[[], bool]
    """Whether verdicts, or their journals, are on their way."""
    retention: float | None
    """Seconds for which the record of a session is kept after its end; None: forever."""
    trust: ClockTrust
    _doubt: Doubt | None = None
    _kept_at: float = -math.inf

    def use(self, settings: Settings) -> None:
        self.keep(settings.retention)

    def keep(self, retention: float | None) -> None:
        """Keep the record of a session for this many seconds from now on."""
        # A shorter retention takes effect at once, not in a day.
        if retention != self.retention:
            self.retention, self._kept_at = retention, -math.inf
            self.wake()

    def degraded(self) -> list[str]:
        """What delays the pruning, for `status`."""
        problems = Part.degraded(self)
        if self._doubt is not None and self._doubt.leapt_from is not None:
            problems.append(
                f"pruning is paused: the clock is far ahead of {moment(self._doubt.leapt_from)}, when it was last looked at;"
                f" correct it, or wait until it says {moment(self._doubt.until)}; `runward prune` works meanwhile"
            )
        return problems

    def pause(self) -> float | None:
        if self.trouble is not None:
            return TROUBLED
        return max(TROUBLED, self._kept_at + self._period - self.clock.monotonic())

    async def carry_out(self) -> bool:
        """Prune all that is due now; returns whether anything was."""
        did = False
        try:
            for owed in await prunings.owed_prunings(self.store):
                await self._prune(owed.before, owed.event)
                did = True
            if self.retention is not None and self.clock.monotonic() >= self._kept_at + self._period:
                if await self._believes_clock(self.retention):
                    did = await self._prune(self.clock.now() - self.retention, None) > 0 or did
                self._kept_at = self.clock.monotonic()
        except (*NOT_STORED, ValueError, OSError) as error:
            if self.trouble != str(error):
                self.log.warning("prune.put_off", why=str(error))
            self.trouble = str(error)
            return False
        self.trouble = None
        return did

    @property
    def _period(self) -> float:
        """Seconds between two checks: no gap between them may look like a leap of the clock."""
        return PRUNING_PERIOD if self.retention is None else min(PRUNING_PERIOD, patience(self.retention) / 4)

    async def _believes_clock(self, retention: float) -> bool:
        """Whether the clock can be believed: it has run long enough without a leap."""
        doubt = await in_thread(self.trust.doubt, retention)
        if doubt != self._doubt and doubt is not None and doubt.leapt_from is not None:
            self.log.warning(
                "retention.held_back",
                clock_leapt_from=moment(doubt.leapt_from),
                until=moment(doubt.until),
                fix="correct the clock; `runward prune` works meanwhile",
            )
        self._doubt = doubt
        return doubt is None

    async def _prune(self, before: float, event: int | None) -> int:
        """Prune what ended before this moment (Unix seconds), as `event` requested; returns how many sessions."""
        store, now, sessions = self.store, self.clock.now, 0

        async def some_sessions(place: Place, most: int) -> Place | None:
            nonlocal sessions
            due = await self._prune_sessions(place, before, event, most)
            sessions += len(due.keys)
            return due.place

        in_slices = partial(_in_slices, self.queue, Slices(self.clock, self.busy, PRUNED_SESSIONS))
        await in_slices(FIRST, some_sessions)
        # Chain runs that have no session left, then the firings that began no run.
        await in_slices(
            pruning.FIRST_CHAIN_RUN,
            lambda place, most: self._pruned(pruning.chain_runs_to_prune(store, place, before, most, now())),
        )
        await in_slices(
            pruning.FIRST_FIRING,
            lambda place, most: self._pruned(pruning.firings_to_prune(store, place, before, most)),
        )
        await in_slices(
            FIRST_LOOSE,
            lambda place, most: self._pruned(pruning.loose_to_prune(store, place, before, most, now())),
        )
        if event is not None:
            await self.store.run([prunings.pruning_ended(event, self.clock.now())], "prune")
        if sessions or event is not None:
            self.log.info("sessions.pruned", sessions=sessions, before=before)
            await self._give_pages_back()
        return sessions

    async def _prune_sessions(
        self, place: Place, before: float, event: int | None, most: int
    ) -> Slice[Place]:
        # The settings also require that it was recorded long ago: history that was just imported counts as new.
        recorded_before = before if event is None else None
        due = await pruning.sessions_to_prune(
            store=self.store,
            place=place,
            before=before,
            recorded_before=recorded_before,
            most=most,
            now=self.clock.now(),
        )
        if due.keys:
            # Just before the records: a daemon that is killed in between leaves records without files,
            # which are pruned next time, and no files that nobody knows.
            await self._remove_parts(due.keys)
            count = [] if event is None else [prunings.sessions_counted(event, len(due.keys))]
            await self.store.run([*due.statements, *count], "prune")
        return due

    async def _remove_parts(self, keys: Sequence[str]) -> None:
        """Remove the replays and summaries of these sessions from our own state. The receipts stay."""
        for directory, names in await receipts.own_places(self.store, keys):
            # What a successor does with these sessions must not be undone.
            self.files.check_epoch(self.store.epoch)
            going = [name for name in names if not name.startswith("RECEIPT.")]
            left = await in_thread(self.files.remove_parts, directory, going)
            if left is not None:
                self.log.warning("prune.parts_left", directory=directory, why=left.why)

    async def _pruned(self, due: Awaitable[Slice[P]]) -> P | None:
        """Prune this slice; returns the walk's position after it."""
        part = await due
        if part.statements:
            await self.store.run(part.statements, "prune")
        return part.place

    async def _give_pages_back(self) -> None:
        """Shrink the store's file by its free pages."""
        slices = Slices(self.clock, self.busy, PAGES, PAGES // 16)
        before = math.inf
        while True:
            await slices.begin()
            left = await self.store.give_pages_back(slices.size)
            await slices.end()
            # It makes no progress, so the rest of the pages is left for another time.
            if not 0 < left < before:
                return
            before = left
