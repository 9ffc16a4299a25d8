"""The outbox: after the commit, writing each line that a journal should have, exactly once.

Lines of one journal are written in order. A line that an earlier daemon should have written is looked for before it is
written. So is every line if the store was restored, or if its session is older than what the store knows of its root: a
line that the store forgot, or that an earlier store knew, may already be there. An empty journal holds no such line, so
the store is asked only about journals in use. A journal that must be compared first gets nothing before that. A row is
done when its file was synced. Syncs are grouped into sweeps, so a verdict never waits for one. What the world refuses
is retried with backoff, and shown.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Final, TypeAlias

import anyio
import anyio.to_thread

from runward.daemon.engine.part import Delayed, delayed, let_verdicts_pass
from runward.daemon.faults import point
from runward.daemon.log import Log
from runward.daemon.rundir.journals import MANY as SYNC_MANY
from runward.daemon.rundir.journals import (
    Appended,
    Journal,
    JournalLine,
    NotAppended,
    NotFirst,
    StandingLines,
)
from runward.daemon.store import journals
from runward.daemon.store.store import Store
from runward.daemon.store.tables import journal_lines
from runward.daemon.store.tables.journal_lines import LinePlace, OwedLine
from runward.daemon.store.transaction import CommitUnknown, Fenced, Row, Statement
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files

SWEEP: Final = 5.0
"""Seconds between sweeps of syncs. A power cut may undo this much, and the next start restores it."""

BATCH: Final = 256
FEW: Final = 8
"""Rows that are carried out first in a pause between verdicts, which may be short; the number then doubles."""

MANY_OWED: Final = 60_000
"""Rows in memory from which on the worker waits for the outbox."""

MANY_UNSYNCED: Final = 4_000
"""Lines from which on a sweep syncs whole file systems instead of file by file."""


KnownLines: TypeAlias = Mapping[Journal, tuple[StandingLines, ...]]
"""The lines that this store knows, for journals that may have other lines of Runward's."""


@dataclass(slots=True)
class Written:
    """A line that is written to its file and not synced yet."""

    line: OwedLine
    appended: Appended

    @property
    def standing(self) -> StandingLines:
        """The line as the store will know it."""
        content = self.line.content if self.appended.adopted is None else self.appended.adopted
        return StandingLines(self.line.id, content, self.appended.offset, self.appended.places)


@dataclass(slots=True)
class Outbox:
    """The lines that this daemon still has to write. One task writes them."""

    files: Files
    store: Store
    clock: Clock
    log: Log
    busy: Callable[[], bool] = lambda: False
    """Whether verdicts are waiting: they come first."""
    settled: int = 0
    """The number up to which no crash can undo lines. Lines that are only marked now count as new."""
    restored: bool = False
    """Whether the store was restored from a backup, so that journals may contain lines that it doesn't know."""
    _kept_back: dict[Journal, deque[OwedLine]] = field(default_factory=dict)
    _held: set[Journal] | None = field(default_factory=set)
    """The journals that get nothing for now; None for all."""
    _owed: dict[Journal, deque[OwedLine]] = field(default_factory=dict)
    _begun: set[Journal] = field(default_factory=set)
    """Journals that were empty at this daemon's first write: they contain only its own lines."""
    _delayed: dict[Journal, Delayed] = field(default_factory=dict)
    _written: list[Written] = field(default_factory=list)
    _adopted: dict[int, bytes] = field(default_factory=dict)
    """Existing lines that replace lines to be written and are not synced yet, by row: the same facts, other hashes."""
    _given_up: list[tuple[OwedLine, str]] = field(default_factory=list)
    _not_synced: dict[Journal, str] = field(default_factory=dict)
    _count: int = 0
    _wake: anyio.Event = field(default_factory=anyio.Event)

    def add(self, lines: Sequence[OwedLine]) -> None:
        """Queue these lines; returns at once."""
        held = self._held
        for line in lines:
            if held is None or line.journal in held:
                self._kept_back.setdefault(line.journal, deque()).append(line)
            else:
                self._owed.setdefault(line.journal, deque()).append(line)
                self._count += 1
        if lines:
            self._wake.set()

    def hold_all(self) -> None:
        """Write to no journal until it is known which must be compared first."""
        assert not self._owed, "a lock that was released can't be kept"
        self._held = None

    def hold(self, journals: Iterable[Journal]) -> None:
        """Write nothing to these journals, and again to all others."""
        self._held = set(journals)
        for journal in list(self._kept_back):
            if journal not in self._held:
                self._let_go(journal)

    def owe_again(self, journal: Journal, lines: Sequence[OwedLine]) -> None:
        """Queue lines for a held journal again, in order among those that are already queued for it."""
        owed = {line.id: line for line in (*self._kept_back.get(journal, ()), *lines)}
        self._kept_back[journal] = deque(owed[number] for number in sorted(owed))

    def release(self, journal: Journal) -> None:
        """Write to this journal again."""
        if self._held is not None:
            self._held.discard(journal)
        self._let_go(journal)

    def _let_go(self, journal: Journal) -> None:
        lines = self._kept_back.pop(journal, None)
        if lines:
            self._owed.setdefault(journal, deque()).extend(lines)
            self._count += len(lines)
            self._wake.set()

    def held_first(self) -> list[Journal]:
        """The journals that are held, those with queued lines first."""
        held = self._held or set()
        return [*self._kept_back, *sorted(held - self._kept_back.keys())]

    @property
    def owed(self) -> int:
        """How many rows are neither written nor given up."""
        return self._count + sum(map(len, self._kept_back.values()))

    @property
    def behind(self) -> int:
        """How many rows could be written now: a journal that refuses its lines delays no other."""
        if len(self._delayed) == 0:
            return self._count
        return self._count - sum(len(self._owed[journal]) for journal in self._delayed)

    @property
    def unsynced(self) -> int:
        """How many rows are in their files but not marked done."""
        return len(self._written) + len(self._given_up)

    def degraded(self) -> list[str]:
        """What keeps lines from being written, for `status`."""
        refused = {journal: each.why for journal, each in self._delayed.items() if each.lasts}
        refused |= self._not_synced
        return sorted(f"journal {directory}/{name}: {why}" for (directory, name), why in refused.items())

    async def run(self) -> None:
        """Carry out until cancelled."""
        next_sweep = self.clock.monotonic() + SWEEP
        while True:
            # The pause may be over at once, so a verdict waits at most for a few lines.
            few = FEW
            # Journals come after verdicts, until so many lines are owed that verdicts must wait for them.
            while not self.busy() or self._count > MANY_OWED // 2:
                if not await self.carry_out(few):
                    break
                few = min(BATCH, 2 * few)
            now = self.clock.monotonic()
            if now >= next_sweep:
                next_sweep = now + SWEEP
                await self.sweep(gently=True)
            self._wake = anyio.Event()
            with anyio.move_on_after(self._patience(now, next_sweep)):
                await self._wake.wait()

    def _patience(self, now: float, next_sweep: float) -> float | None:
        """How long there will be nothing to do, unless something is added."""
        if len(self._owed) > len(self._delayed):
            # There may be more to do than at the last check: a sweep takes its time.
            return 0.02 if self.busy() else 0.0
        times = [each.at for each in self._delayed.values()]
        if self.unsynced:
            times.append(next_sweep)
        least = 0.02 if self.busy() else 0.0
        return max(least, min(times) - now) if times else None

    async def less_owed(self) -> None:
        """Wait a little for rows to be written, because the worker is too far ahead."""
        self._wake.set()
        await anyio.sleep(0.02)

    def next_try(self, within: float) -> float | None:
        """Seconds until a delayed journal is retried, if that is at most `within`."""
        if not self._delayed:
            return None
        wait = max(0.05, min(each.at for each in self._delayed.values()) - self.clock.monotonic())
        return wait if wait <= within else None

    async def carry_out(self, most: int = BATCH) -> bool:
        """Write the next lines, at most this many; returns whether there was anything that could be done."""
        lines = self._next(most)
        if not lines:
            return False
        # First as if the journal were empty. Only a line that something precedes needs the store, and most
        # journals are new.
        in_use = await self._write(lines, None)
        if in_use:
            try:
                known = await self._known(in_use)
            except sqlite3.Error as error:
                for line in in_use:
                    self._delay(line.journal, line, f"the store can't be read: {error}")
            else:
                await self._write(in_use, known)
        return True

    async def _write(self, lines: Sequence[OwedLine], known: KnownLines | None) -> list[OwedLine]:
        """Write the lines; returns those that are preceded by something that has to be identified first."""
        with anyio.CancelScope(shield=True):
            # Shielded, because a thread can't be cancelled and what it wrote must be known.
            results = await anyio.to_thread.run_sync(self._perform, lines, self.store.epoch, known)
            in_use = self._note(results)
            await self._mark_given_up()
        return in_use

    def _next(self, most: int) -> list[OwedLine]:
        """The next lines of the journals that aren't delayed, at most `most`; each journal gets the same share."""
        now = self.clock.monotonic()
        share = max(1, most // max(1, len(self._owed)))
        lines: list[OwedLine] = []
        for journal, waiting in self._owed.items():
            refused = self._delayed.get(journal)
            if refused is not None and refused.at > now:
                continue
            # A later line says that the run is over, so this holds for the lines before it, too.
            is_over = not waiting[-1].live
            for line in islice(waiting, share):
                # If the run is over, nobody will complete its torn line.
                lines.append(line._replace(live=False) if is_over and line.live else line)
            if len(lines) >= most:
                break
        return lines

    async def _known(self, lines: Sequence[OwedLine]) -> KnownLines:
        """For journals that may have lines that this store doesn't know: those that it knows or has just written."""
        keys: Collection[str] = {line.key for line in lines}
        if not self.restored:
            # An emptied state directory forgets lines that are in the journals. Only sessions from before
            # this store saw their root can have such lines.
            keys = await journals.older_than_their_roots(self.store, keys)
        if not keys:
            return {}
        standing = await journals.standing_lines(self.store, keys)
        for each in self._written:
            standing.setdefault(each.line.journal, []).append(each.standing)
        return {line.journal: tuple(standing.get(line.journal, ())) for line in lines if line.key in keys}

    def _perform(
        self,
        lines: Sequence[OwedLine],
        epoch: int,
        known: KnownLines | None,
    ) -> list[tuple[OwedLine, Appended | NotAppended | NotFirst]]:
        """Write the lines, in a thread. Behind a line that isn't written, its journal gets no further one."""
        results: list[tuple[OwedLine, Appended | NotAppended | NotFirst]] = []
        for journal, of_journal in groupby(lines, lambda line: line.journal):
            point("outbox.before")
            together = list(of_journal)
            owed = [self._owed_line(line, known) for line in together]
            if known is None:
                # Only the first line needs the check: what stands behind it is then ours.
                owed[0] = owed[0]._replace(only_first=journal not in self._begun)
            answers = self.files.append(owed, epoch)
            for line, answer in zip(together, answers, strict=False):  # the last answer may be a refusal
                stands = self._adopted.get(line.id)
                # An earlier try found the same fact there under another hash. The row must name the line that
                # stands, not the one that was decided.
                if stands is not None and isinstance(answer, Appended):
                    answer = answer._replace(adopted=stands)
                results.append((line, answer))
            first = answers[0]
            # It was empty, so from now on it holds only lines of this daemon, and needs no further question.
            if isinstance(first, Appended) and first.offset == 0 and not first.already:
                self._has_begun(journal)
            point("outbox.after")
        return results

    def _owed_line(self, line: OwedLine, known: KnownLines | None) -> JournalLine:
        stands = self._adopted.get(line.id)
        content = line.content if stands is None else stands
        owed = JournalLine(line.directory, line.name, content, line.check, line.live)
        if known is not None and stands is None and line.journal in known:
            return owed._replace(known=known[line.journal])
        return owed

    def _note(self, results: Sequence[tuple[OwedLine, Appended | NotAppended | NotFirst]]) -> list[OwedLine]:
        written = adopted = 0
        in_use: list[OwedLine] = []
        for line, result in results:
            journal = line.journal
            match result:
                case NotFirst():
                    in_use.append(line)
                case Appended():
                    self._written.append(Written(line, result))
                    if result.adopted is not None:
                        self._adopted[line.id] = result.adopted
                        adopted += 1
                    self._done_with(journal)
                    written += 1
                    if result.closed:
                        self.log.warning(
                            "journal.torn_line_closed",
                            session=line.key,
                            journal=line.name,
                            bytes=result.closed,
                        )
                case NotAppended(for_good=True):
                    self._given_up.append((line, result.why))
                    self._done_with(journal)
                    self.log.warning("journal.gone", session=line.key, journal=line.name, why=result.why)
                case NotAppended():
                    self._delay(journal, line, result.why)
        if written:
            self.log.info("journals.written", rows=written, at=self.clock.now(), owed=self.owed)
        if adopted:
            self.log.info("journals.adopted", rows=adopted)
        return in_use

    def _has_begun(self, journal: Journal) -> None:
        if len(self._begun) >= MANY_OWED:
            self._begun.clear()
        self._begun.add(journal)

    def _done_with(self, journal: Journal) -> None:
        waiting = self._owed[journal]
        line = waiting.popleft()
        self._count -= 1
        self._delayed.pop(journal, None)
        if not waiting:
            del self._owed[journal]
            # Hardly any line follows the last one of a run, and then the store is asked.
            if not line.live:
                self._begun.discard(journal)

    def _delay(self, journal: Journal, line: OwedLine, why: str) -> None:
        refused = delayed(self._delayed.get(journal), self.clock.monotonic(), why)
        self._delayed[journal] = refused
        # It is unknown how much of it was written. So it is looked for before it is written again.
        self._owed[journal][0] = line._replace(check=True)
        if refused.is_worth_saying:
            tries = refused.tries
            self.log.warning("journal.delayed", session=line.key, journal=line.name, why=why, tries=tries)

    async def sweep(self, gently: bool = False) -> None:
        """Sync what was written until now, then mark it done.

        With `gently`, sync a few files at a time and let verdicts go first in between, because their commits wait
        behind our syncs. If very much is being written, everything is synced at once.
        """
        with anyio.CancelScope(shield=True):
            await self._mark_given_up()
        # What is written meanwhile belongs to the next sweep; otherwise a busy daemon would never end this
        # one.
        left = len(self._written)
        few = gently and left <= MANY_UNSYNCED
        while left > 0:
            size = min(left, self._in_few_files()) if few else left
            with anyio.CancelScope(shield=True):
                if not await self._sweep_part(size):
                    return
            left -= size
            if few:
                await let_verdicts_pass(self.busy)

    def _in_few_files(self) -> int:
        """How many of the oldest lines are in few enough files to sync these one by one."""
        journals: set[Journal] = set()
        for number, each in enumerate(islice(self._written, BATCH)):
            journals.add(each.line.journal)
            if len(journals) > SYNC_MANY:
                return number
        return min(BATCH, len(self._written))

    async def _sweep_part(self, size: int) -> bool:
        """Sync and mark the oldest `size` lines; returns whether the sweep may continue."""
        head = self._written[:size]
        refused = await self._sync(list(dict.fromkeys(each.line.journal for each in head)))
        synced = [each for each in head if each.line.journal not in refused]
        done: set[int] = set()
        for start in range(0, len(synced), BATCH):
            part = synced[start : start + BATCH]
            # A row is done only once its file is synced: a power cut takes lines that were written, never
            # lines that are marked.
            marked = await self._mark([_stands(each) for each in part], _adopted(part))
            done |= marked
            if len(marked) < len(part):
                break
        for number in done:
            self._adopted.pop(number, None)
        self._written = [each for each in self._written if each.line.id not in done]
        for each in synced:
            self._not_synced.pop(each.line.journal, None)
        # After a failed fsync the kernel may have dropped the pages, and a second fsync would succeed without
        # them. So the lines are written over themselves.
        self._owe_again(refused)
        return len(done) == len(synced)

    async def _sync(self, journals: Sequence[Journal]) -> Mapping[Journal, str]:
        point("sweep.sync.before")
        return await anyio.to_thread.run_sync(self.files.sync, journals)

    def _owe_again(self, refused: Mapping[Journal, str]) -> None:
        """Queue lines that may not have reached the disk: they must be written over themselves before the next sync."""
        again: dict[Journal, list[OwedLine]] = {journal: [] for journal in refused}
        for each in self._written:
            if each.line.journal in again:
                again[each.line.journal].append(each.line)
        self._written = [each for each in self._written if each.line.journal not in again]
        for journal, why in refused.items():
            lines = again[journal]
            waiting = self._owed.setdefault(journal, deque())
            waiting.extendleft(line._replace(check=True) for line in reversed(lines))
            self._count += len(lines)
            if journal not in self._not_synced:
                self.log.error("journal.not_synced", session=waiting[0].key, journal=journal[1], why=why)
            self._not_synced[journal] = why
            self._delay(journal, waiting[0], why)

    async def _mark_given_up(self) -> None:
        """Record which lines will never be written."""
        while self._given_up:
            part = self._given_up[:BATCH]
            marked = await self._mark([_given_up(line, why) for line, why in part])
            # Marked before the lines after them are written: the directory may come back, and then a gap must
            # be known as one.
            self._given_up[: len(part)] = [each for each in part if each[0].id not in marked]
            if len(marked) < len(part):
                return

    async def _mark(self, places: Sequence[LinePlace], adopted: Sequence[Row] = ()) -> frozenset[int]:
        """Mark these rows done; returns the numbers of those that are."""
        numbers = frozenset(place.id for place in places)
        statements = [Statement(journal_lines.STANDS, places, exact=True)]
        if adopted:
            statements.append(Statement(journals.ADOPTED, adopted))
        # A row below the settled number counts as new again, because a crash right after this could still
        # undo its line.
        late = min(numbers)
        if late <= self.settled:
            statements.append(Statement(journals.MARKED_LATE, [(late,)]))
            self.settled = late - 1
        try:
            await self.store.run(statements, "outbox")
        except (CommitUnknown, Fenced):
            # A refused row was marked before, by a commit that seemed to have failed.
            return await self._marked(numbers)
        except sqlite3.Error as error:
            self.log.error("outbox.not_marked", why=str(error))
            return frozenset()
        return numbers

    async def _marked(self, numbers: frozenset[int]) -> frozenset[int]:
        """Those of the rows that are marked, after a commit whose result is uncertain."""
        try:
            return numbers - await journal_lines.still_owed(self.store, numbers)
        except sqlite3.Error as error:
            self.log.error("outbox.not_marked", why=str(error))
            return frozenset()


def _adopted(written: Sequence[Written]) -> list[Row]:
    """The existing lines, in place of those that turned out to be written already."""
    return [(each.line.id, each.appended.adopted) for each in written if each.appended.adopted is not None]


def _given_up(line: OwedLine, why: str) -> LinePlace:
    return LinePlace(None, None, why, line.id)


def _stands(written: Written) -> LinePlace:
    offset, _, closed, places, _ = written.appended
    why = f"closed a torn line of {closed} bytes" if closed else None
    return LinePlace(offset, journals.dump_places(places), why, written.line.id)
