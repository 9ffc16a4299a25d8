"""What fires a chain: an event, a schedule, a person alone, or a composite of events and schedules."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config import schedule as schedules
from runward.config.chain_checks import check_keys, duration
from runward.config.event_filter import check_filter
from runward.config.glob_rule import GlobError, check_path_glob
from runward.config.json_value import JsonValue
from runward.config.own_events import EXCHANGE, OWN_EVENTS
from runward.config.problem import SLIP, Complaint, Location, kind, nearest, quoted
from runward.config.schedule import Schedule, read_schedule
from runward.config.shape import Complain

Composite: TypeAlias = Literal["all_of", "sequence", "any_of"]

FILE_CHANGED: Final = "file.changed"

WITHIN: Final = 86_400.0
"""Seconds within which everything that a composite waits for must happen, if the file does not say."""

MOST_LEVELS: Final = 3
"""How deeply composites may be nested."""

MOST_ITEMS: Final = 32
"""Events and schedules of one trigger, in all of its composites together."""

_EVENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_COMPOSITES: Final[tuple[Composite, ...]] = ("all_of", "sequence", "any_of")
_KINDS: Final = ("event", "schedule", "manual", *_COMPOSITES)
_BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "event": ("filter", "path"),
    "schedule": schedules.KEYS,
    "manual": (),
    "all_of": ("within",),
    "sequence": ("within",),
    "any_of": (),
}
"""The keys that each kind of trigger may have."""

_ALONE: Final = ("overlap",)
"""Keys of a schedule that is the whole trigger of a chain, not an item of a composite."""

_FIX: Final = 'write trigger: {event: NAME}, {schedule: "0 2 * * *"} or {manual: true}'
_ITEM_FIX: Final = 'write {event: NAME}, {schedule: "0 2 * * *"} or another composite'


class Surroundings(NamedTuple):
    """The context of a trigger: the machine's time zone, and the directory of the settings file.

    A trigger that a chain run keeps was valid when the run began; the names of events and fields are not checked again.
    """

    zone: str = "UTC"
    directory: str = "/"
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class Trigger:
    """What fires a chain: an event of a name that passes the filter, a schedule, a composite of `items`, or a person.

    All events that a composite uses must happen within this many seconds; `any_of` has no such limit. `path` is the
    absolute glob of the files that `file.changed` is about.
    """

    event: str | None = None
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    schedule: Schedule | None = None
    composite: Composite | None = None
    items: tuple["Trigger", ...] = ()
    within: float = WITHIN
    path: str | None = None

    @property
    def leaves(self) -> tuple["Trigger", ...]:
        """The events and schedules in it, in the order of the file. The trigger itself if it is not a composite."""
        if self.composite is None:
            return (self,)
        return tuple(leaf for item in self.items for leaf in item.leaves)

    @property
    def fields(self) -> tuple[str, ...] | None:
        """The fields that `trigger` can have in expressions. None if that is open, because not all events are Runward's own.

        It is also open with a schedule: the chain may be meant to be fired by a person, too, with fields of any name.
        """
        known = [OWN_EVENTS.get(leaf.event or "") for leaf in self.leaves]
        if any(each is None for each in known):
            return None
        return tuple(dict.fromkeys(name for each in known if each is not None for name in each))

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """All schedules in it."""
        return tuple(leaf.schedule for leaf in self.leaves if leaf.schedule is not None)


def is_event_name(text: str) -> bool:
    """Whether an event may have this name."""
    return _EVENT.fullmatch(text) is not None


def read_trigger(value: JsonValue, surroundings: Surroundings, complain: Complain) -> Trigger | None:
    """The trigger of a chain. None after a complaint. Schedules without a time zone use that of the surroundings."""
    loc: Location = ("trigger",)
    if not isinstance(value, dict) or not value:
        said = (
            "is missing" if value is None else "is empty" if value == {} else f"is {kind(value)}, not a table"
        )
        complain(Complaint(loc if value is not None else (), f"the trigger {said}", _FIX))
        return None
    trigger = _read(value, loc, 0, surroundings, complain)
    count = 0 if trigger is None else len(trigger.leaves)
    if count > MOST_ITEMS:
        said = f"waits for {count} events and schedules; the maximum is {MOST_ITEMS}"
        complain(Complaint(loc, said, "split the chain"))
    return trigger


def _read(
    value: Mapping[str, JsonValue], loc: Location, level: int, surroundings: Surroundings, complain: Complain
) -> Trigger | None:
    """A trigger, or an item of one that is nested in this many composites."""
    kinds = [each for each in _KINDS if each in value]
    known = tuple(dict.fromkeys(key for each in _KINDS for key in _BESIDE[each]))
    check_keys(value, loc, (*_KINDS, *known), (), complain)
    if len(kinds) != 1:
        named = _KINDS if level == 0 else tuple(each for each in _KINDS if each != "manual")
        fix = _FIX if level == 0 else _ITEM_FIX
        complain(Complaint(loc, f"must have exactly one of {', '.join(named)}", fix))
        return None
    (found,) = kinds
    for key in value:
        if key in known and key not in _BESIDE[found]:
            owner = next(each for each in _KINDS if key in _BESIDE[each])
            article = "an" if owner[0] in "aeiou" else "a"
            complain(Complaint((*loc, key), f"belongs to {article} {owner}", "leave it out", at_key=True))
        elif key in _ALONE and level > 0:
            said = "is only for a schedule that is the whole trigger, not for an item"
            complain(Complaint((*loc, key), said, "leave it out, or use concurrency", at_key=True))
    if found == "manual":
        if level > 0:
            said = "can't be an item: a person can fire any chain"
            complain(Complaint((*loc, "manual"), said, _ITEM_FIX, at_key=True))
            return None
        if value["manual"] is not True:
            complain(Complaint((*loc, "manual"), f"must be true, not {quoted(value['manual'])}", _FIX))
        return Trigger()
    if found == "schedule":
        schedule = read_schedule(value, loc, surroundings.zone, complain)
        return None if schedule is None else Trigger(schedule=schedule)
    if found == "event":
        return _event(value, loc, surroundings, complain)
    composite = next(each for each in _COMPOSITES if each == found)
    return _composite(composite, value, loc, level, surroundings, complain)


def _event(
    value: Mapping[str, JsonValue], loc: Location, surroundings: Surroundings, complain: Complain
) -> Trigger | None:
    event = value["event"]
    if not isinstance(event, str) or not _EVENT.fullmatch(event):
        said = f"{quoted(event)} is not the name of an event"
        complain(Complaint((*loc, "event"), said, "as in pr.opened"))
        return None
    fields = None if surroundings.is_kept else OWN_EVENTS.get(event)
    if fields is None and not surroundings.is_kept:
        _check_name(event, (*loc, "event"), complain)
    wanted = check_filter(value.get("filter"), (*loc, "filter"), complain, fields)
    return Trigger(event, wanted, path=_path(value, event, loc, surroundings, complain))


def _check_name(event: str, loc: Location, complain: Complain) -> None:
    """An event of this name would have to come from outside: it is refused if one of Runward's own must be meant."""
    meant = nearest(event, OWN_EVENTS, cutoff=SLIP)
    if meant is not None:
        said = f"{quoted(event)} is nearly the name of one of Runward's own events"
        complain(Complaint(loc, said, f"did you mean {meant!r}? Otherwise choose another name"))
    elif event.startswith(EXCHANGE):
        known = ", ".join(each for each in OWN_EVENTS if each.startswith(EXCHANGE))
        complain(Complaint(loc, f"{quoted(event)} is not an action in the exchange", f"known here: {known}"))


def _path(
    value: Mapping[str, JsonValue], event: str, loc: Location, surroundings: Surroundings, complain: Complain
) -> str | None:
    """The absolute glob of the files whose changes fire the chain."""
    path, fix = value.get("path"), "write path: work/*.md, absolute or relative to the settings file"
    if event != FILE_CHANGED:
        if path is not None:
            said = f"belongs to the event {FILE_CHANGED}"
            complain(Complaint((*loc, "path"), said, "leave it out, or write a filter", at_key=True))
        return None
    if path is None:
        complain(Complaint((*loc, "event"), f"{FILE_CHANGED} has no 'path', a glob of files", fix))
        return None
    if not isinstance(path, str) or not path or "\0" in path:
        complain(Complaint((*loc, "path"), f"{quoted(path)} is not a path", fix))
        return None
    try:
        check_path_glob(path)
    except GlobError as error:
        complain(Complaint((*loc, "path"), f"{quoted(path)} {error}", error.fix))
        return None
    return "/" + posixpath.normpath(posixpath.join(surroundings.directory, path)).lstrip("/")


def _composite(
    composite: Composite,
    value: Mapping[str, JsonValue],
    loc: Location,
    level: int,
    surroundings: Surroundings,
    complain: Complain,
) -> Trigger | None:
    place: Location = (*loc, composite)
    if level >= MOST_LEVELS:
        said = f"composites can be at most {MOST_LEVELS} deep"
        complain(Complaint(place, said, "take its items out, or split the chain", at_key=True))
        return None
    within = duration(value.get("within"), (*loc, "within"), complain)
    items = value[composite]
    if not isinstance(items, list) or not items:
        said = f"must be a list of triggers, not {kind(items) if items else 'empty'}"
        complain(Complaint(place, said, f"write {composite}: [{{event: A}}, {{event: B}}]"))
        return None
    found: list[Trigger | None] = []
    for number, each in enumerate(items):
        if isinstance(each, dict) and each:
            found.append(_read(each, (*place, number), level + 1, surroundings, complain))
            continue
        said = "is empty" if each == {} else f"is {kind(each)}, not a table"
        complain(Complaint((*place, number), f"this item {said}", _ITEM_FIX))
        found.append(None)
    right = tuple(each for each in found if each is not None)
    if len(right) != len(found):
        return None
    return Trigger(composite=composite, items=right, within=WITHIN if within is None else within)
