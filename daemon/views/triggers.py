"""What fires a chain, in words: for lists, and as a tree with what a composite has seen so far."""

from collections.abc import Sequence
from typing import Final

from runward.config.duration import render_duration
from runward.config.json_value import JsonValue
from runward.config.trigger import Trigger
from runward.daemon.store.reading_chains import HeldRow
from runward.daemon.views.units import iso, local

_JOINED: Final = {"all_of": " + ", "sequence": " > ", "any_of": " | "}
_COMPOSITES: Final = {
    "all_of": "all of these within {within}, in any order",
    "sequence": "these within {within}, in this order",
    "any_of": "any of these",
}


def in_short(trigger: Trigger) -> str:
    """What fires it, in a word or two, as in `pr.opened + ci.passed`."""
    if trigger.composite is not None:
        parts = [f"({in_short(item)})" if item.composite else in_short(item) for item in trigger.items]
        return _JOINED[trigger.composite].join(parts)
    return trigger.event or (trigger.schedule.times.text if trigger.schedule is not None else "a person")


def in_words(trigger: Trigger) -> str:
    """What fires it, for the end of a sentence."""
    if trigger.composite is not None:
        return _COMPOSITES[trigger.composite].format(within=render_duration(trigger.within))
    if trigger.schedule is not None:
        return f"the schedule {trigger.schedule.times.text!r} in {trigger.schedule.times.zone}"
    if trigger.path is not None:
        return f"changes of {trigger.path}"
    return f"the event {trigger.event}" if trigger.event is not None else "a person"


def tree(trigger: Trigger, held: Sequence[HeldRow]) -> list[str]:
    """The items of a composite, one per line, each with what was seen of it."""
    lines: list[str] = []
    _add(lines, trigger, 0, 1, held)
    return lines


def _add(lines: list[str], trigger: Trigger, number: int, level: int, held: Sequence[HeldRow]) -> int:
    """Add the lines of the items; `number` is that of the first leaf. Returns that of the leaf after the last one."""
    for item in trigger.items:
        text = f"{'  ' * level}- {in_words(item)}"
        if item.composite is not None:
            lines.append(text)
            number = _add(lines, item, number, level + 1, held)
            continue
        seen = [each for each in held if number in each.items]
        if seen:
            more = f", and {len(seen) - 1} more" if len(seen) > 1 else ""
            text += f": seen {seen[0].event_id} at {local(seen[0].at)}{more}"
        lines.append(text)
        number += 1
    return number


def held_as_json(held: Sequence[HeldRow]) -> list[JsonValue]:
    """What a composite has seen and not used yet."""
    return [
        {"event": each.event, "event_id": each.event_id, "at": iso(each.at), "items": list(each.items)}
        for each in held
    ]
