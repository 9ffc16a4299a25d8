"""Chains: `NAME.yaml`, what is started when something happened, step by step.

A chain belongs to Runward alone, so an unknown key is an error. Keys that are documented and come with a later
version are refused with a word of their own.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from runward.config.document import Document
from runward.config.duration import DurationError, parse_duration
from runward.config.event_filter import check_filter
from runward.config.expression import ExpressionError, Value
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, Parsed, has_errors, kind, nearest, quoted, unknown_key
from runward.config.shape import Complain
from runward.config.template import NAME as VALUE_NAME
from runward.config.yaml_document import read_yaml

CHAIN_SUFFIX: Final = ".yaml"
MOST_STEPS: Final = 100
NAMES: Final = ("trigger", "steps", "outcome", "chain")
"""What expressions see."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_EVENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_KEYS: Final = ("name", "description", "trigger", "timeout", "steps", "on_failure")
_KEYS_NOT_YET: Final = ("concurrency",)
_TRIGGERS: Final = ("event", "manual")
_TRIGGERS_NOT_YET: Final = ("schedule", "all_of", "sequence", "any_of")
_STEP_KEYS: Final = ("id", "skill", "with", "condition", "timeout", "grace", "continue_on_failure")
_STEP_KEYS_NOT_YET: Final = (
    *(
        "action",
        "start_within",
        "stale_after",
        "requires_approval",
        "approval",
        "retry",
        "env",
        "cwd",
        "worktree",
    ),
)
_NOT_YET: Final = "is not supported by this version yet"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a playbook (`skill`) with the values that it is given, and when it is to run.

    `values` are the values of `with` as they were written, texts with expressions in them. Without a `condition` it
    always runs. `timeout` and `grace` are in seconds, in place of the playbook's.
    """

    index: int
    id: str
    skill: str
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    condition: str | None = None
    timeout: float | None = None
    grace: float | None = None
    continue_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class Trigger:
    """What fires a chain: an event of a name that passes the filter, or a person alone (`event` is None)."""

    event: str | None = None
    filter: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain that can be used.

    `timeout` is for the whole run, in seconds. The steps of `on_failure` run once the run has failed, timed out or been
    aborted; they are numbered on from the steps.
    """

    name: str
    trigger: Trigger
    steps: tuple[Step, ...]
    description: str | None = None
    timeout: float | None = None
    on_failure: tuple[Step, ...] = ()
    document: Document | None = field(default=None, repr=False, compare=False)


def read_chain(text: str, file: str, skills: Collection[str]) -> Parsed[Chain]:
    """The chain in `text`, which came from `file`, or everything that is wrong with it.

    `skills` are the names of the playbooks that there are.
    """
    parsed = read_yaml(text, file)
    if parsed.value is None:
        return Parsed(None, parsed.problems)
    document = parsed.value
    complaints: list[Complaint] = []
    chain = _chain(document, frozenset(skills), complaints.append)
    problems = document.problems(complaints)
    return Parsed(None if has_errors(problems) else chain, problems)


def is_event_name(text: str) -> bool:
    """Whether an event may be called so."""
    return _EVENT.fullmatch(text) is not None


def chain_of(definition: JsonValue) -> Chain:
    """The chain that a run keeps as its definition: it was right when the run began."""
    complaints: list[Complaint] = []
    skills: set[str] = set()
    for key in ("steps", "on_failure"):
        steps = definition.get(key) if isinstance(definition, dict) else None
        skills |= (
            {str(each.get("skill")) for each in steps or () if isinstance(each, dict)}
            if isinstance(steps, list)
            else set()
        )
    chain = _chain(Document("", definition, {}), frozenset(skills), complaints.append)
    if chain is None or has_errors(complaints):
        raise ValueError(
            f"the definition of a chain run can't be read: {complaints[0].message if complaints else ''}"
        )
    return chain


def _chain(document: Document, skills: frozenset[str], complain: Complain) -> Chain | None:
    root = document.root
    if not isinstance(root, dict):
        complain(Complaint((), "a chain must be a table of keys", "write name:, trigger: and steps:"))
        return None
    _check_keys(root, (), _KEYS, _KEYS_NOT_YET, complain)
    name = _name(root, complain)
    description = root.get("description")
    if description is not None and not isinstance(description, str):
        complain(Complaint(("description",), f"is {kind(description)}, not a text", None))
    trigger = _trigger(root.get("trigger"), complain)
    timeout = _duration(root.get("timeout"), ("timeout",), complain)
    ids: list[str] = []
    steps = _steps(root.get("steps"), ("steps",), ids, skills, complain)
    on_failure = (
        ()
        if root.get("on_failure") is None
        else _steps(root["on_failure"], ("on_failure",), ids, skills, complain)
    )
    if name is None or trigger is None:
        return None
    text = description if isinstance(description, str) else None
    return Chain(name, trigger, steps, text, timeout, on_failure, document)


def _duration(value: JsonValue, loc: Location, complain: Complain) -> float | None:
    if value is None:
        return None
    mend = 'write it with its unit: "30m"'
    if not isinstance(value, str):
        complain(Complaint(loc, f"is {kind(value)}, not a duration", mend))
        return None
    try:
        seconds = parse_duration(value)
    except DurationError as error:
        complain(Complaint(loc, f"{quoted(value)} {error}", error.mend))
        return None
    return seconds


def _flag(value: JsonValue, loc: Location, complain: Complain) -> bool:
    if value is not None and not isinstance(value, bool):
        complain(Complaint(loc, f"is {kind(value)}, not true or false", None))
    return value is True


def _check_keys(
    table: Mapping[str, JsonValue],
    loc: Location,
    known: tuple[str, ...],
    not_yet: tuple[str, ...],
    complain: Complain,
) -> None:
    for key in table:
        if key in not_yet:
            complain(Complaint((*loc, key), _NOT_YET, "leave it out", at_key=True))
        elif key not in known:
            complain(unknown_key((*loc, key), known))


def _name(root: Mapping[str, JsonValue], complain: Complain) -> str | None:
    name = root.get("name")
    if name is None:
        complain(Complaint((), "has no 'name'", "write name: NAME"))
    elif not isinstance(name, str) or not _NAME.fullmatch(name):
        wanted = "a letter or digit, then letters, digits, '.', '_' and '-', at most 64"
        complain(Complaint(("name",), f"{quoted(name)} is not a name", f"write {wanted}"))
    else:
        return name
    return None


def _trigger(value: JsonValue, complain: Complain) -> Trigger | None:
    loc = ("trigger",)
    mend = "write trigger: {event: NAME}, or trigger: {manual: true}"
    if not isinstance(value, dict) or not value:
        said = (
            "is missing" if value is None else "is empty" if value == {} else f"is {kind(value)}, not a table"
        )
        complain(Complaint(loc if value is not None else (), f"the trigger {said}", mend))
        return None
    _check_keys(value, loc, (*_TRIGGERS, "filter"), _TRIGGERS_NOT_YET, complain)
    kinds = [each for each in _TRIGGERS if each in value]
    if len(kinds) != 1:
        if not any(each in value for each in _TRIGGERS_NOT_YET):
            complain(Complaint(loc, f"must have exactly one of {' and '.join(_TRIGGERS)}", mend))
        return None
    if "manual" in kinds:
        if value["manual"] is not True:
            complain(Complaint((*loc, "manual"), f"must be true, not {quoted(value['manual'])}", mend))
        if "filter" in value:
            complain(Complaint((*loc, "filter"), "belongs to an event", "leave it out", at_key=True))
        return Trigger()
    event = value["event"]
    if not isinstance(event, str) or not _EVENT.fullmatch(event):
        complain(
            Complaint((*loc, "event"), f"{quoted(event)} is not the name of an event", "as in pr.opened")
        )
        return None
    return Trigger(event, check_filter(value.get("filter"), (*loc, "filter"), complain))


def _steps(
    value: JsonValue, loc: Location, ids: list[str], skills: frozenset[str], complain: Complain
) -> tuple[Step, ...]:
    mend = f"write {loc[0]}: and a list, each with id: and skill:"
    if not isinstance(value, list) or not value:
        said = (
            "has no 'steps'"
            if value is None
            else f"must be a list of steps, not {kind(value) if value else 'empty'}"
        )
        complain(Complaint(loc if value is not None else (), said, mend))
        return ()
    if len(value) > MOST_STEPS:
        complain(Complaint(loc, f"has {len(value)} steps, at most {MOST_STEPS} are possible", "split it"))
        return ()
    found: list[Step] = []
    for index, each in enumerate(value):
        step = _step(each, len(ids), (*loc, index), ids, skills, complain)
        ids.append(step.id if step is not None else "")
        if step is not None:
            found.append(step)
    return tuple(found)


def _step(
    value: JsonValue,
    index: int,
    loc: Location,
    before: list[str],
    skills: frozenset[str],
    complain: Complain,
) -> Step | None:
    if not isinstance(value, dict):
        complain(Complaint(loc, f"is {kind(value)}, not a table of keys", "write id: and skill:"))
        return None
    _check_keys(value, loc, _STEP_KEYS, _STEP_KEYS_NOT_YET, complain)
    identifier, skill = value.get("id"), value.get("skill")
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        said = "has no 'id'" if identifier is None else f"{quoted(identifier)} is not an id"
        at = loc if identifier is None else (*loc, "id")
        complain(Complaint(at, said, "write a letter or _, then letters, digits and _, at most 64"))
        identifier = ""
    elif identifier in before:
        complain(
            Complaint((*loc, "id"), f"{quoted(identifier)} is the id of an earlier step", "write another")
        )
    if not isinstance(skill, str):
        if "action" not in value:
            said = "has no 'skill'" if skill is None else f"skill is {kind(skill)}, not a text"
            complain(Complaint(loc, said, "write skill: and the name of a playbook"))
    elif skill not in skills:
        guess = nearest(skill, skills)
        mend = f"did you mean {guess!r}?" if guess else f"there is {', '.join(sorted(skills)[:10]) or 'none'}"
        complain(Complaint((*loc, "skill"), f"there is no playbook {quoted(skill)}", mend))
    values = _values(value.get("with"), (*loc, "with"), before, complain)
    condition = _condition(value.get("condition"), (*loc, "condition"), before, complain)
    return Step(
        index,
        identifier,
        skill if isinstance(skill, str) else "",
        values,
        condition,
        _duration(value.get("timeout"), (*loc, "timeout"), complain),
        _duration(value.get("grace"), (*loc, "grace"), complain),
        _flag(value.get("continue_on_failure"), (*loc, "continue_on_failure"), complain),
    )


def _values(value: JsonValue, loc: Location, before: list[str], complain: Complain) -> dict[str, JsonValue]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        complain(Complaint(loc, f"is {kind(value)}, not a table of keys", "write with: {KEY: VALUE}"))
        return {}
    for key, each in value.items():
        if not re.fullmatch(VALUE_NAME, key):
            complain(Complaint((*loc, key), "is not a name that a playbook can take", None, at_key=True))
        _check_texts(each, (*loc, key), before, complain)
    return dict(value)


def _check_texts(value: JsonValue, loc: Location, before: list[str], complain: Complain) -> None:
    """Every text in the value is one that can be rendered."""
    match value:
        case str():
            _value(value, loc, before, complain)
        case list():
            for number, each in enumerate(value):
                _check_texts(each, (*loc, number), before, complain)
        case dict():
            for key, each in value.items():
                _check_texts(each, (*loc, key), before, complain)


def _condition(value: JsonValue, loc: Location, before: list[str], complain: Complain) -> str | None:
    if value is None:
        return None
    mend = 'write exactly one expression: "{{ outcome.passed }}"'
    if not isinstance(value, str):
        complain(Complaint(loc, f"is {kind(value)}, not a text", mend))
        return None
    parsed = _value(value, loc, before, complain)
    if parsed is not None and (len(parsed.parts) != 1 or not parsed.expressions):
        complain(Complaint(loc, "must be exactly one expression", mend))
    return value


def _value(text: str, loc: Location, before: list[str], complain: Complain) -> Value | None:
    try:
        parsed = Value(text, NAMES)
    except ExpressionError as error:
        complain(Complaint(loc, str(error), error.mend))
        return None
    for expression in parsed.expressions:
        for path in expression.paths:
            if path[0] == "steps" and len(path) > 1:
                _check_earlier(path[1], loc, before, complain)
    return parsed


def _check_earlier(which: str | int, loc: Location, before: list[str], complain: Complain) -> None:
    is_there = -len(before) <= which < len(before) if isinstance(which, int) else which in before
    if not is_there:
        named = [each for each in before if each]
        known = f"before it: {', '.join(named)}" if named else "no step is before it"
        complain(Complaint(loc, f"steps[{which!r}] is not a step before this one", known))
