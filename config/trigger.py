"""What fires a chain: an event, a schedule, or a person alone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from runward.config import schedule as schedules
from runward.config.chain_checks import check_keys
from runward.config.event_filter import check_filter
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, quoted
from runward.config.schedule import Schedule, read_schedule
from runward.config.shape import Complain

_EVENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_KINDS: Final = ("event", "schedule", "manual")
_NOT_YET: Final = ("all_of", "sequence", "any_of")
_BESIDE: Final = {"event": ("filter",), "schedule": schedules.KEYS, "manual": ()}
"""The keys that each kind of trigger may have."""

_FIX: Final = 'write trigger: {event: NAME}, {schedule: "0 2 * * *"} or {manual: true}'


@dataclass(frozen=True, slots=True)
class Trigger:
    """What fires a chain: an event of a name that passes the filter, a schedule, or a person alone (neither)."""

    event: str | None = None
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    schedule: Schedule | None = None


def is_event_name(text: str) -> bool:
    """Whether an event may be called so."""
    return _EVENT.fullmatch(text) is not None


def read_trigger(value: JsonValue, machines_zone: str, complain: Complain) -> Trigger | None:
    """The trigger of a chain; None after a complaint. Schedules without a time zone are in the machine's."""
    loc: Location = ("trigger",)
    if not isinstance(value, dict) or not value:
        said = (
            "is missing" if value is None else "is empty" if value == {} else f"is {kind(value)}, not a table"
        )
        complain(Complaint(loc if value is not None else (), f"the trigger {said}", _FIX))
        return None
    kinds = [each for each in _KINDS if each in value]
    known = tuple(key for each in _KINDS for key in _BESIDE[each])
    check_keys(value, loc, (*_KINDS, *known), _NOT_YET, complain)
    if len(kinds) != 1:
        if not any(each in value for each in _NOT_YET):
            complain(Complaint(loc, f"must have exactly one of {', '.join(_KINDS)}", _FIX))
        return None
    (found,) = kinds
    for key in value:
        if key in known and key not in _BESIDE[found]:
            owner = next(each for each in _KINDS if key in _BESIDE[each])
            article = "an" if owner[0] in "aeiou" else "a"
            complain(Complaint((*loc, key), f"belongs to {article} {owner}", "leave it out", at_key=True))
    if found == "manual":
        if value["manual"] is not True:
            complain(Complaint((*loc, "manual"), f"must be true, not {quoted(value['manual'])}", _FIX))
        return Trigger()
    if found == "schedule":
        schedule = read_schedule(value, loc, machines_zone, complain)
        return None if schedule is None else Trigger(schedule=schedule)
    event = value["event"]
    if not isinstance(event, str) or not _EVENT.fullmatch(event):
        said = f"{quoted(event)} is not the name of an event"
        complain(Complaint((*loc, "event"), said, "as in pr.opened"))
        return None
    return Trigger(event, check_filter(value.get("filter"), (*loc, "filter"), complain))
