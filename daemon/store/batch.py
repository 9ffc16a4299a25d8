"""Everything in one transaction, collected row by row: one statement for each table and kind of write.

So a batch of 256 jobs costs a dozen statements. The owner of a table says what an effect means for its rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runward.daemon.store.hash_chain import Head, Recorded, link
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables import jobs
from runward.daemon.store.tables.jobs import JOBS_AN_EVENT, Job, JobResult
from runward.daemon.store.tables.table import Rows, Write
from runward.daemon.store.transaction import Row, Statement
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event
from runward.handlers.route import SCHEDULED, TIMERS, Duty, duties, in_background


class Observation(NamedTuple):
    """Events that belong together, with what must be remembered with them."""

    subject: str
    events: Sequence[Event]
    rows: Sequence[Rows] = ()


@dataclass(slots=True)
class Batch:
    """Everything in one transaction. `head` advances as events are added."""

    head: Head
    epoch: int
    now: float
    steady: float
    """The wall time that all waiting rows use: it jumps when the store notes a step of the clock."""
    jobs: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    released: bool = False
    """Whether a held job was released."""
    rung: bool = False
    """Whether timers must be looked at now."""
    _rows: dict[Write, list[Row]] = field(default_factory=dict)

    def statements(self) -> list[Statement]:
        """The transaction: exact guards, parents before their children. `KeyError` for a write to an unknown table."""
        statements = [
            Statement(write.sql, rows, write.exact)
            for write in tables.WRITES
            if (rows := self._rows.get(write))
        ]
        if len(statements) < len(self._rows):
            strays = [write.sql for write in self._rows if write not in tables.WRITES]
            raise KeyError(f"no place in a transaction is known for: {strays}")
        return statements

    def add_event(
        self,
        event: Event,
        token: str | None,
        blocked: Callable[[str], bool],
        cause: str | None = None,
        depth: int = 0,
    ) -> Recorded:
        """Record an event with a job for each of its handlers, claimed under `token` unless its lane is blocked."""
        # Numbered before the transaction runs: no other writer can take the number, or the epoch's check refuses us.
        recorded = link(self.head, event, self.now, cause, depth)
        self.head = Head(recorded.seq, recorded.hash)
        self.row(
            jobs.INSERT_EVENT,
            (
                recorded.seq,
                event.key,
                event.type,
                event.version,
                event.lane,
                event.at,
                self.now,
                cause,
                depth,
                recorded.payload,
                recorded.hash,
            ),
        )
        for duty in duties(event):
            waits = token is None or duty.due > self.now or in_background(duty.lane) or blocked(duty.lane)
            self._add_job(recorded, duty, None if waits else token)
        return recorded

    def _add_job(self, recorded: Recorded, duty: Duty, token: str | None) -> None:
        number, event = recorded.seq * JOBS_AN_EVENT + duty.number, recorded.event
        handler, lane = duty.handler, duty.lane
        job = Job(number, recorded.seq, event, recorded.hash, recorded.depth, handler, lane)
        (self.waiting if token is None else self.jobs).append(job)
        state = "waiting" if token is None else "running"
        row = (
            number,
            recorded.seq,
            handler,
            lane,
            state,
            token,
            self.epoch,
            self.now,
            self._due(duty, event),
        )
        self.row(jobs.INSERT_JOB, row)

    def _due(self, duty: Duty, event: Event) -> float:
        """When a job is due. A timer never waits longer than it was set for, even if its clock was ahead."""
        is_timer = duty.lane.startswith(TIMERS) and not duty.lane.startswith(SCHEDULED)
        return min(duty.due, self.steady + duty.due - event.at) if is_timer else duty.due

    def add_result(self, result: JobResult, token: str) -> None:
        """Complete a job under the token it was claimed with, and apply what it decided."""
        job = result.job
        tries = job.tries if result.state == "done" else job.tries + 1
        self.row(jobs.FINISH, (result.state, result.run_after, tries, result.error, self.now, job.id, token))
        for effect in result.effects:
            self.apply(job, effect)

    def apply(self, job: Job, effect: Effect) -> None:
        """Add the rows of an effect."""
        tables.APPLIERS[type(effect)](self, job, effect)

    def add(self, rows: Rows) -> None:
        """Add rows from another source, such as a cursor's new state."""
        if rows.rows:
            self._rows.setdefault(rows.write, []).extend(rows.rows)

    def row(self, write: Write, row: Row) -> None:
        """Add a row to this statement."""
        rows = self._rows.get(write)
        if rows is None:
            self._rows[write] = [row]
        else:
            rows.append(row)

    def row_once(self, write: Write, row: Row) -> None:
        """Add a row to this statement unless it is there already; for few different rows."""
        if row not in self._rows.get(write, ()):
            self.row(write, row)

    def last(self, write: Write) -> Row | None:
        """The row of this statement that was added last."""
        rows = self._rows.get(write)
        return rows[-1] if rows else None
