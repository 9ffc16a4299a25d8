"""A chain was fired: its run begins or waits for its turn, or the firing is skipped; each with its reason."""

from typing import Final, NamedTuple

from runward.config.chain import chain_of
from runward.config.counted_values import Missing
from runward.config.expression import Value
from runward.config.expression_syntax import ExpressionError
from runward.config.json_value import JsonValue
from runward.config.step import NAMES
from runward.handlers.chains.advancing import TURN, WAITS, Position, about, begin_within, onward, over, run_id
from runward.handlers.chains.finished import CHAIN
from runward.handlers.chains.rang import DEADLINE
from runward.handlers.chains.stepping import given_to
from runward.handlers.invocations.ids import of_chain_run
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    MOST_FIRINGS,
    ChainFired,
    ChainFiresNow,
    ChainRunCancelRequested,
    ChainRunOf,
    FiringsOf,
    OpenChainRun,
    OpenRun,
    OpenRunsOf,
    RecordFiring,
    SetChainRun,
    SetStep,
)
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.model.invocations import OpenInvocation
from runward.handlers.model.timers import TimerSet
from runward.handlers.times import in_utc

MOST_DEEP: Final = 8
"""How many chain runs may fire one another in a row."""

BY_EVENT: Final = "firing.fired.event"
SCHEDULED: Final = "schedule"


class Skipped(NamedTuple):
    """Why no run begins."""

    code: str
    why: str


class Turn(NamedTuple):
    """The key by which a run takes turns (None: no turns), the runs that it waits for, and those that it ends."""

    by: str | None = None
    waits_for: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


def decide(event: ChainFired, given: Given) -> Deciding:
    """A chain was fired: its run begins or waits for its turn, or the firing is skipped; each with its reason.

    Open the run and begin it, or say why not.
    """
    run = run_id(event.key)
    skipped = yield from _skipped(event, run, given.at)
    if skipped is not None:
        said = Explain(
            f"chain {event.chain}",
            "refused",
            f"{event.event} {event.event_id} is skipped: {skipped.why}",
            {"reason": skipped.code},
        )
        return _firing(event, given.at, skipped.code, skipped.why), said
    chain = chain_of(event.definition)
    parent = None if event.by_run is None else (yield from ask(ChainRunOf(event.by_run)))
    depth = 1 if parent is None else parent.depth + 1
    deadline = None if chain.timeout is None else given.at + chain.timeout
    cause: JsonValue = {
        "event": event.event,
        "event_id": event.event_id,
        "due_at": None if event.due_at is None else in_utc(event.due_at),
        "events": event.events,
    }
    position = Position(
        *(run, chain, event.fields, event.fired_by, given.event_hash, {}, deadline),
        fired_at=given.at,
        cause=cause,
    )
    others = yield from ask(OpenRunsOf(event.chain))
    turn = _turn(position, event, others)
    fired: tuple[Effect, ...] = (
        _firing(event, given.at, event.result, f"{event.event} {event.event_id}", run),
    )
    if event.due_at is not None:  # of an event or a request, what led to the firing has said so
        summary = f"{event.event} {event.event_id} fires it, as {run}"
        fired += (Explain(f"chain {event.chain}", "decided", summary),)
    opened = OpenChainRun(
        *(run, event.chain, given.at, event.definition, event.fields, event.fired_by, deadline),
        said_by=event.said_by,
        depth=depth,
        turn=turn.by if isinstance(turn, Turn) else None,
        waits=isinstance(turn, Turn) and bool(turn.waits_for),
        cause=cause,
    )
    root = OpenInvocation(of_chain_run(run), CHAIN, given.at, chain_run=run)
    if depth > MOST_DEEP:
        why = f"{MOST_DEEP} chain runs have fired one another, the last one {event.by_run}"
        return *fired, opened, root, *over(run, event.chain, given.at, "failed", "chain.failed.depth", why, 0)
    if isinstance(turn, str):
        return (
            *fired,
            opened,
            root,
            *over(run, event.chain, given.at, "failed", "chain.failed.step_failed", turn, 0),
        )
    timers = () if deadline is None else (Emit(TimerSet(run, DEADLINE, given.at, deadline)),)
    if turn.waits_for:
        waiting = _wait(position, turn, given.at)
        return (*fired, opened, root, *timers, *waiting, *_end(turn, run, given))
    followed = yield from onward(position, given.at)
    return (*fired, opened, root, *timers, *followed)


def _firing(event: ChainFired, at: float, result: str, why: str, run: str | None = None) -> RecordFiring:
    return RecordFiring(event.chain, at, event.fired_by, event.event, result, why, run, event.due_at)


def _skipped(event: ChainFired, run: str, at: float) -> Asking[Skipped | None]:
    fires = yield from ask(ChainFiresNow(event.chain))
    if fires is not None and fires.status != "active" and event.at >= fires.since:
        return Skipped("firing.skipped.paused", f"it is {fires.status}, as {fires.said_by} asked")
    if (yield from ask(ChainRunOf(run))) is not None:
        return Skipped("firing.skipped.duplicate", f"it was fired by this before, as {run}")
    parent = None if event.by_run is None else (yield from ask(ChainRunOf(event.by_run)))
    if parent is not None and parent.depth > MOST_DEEP:  # its events must not begin an endless loop
        return Skipped("firing.skipped.depth", f"{parent.id} was too deep itself ({parent.reason_code})")
    if event.result == BY_EVENT:
        lately = yield from ask(FiringsOf(event.chain))
        if len(lately) >= MOST_FIRINGS and at - 60.0 < lately[-1] <= at:
            return Skipped("firing.skipped.storm", f"events fired it {MOST_FIRINGS} times in a minute")
    schedule = chain_of(event.definition).trigger.schedule
    if event.due_at is not None and schedule is not None and schedule.overlap == "skip":
        others = yield from ask(OpenRunsOf(event.chain))
        if others:
            return Skipped("firing.skipped.overlap", f"{others[0].id} is not over")
    return None


def _turn(position: Position, event: ChainFired, others: tuple[OpenRun, ...]) -> Turn | str:
    """Which runs this one has to wait for. A text if its key can't be found."""
    rule, schedule = position.chain.concurrency, position.chain.trigger.schedule
    if rule is not None:
        try:
            found = Value(rule.key, NAMES).render(given_to(event.fields, [], about(position)))
        except ExpressionError as error:
            return f"concurrency: {error}"
        if isinstance(found, Missing):
            return f"concurrency: {found.why}"
        by = f"key {found}"
        same = tuple(each.id for each in others if each.turn == by)
        return Turn(by, same, same if rule.policy == "cancel" else ())
    if schedule is not None and schedule.overlap == "queue":
        is_due = event.due_at is not None
        return Turn(SCHEDULED, tuple(each.id for each in others) if is_due else ())
    return Turn()


def _wait(position: Position, turn: Turn, at: float) -> tuple[Effect, ...]:
    said = f"it waits until {', '.join(turn.waits_for[:3])} is over"
    first = position.chain.steps[0]
    return (
        SetStep(position.run, first.index, at, "waiting", None, said, attempt=1),
        SetChainRun(position.run, at, "running", WAITS, said, first.index),
        Explain(position.run, "decided", said),
        *begin_within(position.run, first, TURN, 1, at),
    )


def _end(turn: Turn, run: str, given: Given) -> tuple[Effect, ...]:
    return tuple(
        Emit(
            ChainRunCancelRequested(
                f"{each}/superseded/{run}", given.at, each, f"{run} takes its place", "its concurrency", True
            )
        )
        for each in turn.ends
    )
