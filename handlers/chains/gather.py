"""Something happened that a chain's composite trigger waits for: it fires the chain, or waits for the rest."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from runward.config.chain import Chain, chain_of
from runward.config.json_value import JsonValue
from runward.handlers.chains.composite import Seen, fold
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    ChainFired,
    ChainFiresNow,
    ChainRunOf,
    Held,
    HeldFor,
    HoldEvent,
    RecordFiring,
    ReleaseEvents,
    ToldBy,
    TriggerMatched,
)
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.times import in_utc

MOST_HELD: Final = 100
"""Events that are held for a chain. When one more comes, the oldest stops counting."""


def decide(event: TriggerMatched, given: Given) -> Deciding:
    """Something happened that a chain's composite trigger waits for: it fires the chain, or waits for the rest.

    Fire the chain if this completes its trigger, and hold what still counts. While it is paused nothing counts.
    """
    subject = f"chain {event.chain}"
    fires = yield from ask(ChainFiresNow(event.chain))
    if fires is not None and fires.status != "active" and event.at >= fires.since:
        why, code = f"it is {fires.status}, as {fires.said_by} asked", "firing.skipped.paused"
        return (
            RecordFiring(event.chain, given.at, event.fired_by, event.event, code, why, None, event.due_at),
            Explain(
                subject, "refused", f"{event.event} {event.event_id} is skipped: {why}", {"reason": code}
            ),
        )
    chain = chain_of(event.definition)
    trigger = digest(event.definition)
    held = yield from ask(HeldFor(event.chain))
    known = {each.key: each for each in held if each.trigger == trigger}
    new = Seen(event.fired_by, event.at, event.items)
    folded = fold(chain.trigger, [*(Seen(each.key, each.at, each.items) for each in known.values()), new])
    kept = folded.held[-MOST_HELD:]
    keys = {each.key for each in kept}
    gone = tuple(each.key for each in held if each.key not in keys)
    effects: list[Effect] = [] if not gone else [ReleaseEvents(event.chain, gone)]
    for each in folded.held[:-MOST_HELD]:
        said = f"{MOST_HELD} events are waiting for it, so {each.key} no longer counts"
        effects.append(Explain(subject, "refused", said))
    if new.key in keys:
        effects.append(_hold(event, trigger))
    if not folded.fired:
        return (*effects, Explain(subject, "decided", _waits(chain, event, new.key in keys, kept)))
    others = [known[each.key] for each in folded.fired if each.key in known]
    fired = yield from _fired(event, others)
    names = ", ".join([*(each.event for each in others), event.event])
    return (*effects, Emit(fired), Explain(subject, "decided", f"{names} fire it together"))


def digest(definition: JsonValue) -> str:
    """Tells one trigger from another: what was seen for another trigger does not count."""
    trigger = definition.get("trigger") if isinstance(definition, dict) else None
    return hashlib.sha256(json.dumps(trigger, sort_keys=True).encode()).hexdigest()[:16]


def _hold(event: TriggerMatched, trigger: str) -> HoldEvent:
    return HoldEvent(
        *(event.chain, event.fired_by, event.at, event.items, trigger),
        *(event.event, event.event_id, event.fields, event.by_run),
    )


def _waits(chain: Chain, event: TriggerMatched, is_held: bool, held: Sequence[Seen]) -> str:
    """What is still missing, as far as single events and schedules are concerned."""
    if not is_held:
        return f"{event.event} {event.event_id} does not count: what must happen before it has not happened"
    seen = {number for each in held for number in each.items}
    missing = [
        leaf.event or (leaf.schedule.times.text if leaf.schedule is not None else "")
        for number, leaf in enumerate(chain.trigger.leaves)
        if number not in seen
    ]
    waits = ", ".join(missing[:5]) or "the rest"
    return f"{event.event} {event.event_id} counts; it waits for {waits}"


def _fired(event: TriggerMatched, others: Sequence[Held]) -> Asking[ChainFired]:
    told = (yield from ask(ToldBy(event.chain))) if others else {}
    events: list[JsonValue] = [
        _about(each.event, each.event_id, each.at, told.get(each.key)) for each in others
    ]
    events.append(_about(event.event, event.event_id, event.at, event.fields))
    by_run = yield from _deepest([*(each.by_run for each in others), event.by_run])
    return ChainFired(
        *(event.chain, event.at, event.fired_by, event.event, event.event_id, event.fields, event.definition),
        said_by=event.said_by,
        by_run=by_run,
        result=event.result,
        due_at=event.due_at,
        events=events,
    )


def _about(name: str, identifier: str, at: float, fields: JsonValue) -> JsonValue:
    return {"event": name, "event_id": identifier, "at": in_utc(at), "fields": fields}


def _deepest(runs: Sequence[str | None]) -> Asking[str | None]:
    """The deepest of these chain runs: the one at the end of the longest series of runs that fired one another."""
    deepest: tuple[int, str] | None = None
    for run in dict.fromkeys(each for each in runs if each is not None):
        standing = yield from ask(ChainRunOf(run))
        depth = 0 if standing is None else standing.depth
        if deepest is None or depth > deepest[0]:
            deepest = depth, run
    return None if deepest is None else deepest[1]
