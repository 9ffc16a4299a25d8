"""What fires a chain: an event, a schedule, a person alone, or a composite of events and schedules."""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.glob_rule import GlobError, check_path_glob
from runward.config.json_value import JsonValue
from runward.config.keys import (
    check_glob,
    check_keys,
    duration,
    duration_schema,
    list_schema,
    schemas,
    table_of_keys,
    text_schema,
)
from runward.config.own_events import EXCHANGE, OWN_EVENTS
from runward.config.problem import SLIP, Complaint, Location, kind, nearest, quoted, unknown_field
from runward.config.schedule import Schedule, read_schedule
from runward.config.shape import Complain, normal_path

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


ANY: Final = "any"
"""Instead of the name of a host: events of every host, and of this one."""

MOST_HOSTS: Final = 100
"""Hosts that one event of a trigger may name."""

_HOST: Final = text_schema("The name of a host, or any.")
_HOST_FIX: Final = "write host: NAME, host: [NAME, NAME] or host: any"

_WITHIN_SCHEMA: Final = duration_schema("All events that count must happen within this time. Default: 1d.")

_KEYS: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "event": {
        "event": {
            "type": "string",
            "pattern": f"^{_EVENT.pattern}$",
            "description": "The name of the event, as in pr.opened.",
        },
        "filter": {
            "type": "object",
            "description": "Which events of the name count: every key must match; a.b looks into a table.",
        },
        "host": {
            "description": "The hosts of the fleet whose events count: a name, a list of names, or any. Default: this host.",
            "oneOf": [_HOST, {"type": "array", "items": _HOST, "minItems": 1, "maxItems": MOST_HOSTS}],
        },
        "path": text_schema("Of file.changed: a glob of files, absolute or relative to the settings file."),
    },
    "schedule": schemas(Schedule),
    "manual": {"manual": {"const": True, "description": "Only a person fires it."}},
    "all_of": {
        "all_of": list_schema("All of these must happen, in any order.", "item", MOST_ITEMS),
        "within": _WITHIN_SCHEMA,
    },
    "sequence": {
        "sequence": list_schema("These must happen one after another.", "item", MOST_ITEMS),
        "within": _WITHIN_SCHEMA,
    },
    "any_of": {"any_of": list_schema("One of these must happen.", "item", MOST_ITEMS)},
}
"""The keys of each kind of trigger. The kind is called by the key that it must have."""

_KINDS: Final = tuple(_KEYS)
_BESIDE: Final = tuple(dict.fromkeys(key for sort, keys in _KEYS.items() for key in keys if key != sort))
"""The keys that some kind of trigger may have beside the one that it is called by."""

# A filter: every key must match, and `a.b` looks into a table. A scalar is compared, a list means any of its values, and a
# table has operators. A number, true, false or null also equals a text that YAML 1.2 reads as that value, because values
# on a command line are texts.
OPERATORS: Final = ("eq", "ne", "in", "gt", "ge", "lt", "le", "glob", "exists")
_LONGEST_TEXT: Final = 200


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
    absolute glob of the files that `file.changed` is about. `hosts` are those whose events count; none: only this one.
    """

    event: str | None = None
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    schedule: Schedule | None = None
    composite: Composite | None = None
    items: tuple["Trigger", ...] = ()
    within: float = WITHIN
    path: str | None = None
    hosts: tuple[str, ...] = ()

    def is_for(self, event: str, host: str | None, own: str | None) -> bool:
        """Whether one of its leaves waits for events of this name of that host; None is this host, whose name is `own`."""
        return any(leaf.event == event and leaf.is_from(host, own) for leaf in self.leaves)

    def is_from(self, host: str | None, own: str | None) -> bool:
        """Whether events of that host count for this event."""
        if not self.hosts:
            return host is None
        return ANY in self.hosts or (own if host is None else host) in self.hosts

    @property
    def names_hosts(self) -> bool:
        """Whether it says of any event whose it is: then `trigger.host` is there."""
        return any(leaf.hosts for leaf in self.leaves)

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
        named = dict.fromkeys(name for each in known if each is not None for name in each)
        return (*named, "host") if self.names_hosts else (*named,)

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """All schedules in it."""
        return tuple(leaf.schedule for leaf in self.leaves if leaf.schedule is not None)


def trigger_schema() -> dict[str, JsonValue]:
    """What a trigger may look like, as JSON Schema. The schema of the whole chain defines the items of composites."""
    return {
        "description": f"What fires it: exactly one of {', '.join(_KINDS)}.",
        "oneOf": [_kind_schema(each) for each in _KINDS],
    }


def item_schema() -> dict[str, JsonValue]:
    """What an item of a composite may look like."""
    return {"oneOf": [_kind_schema(each, without=_ALONE) for each in _KINDS if each != "manual"]}


def _kind_schema(sort: str, without: Sequence[str] = ()) -> dict[str, JsonValue]:
    schema: dict[str, JsonValue] = {
        "type": "object",
        "required": [sort],
        "additionalProperties": False,
        "properties": {key: each for key, each in _KEYS[sort].items() if key not in without},
    }
    if sort == "event":
        schema["if"] = {"properties": {"event": {"const": FILE_CHANGED, "description": "Needs a path."}}}
        schema["then"] = {"required": ["path"]}
        schema["else"] = {"not": {"required": ["path"]}}
    return schema


def is_event_name(text: str) -> bool:
    """Whether an event may have this name."""
    return _EVENT.fullmatch(text) is not None


def read_trigger(value: JsonValue, surroundings: Surroundings, complain: Complain) -> Trigger | None:
    """The trigger of a chain. None after a complaint. Schedules without a time zone use that of the surroundings."""
    loc: Location = ("trigger",)
    if not isinstance(value, dict) or not value:
        message = (
            "is missing" if value is None else "is empty" if value == {} else f"is {kind(value)}, not a table"
        )
        complain(Complaint(loc if value is not None else (), f"the trigger {message}", _FIX))
        return None
    trigger = _read(value, loc, 0, surroundings, complain)
    count = 0 if trigger is None else len(trigger.leaves)
    if count > MOST_ITEMS:
        message = f"waits for {count} events and schedules; the maximum is {MOST_ITEMS}"
        complain(Complaint(loc, message, "split the chain"))
    return trigger


def _read(
    value: Mapping[str, JsonValue], loc: Location, level: int, surroundings: Surroundings, complain: Complain
) -> Trigger | None:
    """A trigger, or an item of one that is nested in this many composites."""
    kinds = [each for each in _KINDS if each in value]
    check_keys(value, loc, (*_KINDS, *_BESIDE), complain)
    if len(kinds) != 1:
        named = _KINDS if level == 0 else tuple(each for each in _KINDS if each != "manual")
        fix = _FIX if level == 0 else _ITEM_FIX
        complain(Complaint(loc, f"must have exactly one of {', '.join(named)}", fix))
        return None
    (sort,) = kinds
    for key in value:
        if key in _BESIDE and key not in _KEYS[sort]:
            owner = next(each for each, keys in _KEYS.items() if key in keys)
            article = "an" if owner[0] in "aeiou" else "a"
            complain(Complaint((*loc, key), f"belongs to {article} {owner}", "leave it out", at_key=True))
        elif key in _ALONE and level > 0:
            message = "is only for a schedule that is the whole trigger, not for an item"
            complain(Complaint((*loc, key), message, "leave it out, or use concurrency", at_key=True))
    if sort == "manual":
        if level > 0:
            message = "can't be an item: a person can fire any chain"
            complain(Complaint((*loc, "manual"), message, _ITEM_FIX, at_key=True))
            return None
        if value["manual"] is not True:
            complain(Complaint((*loc, "manual"), f"must be true, not {quoted(value['manual'])}", _FIX))
        return Trigger()
    if sort == "schedule":
        schedule = read_schedule(value, loc, surroundings.zone, complain)
        return None if schedule is None else Trigger(schedule=schedule)
    if sort == "event":
        return _event(value, loc, surroundings, complain)
    composite = next(each for each in _COMPOSITES if each == sort)
    return _composite(composite, value, loc, level=level, surroundings=surroundings, complain=complain)


def _event(
    value: Mapping[str, JsonValue], loc: Location, surroundings: Surroundings, complain: Complain
) -> Trigger | None:
    event = value["event"]
    if not isinstance(event, str) or not _EVENT.fullmatch(event):
        message = f"{quoted(event)} is not the name of an event"
        complain(Complaint((*loc, "event"), message, "as in pr.opened"))
        return None
    fields = None if surroundings.is_kept else OWN_EVENTS.get(event)
    if fields is None and not surroundings.is_kept:
        _check_name(event, (*loc, "event"), complain)
    wanted = check_filter(value.get("filter"), (*loc, "filter"), complain, fields)
    path = _path(value, event, loc, surroundings, complain)
    if event == FILE_CHANGED and "host" in value:
        message = f"can't be with {FILE_CHANGED}: each host watches the files of its own chains"
        complain(Complaint((*loc, "host"), message, "leave it out", at_key=True))
    return Trigger(event, wanted, path=path, hosts=_hosts(value.get("host"), (*loc, "host"), complain))


def _hosts(value: JsonValue, loc: Location, complain: Complain) -> tuple[str, ...]:
    """The hosts whose events count. None of them after a complaint."""
    if value is None:
        return ()
    from runward.config.fleet import HOST_NAME  # few chains name hosts

    named = value if isinstance(value, list) else [value]
    if not 0 < len(named) <= MOST_HOSTS:
        complain(Complaint(loc, f"must have 1 to {MOST_HOSTS} names", _HOST_FIX))
        return ()
    hosts: list[str] = []
    for number, each in enumerate(named):
        if isinstance(each, str) and re.fullmatch(HOST_NAME, each) is not None:
            hosts.append(each)
        else:
            place = (*loc, number) if isinstance(value, list) else loc
            complain(Complaint(place, f"{quoted(each)} is not the name of a host", _HOST_FIX))
    return tuple(dict.fromkeys(hosts))


def _check_name(event: str, loc: Location, complain: Complain) -> None:
    """An event of this name would have to come from outside: it is refused if one of Runward's own must be meant."""
    meant = nearest(event, OWN_EVENTS, cutoff=SLIP)
    if meant is not None:
        message = f"{quoted(event)} is nearly the name of one of Runward's own events"
        complain(Complaint(loc, message, f"did you mean {meant!r}? Otherwise choose another name"))
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
            message = f"belongs to the event {FILE_CHANGED}"
            complain(Complaint((*loc, "path"), message, "leave it out, or write a filter", at_key=True))
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
        complain(error.complaint((*loc, "path"), path))
        return None
    return normal_path(path, surroundings.directory)


def _composite(
    composite: Composite,
    value: Mapping[str, JsonValue],
    loc: Location,
    *,
    level: int,
    surroundings: Surroundings,
    complain: Complain,
) -> Trigger | None:
    place: Location = (*loc, composite)
    if level >= MOST_LEVELS:
        message = f"composites can be at most {MOST_LEVELS} deep"
        complain(Complaint(place, message, "take its items out, or split the chain", at_key=True))
        return None
    within = duration(value.get("within"), (*loc, "within"), complain)
    items = value[composite]
    if not isinstance(items, list) or not items:
        message = f"must be a list of triggers, not {kind(items) if items else 'empty'}"
        complain(Complaint(place, message, f"write {composite}: [{{event: A}}, {{event: B}}]"))
        return None
    read: list[Trigger | None] = []
    for number, each in enumerate(items):
        if isinstance(each, dict) and each:
            read.append(_read(each, (*place, number), level + 1, surroundings, complain))
            continue
        message = "is empty" if each == {} else f"is {kind(each)}, not a table"
        complain(Complaint((*place, number), f"this item {message}", _ITEM_FIX))
        read.append(None)
    right = tuple(each for each in read if each is not None)
    if len(right) != len(read):
        return None
    return Trigger(composite=composite, items=right, within=WITHIN if within is None else within)


class NoSuchField(NamedTuple):
    """How a filter sees a field that the event doesn't have."""


_NO_FIELD: Final = NoSuchField()


def check_filter(
    value: JsonValue, loc: Location, complain: Complain, fields: Sequence[str] | None = None
) -> dict[str, JsonValue]:
    """The filter in `value`. Complains about everything that is invalid, as far as the event's `fields` are known."""
    table = table_of_keys(value, loc, complain, "write filter: {KEY: VALUE}") or {}
    for key, wanted in table.items():
        place = (*loc, key)
        if not all(key.split(".")):
            complain(Complaint(place, "has an empty name in it", "write it as in pull.base", at_key=True))
        elif fields is not None and key.split(".")[0] not in fields:
            complain(unknown_field(key.split(".")[0], place, "the event", fields)._replace(at_key=True))
        if isinstance(wanted, dict):
            _check_operators(wanted, place, complain)
        elif isinstance(wanted, list) and not all(_is_scalar(each) for each in wanted):
            complain(
                Complaint(place, "has a list or a table in its list", "list texts, numbers, true or false")
            )
    return table


def _check_operators(wanted: Mapping[str, JsonValue], loc: Location, complain: Complain) -> None:
    if not wanted:
        complain(Complaint(loc, "is an empty table", f"use one of {', '.join(OPERATORS)}"))
    for name, value in wanted.items():
        place = (*loc, name)
        if name not in OPERATORS:
            guess = nearest(name, OPERATORS)
            fix = f"did you mean {guess!r}?" if guess else f"known here: {', '.join(OPERATORS)}"
            complain(Complaint(place, "unknown operator", fix, at_key=True))
        elif name == "in" and not (isinstance(value, list) and all(_is_scalar(each) for each in value)):
            complain(Complaint(place, f"is {kind(value)}, not a list of values", "write in: [a, b]"))
        elif name == "exists" and not isinstance(value, bool):
            complain(Complaint(place, f"must be true or false, not {quoted(value)}", None))
        elif name == "glob" and not isinstance(value, str):
            complain(Complaint(place, f"is {kind(value)}, not a text", 'write glob: "release/*"'))
        elif name == "glob":
            check_glob(str(value), place, complain)
        elif name not in ("in", "exists", "glob") and not _is_scalar(value):
            complain(
                Complaint(place, f"is {kind(value)}, which can't be compared", "write a text or a number")
            )


def why_not(wanted: Mapping[str, JsonValue], fields: Mapping[str, JsonValue]) -> str | None:
    """Why an event with these fields doesn't pass the filter. None if it does."""
    for key, value in wanted.items():
        field = _field(fields, key)
        operators = value if isinstance(value, dict) else {"in" if isinstance(value, list) else "eq": value}
        for name, operand in operators.items():
            if not _holds(name, field, operand):
                has = "is missing" if isinstance(field, NoSuchField) else f"is {quoted(field)}"
                return f"{key} {has}, and the filter wants {name} {_shown(operand)}"
    return None


def _holds(operator: str, field: JsonValue | NoSuchField, operand: JsonValue) -> bool:
    if operator == "exists":
        return (not isinstance(field, NoSuchField)) == operand
    if isinstance(field, NoSuchField):
        return operator == "ne"
    match operator:
        case "eq":
            return _equal(operand, field)
        case "ne":
            return not _equal(operand, field)
        case "in":
            return isinstance(operand, list) and any(_equal(each, field) for each in operand)
        case "glob":
            return isinstance(field, str) and fnmatch.fnmatchcase(field, str(operand))
    return _ordered(operator, field, operand)


def _ordered(operator: str, field: JsonValue, operand: JsonValue) -> bool:
    less, more = _number(field), _number(operand)
    if less is None or more is None:
        if not isinstance(field, str) or not isinstance(operand, str):
            return False
        order = (field > operand) - (field < operand)
    else:
        order = (less > more) - (less < more)
    return {"gt": order > 0, "ge": order >= 0, "lt": order < 0, "le": order <= 0}[operator]


def _equal(wanted: JsonValue, field: JsonValue) -> bool:
    if isinstance(wanted, str):
        return wanted == field
    if isinstance(field, str):
        field = _as_written(field)
    if isinstance(wanted, bool) or isinstance(field, bool) or wanted is None or field is None:
        return wanted is field
    return isinstance(field, int | float) and wanted == field


def _number(value: JsonValue) -> int | float | None:
    """The number, which is not made a float: foreign data has whole numbers that don't fit into one."""
    value = _as_written(value) if isinstance(value, str) else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_written(text: str) -> JsonValue:
    """What YAML 1.2 reads as the plain scalar `text`; the text itself if it is not a scalar."""
    if not text or len(text) > _LONGEST_TEXT or text != text.strip():
        return text
    from runward.config.yaml_document import read_yaml  # yaml is imported only for a file

    parsed = read_yaml(text, "")
    # A text such as `[1, 2]` stays a text: only scalars can be equal to one.
    read = parsed.value.root if parsed.value is not None else text
    return read if _is_scalar(read) else text


def _field(fields: Mapping[str, JsonValue], key: str) -> JsonValue | NoSuchField:
    if key in fields:
        return fields[key]
    value: JsonValue = dict(fields)
    for name in key.split("."):
        if not isinstance(value, dict) or name not in value:
            return _NO_FIELD
        value = value[name]
    return value


def _is_scalar(value: JsonValue) -> bool:
    return not isinstance(value, list | dict)


def _shown(operand: JsonValue) -> str:
    if isinstance(operand, list):
        return ", ".join(quoted(each) for each in operand[:5])
    return quoted(operand)
