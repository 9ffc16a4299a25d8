"""Chains: `NAME.yaml`, what is started when something happened, step by step.

A chain belongs to Runward alone, so an unknown key is an error. Keys that are documented and come with a later
version are refused with a word of their own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from runward.config.chain_checks import check_keys, duration
from runward.config.document import Document
from runward.config.event_filter import check_filter
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Parsed, has_errors, kind, quoted
from runward.config.shape import Complain
from runward.config.step import Callables, Step, steps_of
from runward.config.yaml_document import read_yaml

CHAIN_SUFFIX: Final = ".yaml"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_EVENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_KEYS: Final = ("name", "description", "trigger", "timeout", "steps", "on_failure")
_KEYS_NOT_YET: Final = ("concurrency",)
_TRIGGERS: Final = ("event", "manual")
_TRIGGERS_NOT_YET: Final = ("schedule", "all_of", "sequence", "any_of")


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


def read_chain(text: str, file: str, callables: Callables) -> Parsed[Chain]:
    """The chain in `text`, which came from `file`, or everything that is wrong with it."""
    parsed = read_yaml(text, file)
    if parsed.value is None:
        return Parsed(None, parsed.problems)
    document = parsed.value
    complaints: list[Complaint] = []
    chain = _chain(document, callables, complaints.append)
    problems = document.problems(complaints)
    return Parsed(None if has_errors(problems) else chain, problems)


def is_event_name(text: str) -> bool:
    """Whether an event may be called so."""
    return _EVENT.fullmatch(text) is not None


def chain_of(definition: JsonValue) -> Chain:
    """The chain that a run keeps as its definition: it was right when the run began."""
    complaints: list[Complaint] = []
    chain = _chain(Document("", definition, {}), None, complaints.append)
    if chain is None or has_errors(complaints):
        raise ValueError(
            f"the definition of a chain run can't be read: {complaints[0].message if complaints else ''}"
        )
    return chain


def _chain(document: Document, callables: Callables | None, complain: Complain) -> Chain | None:
    root = document.root
    if not isinstance(root, dict):
        complain(Complaint((), "a chain must be a table of keys", "write name:, trigger: and steps:"))
        return None
    check_keys(root, (), _KEYS, _KEYS_NOT_YET, complain)
    name = _name(root, complain)
    description = root.get("description")
    if description is not None and not isinstance(description, str):
        complain(Complaint(("description",), f"is {kind(description)}, not a text", None))
    trigger = _trigger(root.get("trigger"), complain)
    timeout = duration(root.get("timeout"), ("timeout",), complain)
    ids: list[str] = []
    steps = steps_of(root.get("steps"), ("steps",), ids, callables, complain)
    on_failure = (
        ()
        if root.get("on_failure") is None
        else steps_of(root["on_failure"], ("on_failure",), ids, callables, complain)
    )
    if name is None or trigger is None:
        return None
    text = description if isinstance(description, str) else None
    return Chain(name, trigger, steps, text, timeout, on_failure, document)


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
    check_keys(value, loc, (*_TRIGGERS, "filter"), _TRIGGERS_NOT_YET, complain)
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
