"""Everything in one transaction, collected row by row: one statement for each table and kind of write.

So a batch of 256 jobs costs a dozen statements. The owner of a table says what an effect means for its rows. Commands
import this with the tables, so it imports little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from runward.daemon.store.transaction import Row

if TYPE_CHECKING:
    from runward.daemon.store.hash_chain import Head
    from runward.handlers.model.effects import Effect
    from runward.handlers.model.events import Event


class Write:
    """A statement for all rows of a batch. With `exact`, each row must touch exactly one row of the table."""

    __slots__ = ("exact", "sql")

    def __init__(self, sql: str, exact: bool = True) -> None:
        self.sql: Final = sql
        self.exact: Final = exact


class Rows(NamedTuple):
    """Rows for a statement that come from a look instead of an effect."""

    write: Write
    rows: Sequence[Row]


class Observation(NamedTuple):
    """Events that belong together, with what must be remembered with them.

    `then` is called in the event loop once all of it is durable; in doubt twice, never before.
    """

    subject: str
    events: Sequence[Event]
    rows: Sequence[Rows] = ()
    then: Callable[[], None] | None = None


class Job(NamedTuple):
    """The processing of one event by one handler, as the worker has claimed it."""

    id: int
    seq: int
    event: Event
    event_hash: str
    depth: int
    handler: str
    lane: str
    tries: int = 0


class JobResult(NamedTuple):
    """The new state of a claimed job: `done` with effects, or another state and why."""

    job: Job
    state: str
    effects: Sequence[Effect] = ()
    error: str | None = None
    run_after: float = 0.0


class Claim(NamedTuple):
    """Jobs that this turn may carry out, in order, and the token that proves it.

    `trouble` says that not everything could be recorded: it must be observed again.
    """

    token: str
    jobs: tuple[Job, ...]
    trouble: str | None = None
    ahead: float = 0.0
    """By how much the wall clock was ahead of the machine's own, as far as was noted."""


def put_back(job: Job) -> JobResult:
    """The result of a claimed job that was not reached: it waits again, and this doesn't count as a try."""
    return JobResult(job._replace(tries=job.tries - 1), "waiting")


Blocked: TypeAlias = Callable[[str, int], bool]
"""Whether a new job in this lane waits, where the last event has this number."""


def always(lane: str, last: int) -> bool:
    """Every new job waits."""
    return True


class Batch:
    """Rows that are written together. `head` advances as events are added.

    `steady` is the wall time that all waiting rows use: it jumps when the store notes a step of the clock. New jobs in
    lanes that are not `blocked` are `claimed`: they have no row yet, because most are over before they would need one.
    """

    def __init__(self, head: Head, epoch: int, now: float, steady: float, blocked: Blocked = always) -> None:
        self.head = head
        self.epoch, self.now, self.steady, self.blocked = epoch, now, steady, blocked
        self.claimed: list[Job] = []
        self.waiting: list[Job] = []
        self.released = False
        """Whether a held job was released."""
        self.rung = False
        """Whether timers must be looked at now."""
        self.rows: dict[Write, list[Row]] = {}

    def add(self, rows: Rows) -> None:
        """Add rows from another source, such as a cursor's new state."""
        # They belong to the transaction of the events that were seen with them: a crash must not store the one without
        # the other, or the events would be lost, or put twice.
        if rows.rows:
            self.rows.setdefault(rows.write, []).extend(rows.rows)

    def row(self, write: Write, row: Row) -> None:
        """Add a row to this statement."""
        rows = self.rows.get(write)
        if rows is None:
            self.rows[write] = [row]
        else:
            rows.append(row)

    def row_once(self, write: Write, row: Row) -> None:
        """Add a row to this statement unless it is there already; for few different rows."""
        if row not in self.rows.get(write, ()):
            self.row(write, row)

    def last(self, write: Write) -> Row | None:
        """The row of this statement that was added last."""
        rows = self.rows.get(write)
        return rows[-1] if rows else None
