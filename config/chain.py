"""Chains: `NAME.yaml`, what is started step by step when something happened.

A chain belongs to Runward alone, so an unknown key is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from runward.config.chain_checks import check_keys, duration
from runward.config.document import Document
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, Parsed, has_errors, kind, quoted
from runward.config.shape import Complain
from runward.config.step import Callables, Step, Visible, check_text, steps_of
from runward.config.trigger import Surroundings, Trigger, read_trigger
from runward.config.yaml_document import read_yaml

CHAIN_SUFFIX: Final = ".yaml"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEYS: Final = ("name", "description", "trigger", "timeout", "concurrency", "steps", "on_failure")


class Concurrency(NamedTuple):
    """Runs with the same `key` (a text with expressions) run one after the other, or the new one ends the others."""

    key: str
    policy: Literal["queue", "cancel"] = "queue"


@dataclass(frozen=True, slots=True)
class Chain:
    """A valid chain.

    `timeout` is for the whole run, in seconds. The steps of `on_failure` run once the run has failed, timed out or been
    aborted. Their numbers follow those of the steps.
    """

    name: str
    trigger: Trigger
    steps: tuple[Step, ...]
    description: str | None = None
    timeout: float | None = None
    on_failure: tuple[Step, ...] = ()
    concurrency: Concurrency | None = None
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


def chain_of(definition: JsonValue) -> Chain:
    """The chain that a run keeps as its definition: it was valid when the run began."""
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
    check_keys(root, (), _KEYS, (), complain)
    name = _name(root, complain)
    description = root.get("description")
    if description is not None and not isinstance(description, str):
        complain(Complaint(("description",), f"is {kind(description)}, not a text", None))
    surroundings = (
        Surroundings(is_kept=True) if callables is None else Surroundings(callables.zone, callables.directory)
    )
    trigger = read_trigger(root.get("trigger"), surroundings, complain)
    timeout = duration(root.get("timeout"), ("timeout",), complain)
    visible = Visible([], None if trigger is None else trigger.fields, is_kept=callables is None)
    concurrency = _concurrency(root.get("concurrency"), visible._replace(steps=[]), complain)
    steps = steps_of(root.get("steps"), ("steps",), visible, callables, complain)
    on_failure = (
        ()
        if root.get("on_failure") is None
        else steps_of(root["on_failure"], ("on_failure",), visible, callables, complain)
    )
    if name is None or trigger is None:
        return None
    text = description if isinstance(description, str) else None
    return Chain(name, trigger, steps, text, timeout, on_failure, concurrency, document)


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


def _concurrency(value: JsonValue, visible: Visible, complain: Complain) -> Concurrency | None:
    if value is None:
        return None
    loc: Location = ("concurrency",)
    policy: JsonValue = "queue"
    if isinstance(value, dict):
        check_keys(value, loc, ("key", "policy"), (), complain)
        policy, value = value.get("policy", "queue"), value.get("key")
        if policy not in ("queue", "cancel"):
            complain(Complaint((*loc, "policy"), f"{quoted(policy)} is not known", "one of: queue, cancel"))
        loc = (*loc, "key") if value is not None else loc
    if not isinstance(value, str) or not value:
        fix = 'write concurrency: "{{ trigger.repository }}"'
        complain(Complaint(loc, "has no key, a text", fix))
        return None
    check_text(value, loc, visible, complain)
    return Concurrency(value, "cancel" if policy == "cancel" else "queue")
