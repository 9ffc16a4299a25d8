"""Notices: delivering messages to people outside, after the commit.

Pending notices are read from their table, so a successor continues where a daemon stopped. A daemon that was killed may
have delivered a notice without marking it. So each notice is delivered at least once, always under the same id. A
failed delivery is retried with backoff for a day. After that the notice is dead: `runward notify list` shows it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

import anyio

from runward.config.notification import OVERDUE, WAITING
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.clock_steps import ClockSteps
from runward.daemon.engine.part import Part
from runward.daemon.engine.queue import StoreTrouble
from runward.daemon.faults import point
from runward.daemon.parts.waiting import notices_of_waits
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import HeldJob, held_jobs
from runward.daemon.store.tables.notices import DELAY, INSERT, SETTLE, PendingNotice, inserted, pending
from runward.daemon.store.transaction import NOT_STORED, Row, Statement
from runward.handlers.model.notices import ResendNotice, SendNotice
from runward.handlers.notices import notice_id

HELD: Final = "job.held"
QUARANTINED: Final = "chain.quarantined"
KINDS: Final = (HELD, QUARANTINED, WAITING, OVERDUE)
"""The kinds that no event reports."""

_MOST: Final = 100
"""How many held jobs are reported one by one, newest first."""


# Both are found in their current state, so a restart loses none. The same trouble always has the same
# notices, so a recipient is told once about it.
async def notices_of_troubles(
    store: Store,
    recipients: Callable[[str], Sequence[str]],
    quarantined: Sequence[tuple[str, str]],
    now: float,
) -> list[SendNotice]:
    """The notices of what is held and `quarantined` (names and reasons). Raises `sqlite3.Error`."""
    notices = []
    if names := recipients(HELD):
        held = await held_jobs(store, _MOST)
        notices += [_of_job(each, recipient, now) for each in held for recipient in names]
    for recipient in recipients(QUARANTINED) if quarantined else ():
        notices += [_of_chain(name, why, recipient, now) for name, why in quarantined]
    return notices


def _of_job(job: HeldJob, recipient: str, now: float) -> SendNotice:
    title = f"job {job.id} is held: {job.handler}"
    text = (
        f"{job.lane} waits for it. {job.error}. See `runward queue show {job.id}`, then retry or discard it"
    )
    # A job that is retried and held again gets a new notice.
    identifier = notice_id(HELD, f"{job.id} {job.held_at!r}", recipient)
    return SendNotice(
        id=identifier, at=now, kind=HELD, subject=f"job {job.id}", recipient=recipient, title=title, text=text
    )


def _of_chain(name: str, why: str, recipient: str, now: float) -> SendNotice:
    title = f"chain {name} is quarantined"
    identifier = notice_id(QUARANTINED, f"{name} {why}", recipient)
    return SendNotice(
        id=identifier,
        at=now,
        kind=QUARANTINED,
        subject=name,
        recipient=recipient,
        title=title,
        text=f"{why}. It does not fire until that is fixed",
    )


AT_ONCE: Final = 4
"""How many notices are being delivered at the same time."""

FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 1800.0
"""Seconds before the second try, and at most; the pause doubles."""

GIVEN_UP_AFTER: Final = 86_400.0
"""Seconds for which the delivery of a notice is tried."""

_PERIOD: Final = 5.0
"""Seconds until the store is asked again: where it refused, and for troubles that no event reports."""


class Messenger(Protocol):
    """Delivers notices to people outside."""

    def recipients(self, kind: str) -> tuple[str, ...]:
        """The names of those who are notified of an event such as `chain.failed`."""

    def patience(self) -> Mapping[str, float]:
        """The names of those who are notified of what is overdue, and the seconds after which it is."""

    def send(self, notice: PendingNotice) -> str | None:
        """Deliver it. Returns why it was not delivered, in words without an address. Never raises."""


class NoMessenger:
    """Stands in if nobody is notified."""

    def recipients(self, kind: str) -> tuple[str, ...]:
        return ()

    def patience(self) -> Mapping[str, float]:
        return {}

    def send(self, notice: PendingNotice) -> str | None:
        return "there is no recipient"


NOBODY: Final = NoMessenger()


@dataclass(slots=True)
class Notices(Part):
    """The notices that this daemon has to deliver. One task delivers them."""

    wakes_on: ClassVar = (SendNotice, ResendNotice)
    concern: ClassVar = "notices"

    messenger: Messenger
    quarantined: Callable[[], list[tuple[str, str]]]
    """The chains whose files are wrong, each with the reason. Used in threads; raises `OSError`."""
    steps: ClockSteps
    _next: float | None = None
    """When the next notice is due (Unix seconds); None where none is pending."""
    _next_wait: float | None = None
    """When the next agent will have waited long enough (Unix seconds); None where none waits."""
    _recorded: frozenset[str] = field(default=frozenset())
    """The recorded notices of troubles that still exist."""

    def pause(self) -> float | None:
        if self.trouble is not None:
            return _PERIOD
        # Never longer than the longest pause: the clock may be set back during the wait.
        longest = _PERIOD if any(self.messenger.recipients(kind) for kind in KINDS) else LONGEST_PAUSE
        due = [each for each in (self._next, self._next_wait) if each is not None]
        if not due:
            return None if longest == LONGEST_PAUSE else longest
        return min(max(0.05, min(due) - self.steps.steady()), longest)

    async def carry_out(self) -> bool:
        """Deliver the next ones; returns whether any was due."""
        try:
            await self._record_troubles()
            async with self.steps.noted() as now:
                waiting, ahead = await pending(self.store, AT_ONCE), self.steps.ahead
            due = [each for each in waiting if not now < each.next_at <= now + LONGEST_PAUSE]
            if due:
                await self._deliver(due, ahead)
            self._next = min((each.next_at for each in waiting), default=None)
        except (*NOT_STORED, StoreTrouble) as error:
            self.trouble = str(error)
            self.log.error("notices.not_marked", why=str(error))
            return False
        self.trouble = None
        return bool(due)

    async def _record_troubles(self) -> None:
        """Record a notice of each trouble that is new."""
        self._next_wait = None
        if not any(self.messenger.recipients(kind) for kind in KINDS):
            return
        try:
            quarantined = await in_thread(self.quarantined)
        except OSError:
            quarantined = []  # `status` shows the problem with the directory itself
        recipients, patience = self.messenger.recipients, self.messenger.patience()
        # A step of the clock moves what is stored. Until these rows are, none may: they carry the time from before it.
        async with self.steps.noted() as now:
            troubles = await notices_of_troubles(self.store, recipients, quarantined, now)
            waiting = await notices_of_waits(self.store, recipients, patience, now)
            troubles += waiting.notices
            new = [each for each in troubles if each.id not in self._recorded]
            if new:
                await self.store.run([Statement(INSERT.sql, [inserted(each) for each in new])], "notice")
        self._next_wait = waiting.next_at
        self._recorded = frozenset(each.id for each in troubles)

    async def _deliver(self, due: list[PendingNotice], ahead: float) -> None:
        """Deliver them, and mark what became of them. `ahead` is what their times assume of the clock.

        The clock may be stepped meanwhile. Their next times must be written in the time to which a step moves all others.
        """
        answers: dict[str, str | None] = {}

        async def send(notice: PendingNotice) -> None:
            point("notice.before")
            answers[notice.id] = await in_thread(self.messenger.send, notice)
            point("notice.after")

        async with anyio.create_task_group() as tasks:
            for each in due:
                tasks.start_soon(send, each)
        settled: list[Row] = []
        delayed: list[Row] = []
        async with self.steps.noted() as now:
            moved = self.steps.ahead - ahead
            for each in due:
                why, tries = answers[each.id], each.tries + 1
                if why is None or now - (each.since + moved) >= GIVEN_UP_AFTER:
                    settled.append(("delivered" if why is None else "dead", now, tries, why, each.id))
                else:
                    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(each.tries, 16))
                    delayed.append((now + pause, tries, why, each.id))
            statements = [(SETTLE, settled), (DELAY, delayed)]
            await self.store.run([Statement(sql, rows) for sql, rows in statements if rows], "notice")
        for each in due:
            self._say(each, answers[each.id])

    def _say(self, notice: PendingNotice, why: str | None) -> None:
        fields = {"notice": notice.id, "kind": notice.kind, "subject": notice.subject, "to": notice.recipient}
        if why is None:
            self.log.info("notice.delivered", **fields)
        else:
            self.log.warning("notice.not_delivered", **fields, why=why, tries=notice.tries + 1)
