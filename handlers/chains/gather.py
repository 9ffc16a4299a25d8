"""Composite triggers: which events that a chain has seen are held, and which of them fire it together.

An event counts once for each item that it is meant for. The oldest events are used first. All events that a composite
uses are within its `within` of the event that completes it, and within that of the composites around it. A firing uses
up its events for the whole trigger.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from runward.config.chain import Chain, chain_of
from runward.config.json_value import JsonValue
from runward.config.trigger import Trigger
from runward.handlers.chains.firing import paused, skipped
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    ChainFired,
    ChainRunOf,
    Held,
    HeldFor,
    HoldEvent,
    ReleaseEvents,
    ToldBy,
    TriggerMatched,
    trigger_hash,
)
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.subjects import of_chain
from runward.handlers.times import in_utc


class Seen(NamedTuple):
    """An event that a trigger waits for: its key, its time (Unix seconds), and the numbers of the leaves that it
    is meant for."""

    key: str
    at: float
    items: tuple[int, ...]


class Folded(NamedTuple):
    """The result: the events that fire the chain with the last one (empty if none), and those that still count."""

    fired: tuple[Seen, ...]
    held: tuple[Seen, ...]


_Used: TypeAlias = tuple[Seen, ...]


def fold(trigger: Trigger, seen: Sequence[Seen]) -> Folded:
    """What follows from the last event, after those that were held. Both are in the order of their recording."""
    left: list[Seen] = list(seen)
    fired: _Used = ()
    while True:
        # Only the last event fires the chain. If earlier ones complete the trigger by themselves, they are used up and
        # dropped. What is left is folded again from the beginning, because a firing uses up its events for the whole
        # trigger.
        root = _node(trigger, math.inf, _Numbers())
        used = _completed(root, left)
        if not used:
            root.take(Seen("", seen[-1].at, ()))  # not a real event: it drops what is too old by now
            keys = root.held()
            return Folded(fired, tuple(each for each in left if each.key in keys))
        if not fired and used[-1] == seen[-1]:
            fired = used
        gone = {each.key for each in used}
        left = [each for each in left if each.key not in gone]


def _completed(root: "_Node", seen: Sequence[Seen]) -> _Used:
    """The events that complete the trigger first. Empty if it is not completed."""
    for each in seen:
        used = root.take(each)
        if used:
            order = {one.key: number for number, one in enumerate(seen)}
            return tuple(sorted(used, key=lambda one: order[one.key]))
    return ()


class _Node(Protocol):
    """A trigger, or an item of one."""

    def take(self, seen: Seen) -> _Used:
        """The events that complete it with this one. Empty if it still waits."""

    def held(self) -> set[str]:
        """The keys of its events."""

    def forget(self, keys: Collection[str]) -> None:
        """Drop everything that these events are part of."""


class _Numbers:
    """Counts the leaves."""

    def __init__(self, following: int = 0) -> None:
        self.following = following

    def take(self) -> int:
        self.following += 1
        return self.following - 1


def _node(trigger: Trigger, within: float, numbers: _Numbers) -> _Node:
    if trigger.composite is None:
        return _Leaf(numbers.take())
    if trigger.composite == "any_of":
        return _AnyOf([_node(item, within, numbers) for item in trigger.items])
    within = min(within, trigger.within)
    if trigger.composite == "all_of":
        return _AllOf([_node(item, within, numbers) for item in trigger.items], within)
    return _Sequence([_maker(item, within, numbers) for item in trigger.items], within)


def _maker(trigger: Trigger, within: float, numbers: _Numbers) -> Callable[[], _Node]:
    """Makes nodes for one item of a sequence: each partial match has its own."""
    first = numbers.following
    numbers.following += len(trigger.leaves)
    return lambda: _node(trigger, within, _Numbers(first))


class _Leaf:
    def __init__(self, number: int) -> None:
        self._number = number

    def take(self, seen: Seen) -> _Used:
        return (seen,) if self._number in seen.items else ()

    def held(self) -> set[str]:
        return set()

    def forget(self, keys: Collection[str]) -> None:
        """It is empty."""


class _AnyOf:
    def __init__(self, items: Sequence[_Node]) -> None:
        self._items = items

    def take(self, seen: Seen) -> _Used:
        for item in self._items:
            used = item.take(seen)
            if used:
                self.forget([each.key for each in used])
                return used
        return ()

    def held(self) -> set[str]:
        return set().union(*(item.held() for item in self._items))

    def forget(self, keys: Collection[str]) -> None:
        for item in self._items:
            item.forget(keys)


class _AllOf:
    def __init__(self, items: Sequence[_Node], within: float) -> None:
        self._items, self._within = items, within
        self._waiting: list[list[_Used]] = [[] for _ in items]

    def take(self, seen: Seen) -> _Used:
        self._keep(lambda used: _is_near(used, seen, self._within))
        for item, waiting in zip(self._items, self._waiting, strict=True):
            used_by_item = item.take(seen)
            if used_by_item:
                waiting.append(used_by_item)
        if not all(self._waiting):
            return ()
        used = _together(waiting[0] for waiting in self._waiting)
        self.forget([each.key for each in used])
        return used

    def held(self) -> set[str]:
        waiting = {each.key for waiting in self._waiting for used in waiting for each in used}
        return waiting.union(*(item.held() for item in self._items))

    def forget(self, keys: Collection[str]) -> None:
        self._keep(lambda used: not any(each.key in keys for each in used))
        for item in self._items:
            item.forget(keys)

    def _keep(self, wanted: Callable[[_Used], bool]) -> None:
        self._waiting = [[used for used in waiting if wanted(used)] for waiting in self._waiting]


class _Partial(NamedTuple):
    """A sequence in progress: the events of its items so far, the number of the next one, and what waits for that."""

    used: _Used
    following: int
    node: _Node


class _Sequence:
    def __init__(self, makers: Sequence[Callable[[], _Node]], within: float) -> None:
        self._makers, self._within = makers, within
        self._first = makers[0]()
        self._partials: list[_Partial] = []

    def take(self, seen: Seen) -> _Used:
        self._partials = [each for each in self._partials if _is_near(each.used, seen, self._within)]
        # From the last item to the first, so that an event advances no partial match by two steps.
        used: _Used = ()
        for number in range(len(self._makers) - 1, 0, -1):
            used = used or self._advance(number, seen)
        used_by_first = self._first.take(seen)
        if used_by_first and len(self._makers) == 1:
            used = used_by_first
        elif used_by_first:
            self._partials.append(_Partial(used_by_first, 1, self._makers[1]()))
        if used:
            self.forget([each.key for each in used])
        return used

    def _advance(self, number: int, seen: Seen) -> _Used:
        """Give the event to the oldest partial match that waits for this item; the events if that completes it."""
        for place, partial in enumerate(self._partials):
            if partial.following != number:
                continue
            used_by_node = partial.node.take(seen)
            if used_by_node and number == len(self._makers) - 1:
                return _together((partial.used, used_by_node))
            if used_by_node:
                after = _Partial(
                    _together((partial.used, used_by_node)), number + 1, self._makers[number + 1]()
                )
                self._partials[place] = after
            # The oldest partial match that can use the event takes it, also if it needs more to be complete.
            if used_by_node or seen.key in partial.node.held():
                break
        return ()

    def held(self) -> set[str]:
        held = self._first.held()
        for partial in self._partials:
            held |= {each.key for each in partial.used} | partial.node.held()
        return held

    def forget(self, keys: Collection[str]) -> None:
        self._partials = [each for each in self._partials if not any(one.key in keys for one in each.used)]
        self._first.forget(keys)
        for partial in self._partials:
            partial.node.forget(keys)


def _is_near(used: _Used, seen: Seen, within: float) -> bool:
    """Whether all these events are within so many seconds of this one."""
    return all(abs(seen.at - each.at) <= within for each in used)


def _together(parts: Iterable[_Used]) -> _Used:
    """The events of all parts, each once."""
    return tuple({each.key: each for part in parts for each in part}.values())


MOST_HELD: Final = 100
"""Events that are held for a chain. When one more comes, the oldest stops counting."""


def gather_event(event: TriggerMatched, given: Given) -> Deciding:
    """Something happened that a chain's composite trigger waits for: it fires the chain, or waits for the rest.

    While the chain is paused nothing counts.
    """
    subject = of_chain(event.chain)
    reason = yield from paused(event)
    if reason is not None:
        return skipped(event, reason, given.at)
    chain = chain_of(event.definition)
    trigger = trigger_hash(event.definition)
    # The store holds events and no state, so all of them are folded for each new one: there is nothing to migrate when
    # the rules change.
    held = yield from ask(HeldFor(event.chain))
    # What was seen for the trigger as it was written before does not count: the chain begins again.
    known = {each.key: each for each in held if each.trigger == trigger}
    new = Seen(event.fired_by, event.at, event.items)
    folded = fold(chain.trigger, [*(Seen(each.key, each.at, each.items) for each in known.values()), new])
    kept = folded.held[-MOST_HELD:]
    keys = {each.key for each in kept}
    gone = tuple(each.key for each in held if each.key not in keys)
    effects: list[Effect] = [] if not gone else [ReleaseEvents(event.chain, gone)]
    for each in folded.held[:-MOST_HELD]:
        summary = f"{MOST_HELD} events are waiting for it, so {each.key} no longer counts"
        effects.append(Explain(subject, "refused", summary))
    if new.key in keys:
        kept_event = Held(
            key=event.fired_by,
            at=event.at,
            items=event.items,
            trigger=trigger,
            event=event.event,
            event_id=event.event_id,
            by_run=event.by_run,
            depth=event.depth,
        )
        effects.append(HoldEvent(event.chain, kept_event, event.fields))
    if not folded.fired:
        return (*effects, Explain(subject, "decided", _waits(chain, event, new.key in keys, kept)))
    others = [known[each.key] for each in folded.fired if each.key in known]
    fired = yield from _fired(event, others)
    names = ", ".join([*(each.event for each in others), event.event])
    return (*effects, Emit(fired), Explain(subject, "decided", f"{names} fire it together"))


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
    fields = (yield from ask(ToldBy(event.chain))) if others else {}
    events: list[JsonValue] = [
        _about(each.event, each.event_id, each.at, fields.get(each.key)) for each in others
    ]
    events.append(_about(event.event, event.event_id, event.at, event.fields))
    # The depth of the new run is that of the deepest run behind any of these events. Otherwise a composite could hide a
    # loop of runs that fire one another.
    by_run = yield from _deepest([*(each.by_run for each in others), event.by_run])
    return ChainFired(
        chain=event.chain,
        at=event.at,
        fired_by=event.fired_by,
        event=event.event,
        event_id=event.event_id,
        fields=event.fields,
        definition=event.definition,
        said_by=event.said_by,
        by_run=by_run,
        result=event.result,
        due_at=event.due_at,
        events=events,
        depth=max(event.depth, *(each.depth for each in others)) if others else event.depth,
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
