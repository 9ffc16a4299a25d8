"""A chain is fired, by an event or a person: its runs begin, wait for their turn and end, each with its reason."""

from typing import Final, NamedTuple

from runward.config import own_events
from runward.config.chain import Chain, chain_of
from runward.config.counted_values import ExpressionError, Missing
from runward.config.expression import Value
from runward.config.glob_rule import path_matches
from runward.config.json_value import JsonValue
from runward.config.problem import quoted
from runward.config.seen import NAMES
from runward.config.trigger import Trigger, why_not
from runward.handlers.chains import advancing
from runward.handlers.chains.advancing import (
    STARTED,
    WAITS,
    Position,
    Reason,
    about,
    onward,
    over,
    position_of,
    run_id,
    wait_for_turn,
)
from runward.handlers.chains.continuing import DEADLINE
from runward.handlers.chains.stepping import given_to
from runward.handlers.invocations import COMPLETED, completed, of_chain_run
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    BY_EVENT,
    MOST_FIRINGS,
    ChainFired,
    ChainFireRequested,
    ChainFiresNow,
    ChainNamed,
    ChainRunCancelRequested,
    ChainRunFinished,
    ChainRunOf,
    ChainRunStanding,
    ChainRunTurn,
    ChainStatusRequested,
    EventOccurred,
    FiringsOf,
    IsHeard,
    ListenersTo,
    OpenChainRun,
    OpenRun,
    OpenRunsOf,
    RecordFiring,
    SetChainStatus,
    TriggerMatched,
)
from runward.handlers.model.effects import Deciding, Effect, Effects, Emit, Explain
from runward.handlers.model.fleet import EventAccepted, HeardElsewhere, OwnHost, PublishEvent
from runward.handlers.model.invocations import Invocation, OpenInvocation
from runward.handlers.model.schedules import TimerSet
from runward.handlers.notices import notices
from runward.handlers.subjects import of_chain
from runward.handlers.times import in_utc


def fire_what_listens(event: EventOccurred, given: Given) -> Deciding:
    """An event occurred: each chain that listens to it and whose filter it passes is fired, or waits for the rest.

    If an event does not pass a chain's filter, that is kept as a refusal with its reason.
    """
    if event.host is not None and not (yield from ask(EventAccepted(event.host, event.name))):
        why = f"{event.name} {event.id} fires nothing: no [[fleet.accept]] here has it from {event.host}"
        return (Explain(event.lane, "refused", why),)
    chains = yield from ask(ListenersTo(event.name, event.host))
    own = yield from ask(OwnHost())
    effects: list[Effect] = []
    if event.host is None and (yield from ask(HeardElsewhere(event.name))):
        effects.append((yield from _told(event)))
    for chain in chains:
        items, reason = _meant(chain, event, own)
        subject = of_chain(chain.name)
        if not items:
            effects.append(Explain(subject, "refused", f"{event.name} does not fire it: {reason}"))
            continue
        # Whatever the event says: who has it said is known.
        named = {"host": event.host or own} if chain.trigger.names_hosts else {}
        fields: dict[str, JsonValue] = {**event.fields, **named}
        common = (chain.name, event.at, event.key, event.name, event.id, fields, chain.definition)
        # Each event for a composite goes through the chain's own lane. Events of different names are decided side by
        # side, and one would not see that the other was held.
        if chain.trigger.composite is not None:
            effects.append(
                Emit(TriggerMatched(*common, items, event.said_by, event.by_run, depth=event.depth))
            )
            continue
        fired = ChainFired(*common, event.said_by, event.by_run, depth=event.depth)
        effects += [Emit(fired), Explain(subject, "decided", f"{event.name} fires it")]
    return tuple(effects)


def _told(event: EventOccurred) -> Asking[PublishEvent]:
    """Have the fleet told of it."""
    run = None if event.by_run is None else (yield from ask(ChainRunOf(event.by_run)))
    depth = max(event.depth, 0 if run is None else run.depth)
    return PublishEvent(event.key, event.at, event.name, event.id, event.fields, depth)


def _meant(chain: Chain, event: EventOccurred, own: str | None) -> tuple[tuple[int, ...], str | None]:
    """The numbers of the events in the trigger that this one matches, or why it matches none."""
    numbers: list[int] = []
    reason: str | None = None
    for number, leaf in enumerate(chain.trigger.leaves):
        if leaf.event == event.name and leaf.is_from(event.host, own):
            refused = _elsewhere(leaf, event) or why_not(leaf.filter, event.fields)
            if refused is None:
                numbers.append(number)
            reason = reason or refused
    return tuple(numbers), reason


def _elsewhere(leaf: Trigger, event: EventOccurred) -> str | None:
    """Why a changed file is not one that this trigger is about."""
    path = event.fields.get("path")
    if leaf.path is None or (isinstance(path, str) and path_matches(path, leaf.path)):
        return None
    return f"path is {quoted(path)}, and the trigger wants {leaf.path}"


def fire_as_asked(event: ChainFireRequested, given: Given) -> Deciding:
    """A person asks for a chain to be fired."""
    chain = yield from ask(ChainNamed(event.chain))
    subject = of_chain(event.chain)
    if isinstance(chain, str):
        return (Explain(subject, "refused", f"it is not fired, as {event.said_by} asked: {chain}"),)
    fired = ChainFired(
        chain=event.chain,
        at=event.at,
        fired_by=event.key,
        event="manual.fired",
        event_id=event.key,
        fields=event.fields,
        definition=chain.definition,
        said_by=event.said_by,
        by_run=event.by_run,
        result="firing.fired.by_hand",
    )
    return Emit(fired), Explain(subject, "decided", f"it is fired, as {event.said_by} asked")


def set_status(event: ChainStatusRequested, given: Given) -> Effects:
    """A person pauses, disables or resumes a chain.

    Firings that are requested later are skipped, or no longer skipped.
    """
    change = f"{event.status}, as {event.said_by} asked" + (f": {event.note}" if event.note else "")
    return (
        SetChainStatus(event.chain, event.at, event.status, event.note, event.said_by),
        Explain(of_chain(event.chain), "decided", f"it is {change}"),
    )


def begin_in_turn(event: ChainRunTurn, given: Given) -> Deciding:
    """A chain run that waited for another one has its turn: its first step begins."""
    run = yield from ask(ChainRunOf(event.run))
    if run is None or run.status != "running" or run.reason_code != WAITS:
        return ()
    if advancing.is_late(run, given.at):
        return (yield from advancing.end(run, given))
    position = position_of(run, given)
    return (yield from onward(position.without(position.chain.steps[0].index)))


MOST_DEEP: Final = 8
"""How many chain runs may fire one another in a row."""

SCHEDULED: Final = "schedule"


class Skipped(NamedTuple):
    """Why no run begins."""

    code: str
    why: str


def skipped(event: ChainFired | TriggerMatched, reason: Skipped, at: float) -> Effects:
    """Record that the event does not fire its chain."""
    summary = f"{event.event} {event.event_id} is skipped: {reason.why}"
    explained = Explain(of_chain(event.chain), "refused", summary, {"reason": reason.code})
    return _firing(event, at, reason.code, reason.why), explained


def paused(event: ChainFired | TriggerMatched) -> Asking[Skipped | None]:
    """Whether the chain did not fire any more when the event occurred."""
    fires = yield from ask(ChainFiresNow(event.chain))
    if fires is None or fires.status == "active" or event.at < fires.since:
        return None
    return Skipped("firing.skipped.paused", f"it is {fires.status}, as {fires.said_by} asked")


class Turn(NamedTuple):
    """The key by which a run takes turns (None: no turns), the runs that it waits for, and those that it ends."""

    by: str | None = None
    waits_for: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


def open_run(event: ChainFired, given: Given) -> Deciding:
    """A chain was fired: its run begins or waits for its turn, or the firing is skipped; each with its reason."""
    run = run_id(event.key)
    reason = yield from _skipped(event, run, given.at)
    if reason is not None:
        return skipped(event, reason, given.at)
    chain = chain_of(event.definition)
    parent = None if event.by_run is None else (yield from ask(ChainRunOf(event.by_run)))
    depth = 1 + max(event.depth, 0 if parent is None else parent.depth)
    # The time of the run begins here, so the wait for its turn is a part of it.
    deadline = None if chain.timeout is None else given.at + chain.timeout
    cause: JsonValue = {
        "event": event.event,
        "event_id": event.event_id,
        "due_at": None if event.due_at is None else in_utc(event.due_at),
        "events": event.events,
    }
    standing = ChainRunStanding(
        id=run,
        chain=event.chain,
        status="running",
        definition=event.definition,
        trigger=event.fields,
        fired_by=event.fired_by,
        reason_code=STARTED,
        reason_summary="it was fired",
        deadline=deadline,
        steps={},
        said_by=event.said_by,
        depth=depth,
        created_at=given.at,
        cause=cause,
    )
    position = Position(standing, chain, given)
    others = yield from ask(OpenRunsOf(event.chain))
    turn = _turn(position, event, others)
    effects: list[Effect] = [_firing(event, given.at, event.result, f"{event.event} {event.event_id}", run)]
    if event.due_at is not None:  # of an event or a request, what led to the firing has said so
        summary = f"{event.event} {event.event_id} fires it, as {run}"
        effects.append(Explain(of_chain(event.chain), "decided", summary))
    # A run that can't begin is opened all the same, so that it can be found with the reason of its end.
    effects += [
        OpenChainRun(standing._replace(turn=turn.by), bool(turn.waits_for))
        if isinstance(turn, Turn)
        else OpenChainRun(standing),
        OpenInvocation(of_chain_run(run), CHAIN, given.at, chain_run=run),
    ]
    if depth > MOST_DEEP:
        last = event.by_run or f"by {event.event_id}"
        why = f"{MOST_DEEP} chain runs have fired one another, the last one {last}"
        return (*effects, *over(standing, Reason("chain.failed.depth", why), given.at))
    if isinstance(turn, str):
        return (*effects, *over(standing, Reason("chain.failed.step_failed", turn), given.at))
    if deadline is not None:
        effects.append(Emit(TimerSet(run, DEADLINE, given.at, deadline)))
    if turn.waits_for:
        return (*effects, *wait_for_turn(position, turn.waits_for), *_end(turn, run, given))
    return (*effects, *(yield from onward(position)))


def _firing(
    event: ChainFired | TriggerMatched, at: float, result: str, why: str, run: str | None = None
) -> RecordFiring:
    return RecordFiring(
        chain=event.chain,
        at=at,
        fired_by=event.fired_by,
        event=event.event,
        result=result,
        why=why,
        run=run,
        due_at=event.due_at,
    )


def _skipped(event: ChainFired, run: str, at: float) -> Asking[Skipped | None]:
    reason = yield from paused(event)
    if reason is not None:
        return reason
    if (yield from ask(ChainRunOf(run))) is not None:
        return Skipped("firing.skipped.duplicate", f"it was fired by this before, as {run}")
    parent = None if event.by_run is None else (yield from ask(ChainRunOf(event.by_run)))
    if parent is not None and parent.depth > MOST_DEEP:  # its events must not begin an endless loop
        return Skipped("firing.skipped.depth", f"{parent.id} was too deep itself ({parent.reason_code})")
    if event.depth > MOST_DEEP:
        why = f"{event.depth} chain runs on several hosts have fired one another before it"
        return Skipped("firing.skipped.depth", why)
    # Only events can fire a chain in a storm. A schedule has its own times, and a person means each request.
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
            key = Value(rule.key, NAMES).render(given_to(event.fields, [], about(position)))
        except ExpressionError as error:
            return f"concurrency: {error}"
        if isinstance(key, Missing):
            return f"concurrency: {key.why}"
        by = f"key {key}"
        same = tuple(each.id for each in others if each.turn == by)
        return Turn(by, same, same if rule.policy == "cancel" else ())
    if schedule is not None and schedule.overlap == "queue":
        # A person who fires the chain means now: only firings of the schedule queue behind one another.
        is_due = event.due_at is not None
        return Turn(SCHEDULED, tuple(each.id for each in others) if is_due else ())
    return Turn()


def _end(turn: Turn, run: str, given: Given) -> tuple[Effect, ...]:
    return tuple(
        Emit(
            ChainRunCancelRequested(
                request=f"{each}/superseded/{run}",
                at=given.at,
                run=each,
                reason=f"{run} takes its place",
                said_by="its concurrency",
                superseded=True,
            )
        )
        for each in turn.ends
    )


FINISHED: Final = "chain.finished"
CHAIN: Final = "chain"
"""The skill of a chain run's root."""


def report_end(event: ChainRunFinished, given: Given) -> Deciding:
    """A chain run is over: it is reported, a failure pauses its chain if the chain's file says so, and the next run
    begins."""
    effects: list[Effect] = []
    open_runs = yield from ask(OpenRunsOf(event.chain))
    # Several turns may be free at once, because runs with different keys don't wait for one another. Each goes to the
    # oldest run that waits for it.
    taken = {run.turn for run in open_runs if not run.waits and run.id != event.run}
    for run in open_runs:
        if run.waits and run.turn not in taken and run.id != event.run:
            taken.add(run.turn)
            effects.append(Emit(ChainRunTurn(run.id, given.at, event.run)))
    if event.status in ("failed", "timed_out"):
        chain = yield from ask(ChainNamed(event.chain))
        schedules = () if isinstance(chain, str) else chain.trigger.schedules
        pauses = any(each.pause_on_failure for each in schedules)
        fires = yield from ask(ChainFiresNow(event.chain))
        if pauses and (fires is None or fires.status == "active"):
            why = f"{event.run} ended {event.status}, and its file says pause_on_failure"
            effects += [
                SetChainStatus(event.chain, given.at, "paused", why, "pause_on_failure"),
                Explain(of_chain(event.chain), "decided", f"it is paused: {why}"),
            ]
    if (yield from ask(IsHeard(FINISHED))):
        fields = own_events.ChainFinished(event.chain, event.run, event.status, event.reason_code)._asdict()
        occurred = EventOccurred(
            f"{event.key}/event", given.at, FINISHED, event.run, fields, by_run=event.run
        )
        effects.append(Emit(occurred))
    effects += yield from _root_completed(event, given.at)
    title = f"{event.chain} {event.status}"
    lines = (event.reason_code, f"runward why {event.run}")
    return (*effects, *(yield from notices(f"chain.{event.status}", event.run, title, lines, given.at)))


def _root_completed(event: ChainRunFinished, at: float) -> Asking[Effects]:
    """The end of the run's root, with the last outcome of its steps."""
    if event.status == "running" or event.status == "waiting_approval":  # mypy knows this form
        return ()
    outcome: JsonValue = None
    if (yield from ask(IsHeard(COMPLETED))):
        run = yield from ask(ChainRunOf(event.run))
        steps = {} if run is None else run.steps
        outcomes = [steps[index].outcome for index in sorted(steps) if steps[index].outcome is not None]
        outcome = outcomes[-1] if outcomes else None
    root = Invocation(of_chain_run(event.run), CHAIN, event.chain, event.run)
    return (yield from completed(root, at, event.status, event.reason_code, outcome, session_key=None))
