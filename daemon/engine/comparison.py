"""After an unclean stop: comparing journals with the store, before they get any further line.

Any damage found becomes an event. Its repair is decided and carried out like every other line. The store keeps which
journals are left to compare, so neither a crash in between nor an absent root loses one.
"""

import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio
import anyio.to_thread

from runward.daemon.engine.outbox import Outbox
from runward.daemon.engine.part import Done, let_verdicts_pass
from runward.daemon.faults import point
from runward.daemon.log import Log
from runward.daemon.rundir.journal_reading import AlteredLine, Compared
from runward.daemon.rundir.journals import Journal, StandingLines
from runward.daemon.rundir.opening import Gone
from runward.daemon.store import journals
from runward.daemon.store.store import Store
from runward.daemon.store.tables import journal_lines
from runward.daemon.store.transaction import CommitUnknown, Statement
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.handlers.model.files import Unreadable
from runward.handlers.model.journal import JournalDamaged, RepairJournal

BATCH: Final = 64
"""Journals that are compared between two looks at whether verdicts are waiting."""

AT_ONCE: Final = 2
"""Threads that compare."""

RETRY: Final = 30.0
"""Seconds after which unreadable journals are tried again."""

TROUBLE: Final = 1.0
"""Seconds after which it continues if the store refused."""

Standing: TypeAlias = Mapping[Journal, Sequence[StandingLines]]
Answers: TypeAlias = dict[Journal, Compared | Gone | Unreadable]


@dataclass(slots=True)
class Comparison:
    """The journals that must be compared. The outbox waits with their lines until then.

    One task compares them in turn.
    """

    files: Files
    store: Store
    clock: Clock
    log: Log
    outbox: Outbox
    damaged: Callable[[JournalDamaged], None]
    """Has the event recorded and its repair decided."""
    busy: Callable[[], bool]
    """Whether verdicts are waiting: they come first."""
    listing: bool = False
    """Whether it isn't known yet which journals there are to compare."""
    _sessions: dict[Journal, str] = field(default_factory=dict)
    _left: deque[Journal] = field(default_factory=deque)
    _deciding: dict[Journal, str] = field(default_factory=dict)
    """Journals whose damage is recorded, with the keys of the events."""
    _unreadable: dict[Journal, str] = field(default_factory=dict)
    _repaired: list[Journal] = field(default_factory=list)
    _retry_at: float = 0.0
    _settle_at: float = 0.0
    _wake: anyio.Event = field(default_factory=anyio.Event)

    async def start(self) -> None:
        """Have the outbox hold the journals to compare, before it gets any lines."""
        # A clean stop synced everything, so only what was under suspicion before is compared. After a kill,
        # any journal written since the last sync may have lost lines.
        if self.store.after_clean_stop:
            await self._hold()
        else:
            self.listing = True
            # Which journals to compare takes a statement over many rows. Verdicts don't wait for it, and the
            # outbox writes nothing meanwhile.
            self.outbox.hold_all()

    async def run(self) -> None:
        """Compare, giving way to verdicts, until cancelled."""
        while True:
            self._wake = anyio.Event()
            while await self.step():
                await let_verdicts_pass(self.busy)
            with anyio.move_on_after(max(TROUBLE, self._next() - self.clock.monotonic())):
                await self._wake.wait()

    async def step(self) -> bool:
        """Do part of the work; returns whether there was anything that could be done."""
        try:
            return await self._step()
        except (CommitUnknown, sqlite3.Error) as error:
            # Nothing is lost: a comparison that was not recorded is done again.
            self.log.error("journals.not_compared", why=str(error))
            self._retry_at = self.clock.monotonic() + TROUBLE
            return False

    def repaired(self, decided: Done[RepairJournal]) -> None:
        """The repair of these journals is decided: have the outbox write their lines again."""
        self._repaired += [(effect.directory, effect.name) for _, effect in decided]
        self._wake.set()

    def next_try(self, within: float) -> float | None:
        """Seconds until there is something to do again, if that is at most `within`."""
        if not self.listing and not self._left and not self._repaired:
            return None
        wait = max(0.05, self._retry_at - self.clock.monotonic())
        return wait if wait <= within else None

    def degraded(self) -> list[str]:
        """What keeps journals from being compared, for `status`."""
        return sorted(
            f"journal {directory}/{name} can't be compared: {why}"
            for (directory, name), why in self._unreadable.items()
        )

    def _next(self) -> float:
        """When there will be something to do (monotonic time), unless something is added."""
        waits = self.listing or self._left or self._unreadable or self._deciding
        return min(self._retry_at, self._settle_at) if waits else self._settle_at

    async def _step(self) -> bool:
        now = self.clock.monotonic()
        if self._repaired and not self.listing:
            await self._owe_again()
            return True
        if now < self._retry_at:
            return False
        if self.listing:
            await journals.list_uncompared(self.store)
            await self._hold()
            self.listing = False
            return True
        if now >= self._settle_at:
            self.outbox.settled = await journals.settle(self.store, now)
            # Rows that are old enough are on the disk for certain, so a later start need not compare their
            # journals.
            self._settle_at = now + journals.SETTLE_PERIOD
        if not self._left and not await self._try_again(now):
            return False
        await self._compare([self._left[place] for place in range(min(BATCH, len(self._left)))])
        return True

    async def _try_again(self, now: float) -> bool:
        """From time to time, retry journals that couldn't be read, and drop those that a person gave up."""
        self._retry_at = now + RETRY
        if self._deciding:
            events = await journals.given_up(self.store, self._deciding.values())
            # A person discarded the repair. The journal stays as it is, and must not wait forever.
            await self._note_sound([each for each, event in self._deciding.items() if event in events])
        self._left.extend(self._unreadable)
        return bool(self._left)

    async def _hold(self) -> None:
        """Hold the journals that the store lists, then those whose repair is being decided."""
        self._sessions = await journals.uncompared(self.store)
        self._deciding = await journals.under_repair(self.store)
        self.outbox.hold(self._sessions)
        self._left = deque(each for each in self.outbox.held_first() if each not in self._deciding)
        if self._sessions:
            self.log.info("journals.comparing", journals=len(self._sessions))

    async def _owe_again(self) -> None:
        """Give the outbox the decided lines, and compare again."""
        decided = list(self._repaired)
        lines = await journal_lines.owed(self.store, {directory for directory, _ in decided})
        del self._repaired[: len(decided)]
        for journal in decided:
            self.outbox.owe_again(journal, [line for line in lines if line.journal == journal])
            if self._deciding.pop(journal, None) is not None:
                # It is compared once more after the repair's lines are decided: more may be gone since the
                # damage was found.
                self._left.append(journal)
        self._retry_at = 0.0

    async def _compare(self, batch: Sequence[Journal]) -> None:
        standing = await journals.standing_lines(self.store, {self._sessions[each] for each in batch})
        answers: Answers = {}
        async with anyio.create_task_group() as tasks:
            for part in range(AT_ONCE):
                tasks.start_soon(self._compare_part, batch[part::AT_ONCE], standing, answers)
        # A journal whose run directory no longer exists needs no repair.
        sound = [each for each, answer in answers.items() if answer in (Gone(), Compared(()))]
        # Recorded before it is released: else a crash would leave a journal that nobody compares any more.
        await self._note_sound(sound)
        for journal in batch:
            match answers[journal]:
                case Unreadable(why=why):
                    self._note_unreadable(journal, why)
                case Compared(altered=altered) if altered:
                    self._report(journal, altered)
                case _:
                    pass
        for journal in batch:
            # Only now: had the store refused, the same batch would be compared again.
            self._left.popleft()
            if not isinstance(answers[journal], Unreadable):
                self._unreadable.pop(journal, None)

    async def _note_sound(self, sound: Sequence[Journal]) -> None:
        if sound:
            await self.store.run([Statement(journals.COMPARED, sound)], "journals")
        for journal in sound:
            self._deciding.pop(journal, None)
            self._let_go(journal)

    def _note_unreadable(self, journal: Journal, why: str) -> None:
        if journal not in self._unreadable:
            self.log.warning(
                "journal.unreadable", session=self._sessions[journal], journal=journal[1], why=why
            )
        self._unreadable[journal] = why

    async def _compare_part(self, part: Sequence[Journal], standing: Standing, answers: Answers) -> None:
        def compare() -> Answers:
            answers: Answers = {}
            for journal in part:
                point("compare.before")
                answers[journal] = self.files.compare(*journal, standing.get(journal, ()))
            return answers

        answers |= await anyio.to_thread.run_sync(compare)

    def _let_go(self, journal: Journal) -> None:
        self._sessions.pop(journal, None)
        self.outbox.release(journal)

    def _report(self, journal: Journal, altered: Sequence[AlteredLine]) -> None:
        """Record that these lines are not as they were written."""
        states = Counter(each.state for each in altered)
        event = JournalDamaged(
            self._sessions[journal],
            self.clock.now(),
            self.store.epoch,
            *journal,
            rows=tuple(sorted({each.row for each in altered})),
            lost=states["gone"] + states["torn"],
            torn_bytes=sum(each.left for each in altered),
            changed=states["changed"],
            moved=states["moved"],
        )
        # A change by somebody is worse than a loss in a crash.
        log = self.log.error if event.changed else self.log.warning
        log(
            "journal.damaged",
            session=event.session_key,
            journal=event.name,
            lost=event.lost,
            torn_bytes=event.torn_bytes,
            changed=event.changed,
            moved=event.moved,
        )
        self._deciding[journal] = event.key
        # The event decides the repair. Until that is durable the journal stays held, also for a successor.
        self.damaged(event)
