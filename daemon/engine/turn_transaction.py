"""What a turn puts, decides and applies in one transaction, in the thread of the store's connection.

Jobs are decided round by round: what one round decided is written before the next one asks. The rounds end when nothing
follows, when a job needs a file, or when the turn has done its share. What is left waits for the next turn.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from runward.daemon.engine.deciding import NOTHING_FORESEEN, Decider, Round
from runward.daemon.engine.foreseeing import Foreseen
from runward.daemon.store import packing, pruning
from runward.daemon.store.batch import Batch, Blocked, Claim, Job, JobResult, Observation
from runward.daemon.store.hash_chain import Head
from runward.daemon.store.store import Transaction
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables import events, jobs
from runward.daemon.store.transaction import without_waiting
from runward.daemon.world.clock import Clock
from runward.handlers.exchange.results import told_together

LONGEST: Final = 0.05
"""Seconds after which no further round begins: all other reads and writes wait for the transaction."""

MOST_EVENTS: Final = 1024
"""Events after which no further round begins, and no further job is part of the next one."""


class Decided(NamedTuple):
    """What was decided about claimed jobs since their claim was committed."""

    claim: Claim
    results: Sequence[JobResult]


@dataclass(slots=True)
class TurnTransaction:
    """The work of one turn's transaction, and what it did. If it is refused, nothing happened."""

    decider: Decider
    clock: Clock
    token: str
    head: Head
    new_batch: Callable[[Head, Blocked], Batch]
    open_before: Mapping[str, int]
    """How many jobs waited in each lane before."""
    foreseen: Foreseen = NOTHING_FORESEEN
    """What jobs may know of files: answers that were given before the transaction."""
    opened: Counter[str] = field(default_factory=Counter)
    """How many more of them wait in each lane now."""
    completed: list[JobResult] = field(default_factory=list)
    undecided: Round | None = None
    """The last round, if some of its jobs need files. They are claimed under the token."""
    waiting: list[Job] = field(default_factory=list)
    """The new jobs that wait."""
    released: bool = False
    rung: bool = False
    _first: int = 0
    _until: float = 0.0
    _stops: bool = False

    def work(
        self,
        transaction: Transaction,
        observed: Sequence[Observation],
        due: Sequence[Job],
        earlier: Decided | None,
    ) -> None:
        """Put what was observed and what was decided earlier, and decide what follows. Raises what the store refuses."""
        self._first, self._until = self.head.seq, self.clock.monotonic() + LONGEST
        self._prepare(transaction, observed)
        self.opened.subtract(job.lane for job in due)
        batch = self.new_batch(self.head, self._is_blocked)
        if earlier is not None:
            self._block(earlier.results)
            for result in earlier.results:
                jobs.finish_claimed(batch, result, earlier.claim.token)
                self._apply(batch, result)
        self._put(batch, transaction, observed)
        due_ids = {job.id for job in due}
        round_jobs = sorted([*due, *self._write(batch, transaction)], key=lambda job: job.id)
        while round_jobs:
            round_jobs = self._decide(transaction, round_jobs, due_ids)

    def _prepare(self, transaction: Transaction, observed: Sequence[Observation]) -> None:
        """Restore the rows of packed and pruned sessions that have new facts."""
        found = [event for each in observed for event in each.events]
        if found:
            transaction.write(without_waiting(packing.unpacked(transaction, {event.lane for event in found})))
            transaction.write(without_waiting(pruning.reopened(transaction, found)))

    def _put(self, batch: Batch, transaction: Transaction, observed: Sequence[Observation]) -> None:
        # What is known already changes nothing, and its key would have the whole transaction refused.
        keys = [event.key for each in observed for event in each.events]
        known = set(without_waiting(events.known_events(transaction, keys)) if keys else ())
        for each in observed:
            for event in each.events:
                if event.key not in known:
                    known.add(event.key)
                    events.add_event(batch, event)
            for rows in each.rows:
                batch.add(rows)

    def _decide(self, transaction: Transaction, round_jobs: Sequence[Job], due: set[int]) -> list[Job]:
        """Decide and apply a round; returns the jobs of the next one."""
        round_ = self.decider.decide_inside(round_jobs, transaction, self.foreseen)
        self._stops = not round_.is_over or self._is_enough()
        batch = self.new_batch(self.head, self._is_blocked)
        for job in round_.undecided():
            if job.id in due:
                jobs.claim_due(batch, job, self.token)
            else:
                jobs.keep_claimed(batch, job, self.token)
        results = _told_together(round_.results())
        self._block(results)
        for result in results:
            if result.job.id in due:
                jobs.finish_due(batch, result)
            else:
                jobs.finish_new(batch, result)
            self._apply(batch, result)
        following = self._write(batch, transaction)
        if not round_.is_over:
            round_.keep_undecided()
            self.undecided = round_
        return following

    def _block(self, results: Sequence[JobResult]) -> None:
        """Count what waits after this round before any of its effects: what another job emits into such a lane comes behind."""
        self.opened.update(each.job.lane for each in results if each.state in ("waiting", "held"))

    def _apply(self, batch: Batch, result: JobResult) -> None:
        tables.apply_result(batch, result)
        self.completed.append(result)

    def _write(self, batch: Batch, transaction: Transaction) -> list[Job]:
        """Write the rows; returns the new jobs that don't wait."""
        transaction.write(tables.statements(batch))
        self.head = batch.head
        self.opened.update(job.lane for job in batch.waiting)
        self.waiting += batch.waiting
        self.released, self.rung = self.released or batch.released, self.rung or batch.rung
        return batch.claimed

    # Told the number of the last event: if the transaction knew the batch, which asks it, they would be a cycle, and all that they
    # hold would stay in memory until cycles are collected.
    def _is_blocked(self, lane: str, last: int) -> bool:
        # What waits in the lane comes first. And as long as some jobs of this turn need files, nothing may follow from
        # the others: it could be decided on what these jobs are about to change.
        # One event may be followed by thousands at once. They are recorded together, and decided by the turns to come.
        self._stops = self._stops or last - self._first > MOST_EVENTS
        return self._stops or self.open_before.get(lane, 0) + self.opened[lane] > 0

    def _is_enough(self) -> bool:
        return self.head.seq - self._first >= MOST_EVENTS or self.clock.monotonic() >= self._until


def _told_together(results: Sequence[JobResult]) -> list[JobResult]:
    """The results, with one event for the actions of each attempt."""
    effects_of = told_together([result.effects for result in results])
    return [
        result if effects is result.effects else result._replace(effects=effects)
        for result, effects in zip(results, effects_of, strict=True)
    ]
