"""What a session's files say about its calls: the input of a replay, its order, and which attempt each call belongs to.

Times are Unix seconds, or None where the line has none. `line` is the number of the line, counted from 1, and
`source` the path of its file below the session's own directory, as the reader names it.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from math import inf
from typing import NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.model.bundle import Step, Stretch


class Place(NamedTuple):
    """Where a record was read: the file, the line (counted from 1), and the bytes of that line."""

    source: str
    line: int
    start: int
    length: int


class Called(NamedTuple):
    """A tool was called. `tokens` are those of the reply that made the call, at the reply's first call, else None.

    `problem` says why the params can't be hashed, when the file holds only nearly what they are. `attempt` is the
    attempt that made it, if the store says so.
    """

    place: Place
    at: float | None
    id: str
    tool: str
    params: JsonValue
    step_id: str | None = None
    tokens: int | None = None
    problem: str | None = None
    attempt: int | None = None


class Returned(NamedTuple):
    """A call came back. `content` is the content of the tool's record; for a failed call, `error` has it and `content` is
    None.

    `tokens` are those of the reply that made the call, if they are told after the call. `problem` says why the
    output can't be hashed.
    """

    place: Place
    at: float | None
    id: str
    content: JsonValue
    error: JsonValue = None
    success: bool = True
    exit_code: int | None = None
    step_utility: float | None = None
    tokens: int | None = None
    problem: str | None = None


def answered(
    place: Place,
    at: float | None,
    call: str,
    output: JsonValue,
    *,
    failed: bool,
    exit_code: int | None = None,
    step_utility: float | None = None,
    tokens: int | None = None,
    problem: str | None = None,
) -> Returned:
    """What came back for a call: its content or, if it failed, its error."""
    return Returned(
        place=place,
        at=at,
        id=call,
        content=None if failed else output,
        error=output if failed else None,
        success=not failed,
        exit_code=exit_code,
        step_utility=step_utility,
        tokens=tokens,
        problem=problem,
    )


class PlanTold(NamedTuple):
    """The session reported its plan: all steps, in order, as the tool wrote them.

    `hash` is the plan's hash as the session reports it, if it does not report the steps.
    """

    place: Place
    at: float | None
    steps: JsonValue
    step_count: int
    hash: str | None = None


class StepDone(NamedTuple):
    """The session reported a step as done."""

    place: Place
    at: float | None
    step_id: str
    status: str
    iterations: int | None = None


class VerificationTold(NamedTuple):
    """The session reported its verification: each command with its exit code (None: unknown).

    `delta` are the tests that failed at first minus those that failed at the end.
    """

    place: Place
    at: float | None
    commands: tuple[tuple[str, int | None], ...]
    delta: int | None = None


class Stated(NamedTuple):
    """What a native run says about itself in its trace. None for what it does not say."""

    place: Place
    issue_number: int | None = None
    policy_bundle_id: str | None = None
    confidence: float | None = None


class Paid(NamedTuple):
    """What a reply cost, by the session's own account; None if the account lacks it."""

    place: Place
    at: float | None
    usd: float | None


class Unusable(NamedTuple):
    """A line that describes a call and cannot be used, and why. It becomes a problem with its line."""

    place: Place
    problem: str


Told: TypeAlias = Called | Returned | PlanTold | StepDone | VerificationTold | Stated | Paid | Unusable


def by_time(one: Iterable[Told], other: Iterable[Told]) -> Iterator[Told]:
    """Both in the order of their times, `one` first at the same time. The order within each source stays as it is."""
    others = iter(other)
    first = next(others, None)
    # Most sessions have one source, which needs no order.
    if first is None:
        yield from one
        return
    for _, record in heapq.merge(_timed(one), _timed(chain((first,), others)), key=lambda each: each[0]):
        yield record


def _timed(records: Iterable[Told]) -> Iterator[tuple[float, Told]]:
    """Each with its time: at least that of what comes before it, because a source is not reordered."""
    latest = -inf
    for each in records:
        at = time_of(each)
        latest = latest if at is None else max(latest, at)
        yield latest, each


def time_of(record: Told) -> float | None:
    """When it happened (Unix seconds), if it says so."""
    return record.at if isinstance(record, Called | Returned | PlanTold | StepDone) else None


def as_shown(one: Iterable[Told], other: Iterable[Told], steps: Iterable[Step]) -> Iterator[Told]:
    """Both in the order in which they were shown step by step, and then by time. Without steps all is by time."""
    rest, others = iter(one), iter(other)
    waiting: list[Told] = []
    before = 0
    for step in steps:
        yield from by_time(_up_to(step.end, rest, waiting), islice(others, step.others - before))
        before = step.others
    yield from by_time(chain(waiting, rest), others)


def _up_to(end: int, rest: Iterator[Told], waiting: list[Told]) -> Iterator[Told]:
    """The calls that are reported before the byte `end`. The first one after that stays in `waiting`."""
    for record in chain([waiting.pop()] if waiting else [], rest):
        if record.place.start + record.place.length > end:
            waiting.append(record)
            return
        yield record


class BeganAndEnded(NamedTuple):
    """An attempt's number, the times of its begin and end (Unix seconds), and the hash of the event that began it.

    `log_before` is how much of the session's log belongs to earlier attempts, `log_up_to` how much belongs to this one
    or to earlier ones: lines, for a native run the bytes of its trace. Both are None if that is not known.
    """

    attempt: int
    started_at: float
    ended_at: float | None
    hash: str | None = None
    log_before: int | None = None
    log_up_to: int | None = None

    @property
    def is_correction(self) -> bool:
        """Whether it only says how the attempt before it ended."""
        return self.attempt > 1 and self.started_at == self.ended_at


def stretch_of(attempts: Sequence[BeganAndEnded], attempt: int) -> Stretch | None:
    """The stretch of one of a session's `attempts`, which are in order. None if it is not among them."""
    asked = next((each for each in attempts if each.attempt == attempt), None)
    if asked is None:
        return None
    working = [each for each in attempts if not each.is_correction]
    own = next((each for each in reversed(working) if each.attempt <= attempt), asked)
    following = next((each for each in working if each.attempt > attempt), None)
    last = [each for each in attempts if following is None or each.attempt < following.attempt][-1]
    return Stretch(
        started_at=asked.started_at,
        ended_at=asked.ended_at,
        begins=None if own.attempt == 1 else own.started_at,
        ends=None if following is None else following.started_at,
        hash=asked.hash,
        log_before=None if own.attempt == 1 else own.log_before,
        log_up_to=last.log_up_to,
        attempts=(own.attempt, last.attempt),
    )
