"""Chains: `NAME.yaml`, what is started step by step when something happened.

A chain belongs to Runward alone, so an unknown key is an error.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from runward.config.document import Document
from runward.config.json_value import JsonValue
from runward.config.keys import (
    Key,
    check_keys,
    known_keys,
    read_keys,
    seconds,
    table_schema,
    text_schema,
    words,
)
from runward.config.problem import Complaint, Location, Parsed, has_errors, kind, quoted
from runward.config.seen import Visible, check_text
from runward.config.shape import Complain
from runward.config.step import Callables, Step, step_schema, steps_of, steps_schema
from runward.config.trigger import Surroundings, Trigger, item_schema, read_trigger, trigger_schema

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


Policy: TypeAlias = Literal["queue", "cancel"]


class Concurrency(NamedTuple):
    """Runs with the same `key` (a text with expressions) run one after the other, or the new one ends the others."""

    key: Annotated[str, Key(text_schema("A text with expressions."))]
    policy: Annotated[
        Policy, words("Whether a new run waits for the others or ends them. Default: queue.", Policy)
    ] = "queue"


def _description(value: JsonValue, loc: Location, complain: Complain) -> str | None:
    if value is not None and not isinstance(value, str):
        complain(Complaint(loc, f"is {kind(value)}, not a text", None))
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A valid chain.

    `timeout` is for the whole run, in seconds. The steps of `on_failure` run once the run has failed, timed out or been
    aborted. Their numbers follow those of the steps. `definition` is what its `file` says.
    """

    name: Annotated[
        str,
        Key({"type": "string", "pattern": f"^{_NAME.pattern}$", "description": "What the chain is called."}),
    ]
    description: Annotated[
        str | None, Key({"type": ["string", "null"], "description": "What it is for."}, _description)
    ] = None
    trigger: Annotated[Trigger, Key(trigger_schema())]
    timeout: Annotated[float | None, seconds("For the whole run.")] = None
    concurrency: Annotated[
        Concurrency | None,
        Key(
            {
                "description": "Runs of one key begin one after another.",
                "oneOf": [{"type": "string", "minLength": 1}, table_schema(Concurrency)],
            }
        ),
    ] = None
    steps: Annotated[tuple[Step, ...], Key(steps_schema("What is started, one after another."))]
    on_failure: Annotated[
        tuple[Step, ...],
        Key(steps_schema("What is started once the run has failed, timed out or been aborted.")),
    ] = ()
    definition: dict[str, JsonValue] = field(repr=False, compare=False)
    file: str = field(repr=False, compare=False)


def chain_schema() -> dict[str, JsonValue]:
    """What a chain's file may look like, as JSON Schema."""
    definitions: JsonValue = {"item": item_schema(), "step": step_schema()}
    return {"title": "Runward chain", **table_schema(Chain), "$defs": definitions}


def read_chain(text: str, file: str, callables: Callables) -> Parsed[Chain]:
    """The chain in `text`, which came from `file`, or everything that is wrong with it."""
    from runward.config.yaml_document import read_yaml  # yaml is imported only for a file

    parsed = read_yaml(text, file)
    if parsed.value is None:
        return Parsed(None, parsed.problems)
    complaints: list[Complaint] = []
    return parsed.value.parsed(_chain(parsed.value, callables, complaints.append), complaints)


KEPT_CHAINS: Final = 512
"""Definitions that are kept as chains: more than one turn has events."""


def chain_of(definition: JsonValue) -> Chain:
    """The chain that a run keeps as its definition: it was valid when the run began."""
    # Each event of a run needs it, and all runs of a chain have the same.
    return _chain_in(json.dumps(definition))


@lru_cache(KEPT_CHAINS)
def _chain_in(text: str) -> Chain:
    definition: JsonValue = json.loads(text)
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
    check_keys(root, (), known_keys(Chain), complain)
    name = _name(root, complain)
    read = read_keys(Chain, root, (), complain)
    surroundings = (
        Surroundings(is_kept=True) if callables is None else Surroundings(callables.zone, callables.directory)
    )
    trigger = read_trigger(root.get("trigger"), surroundings, complain)
    visible = Visible([], None if trigger is None else trigger.fields, is_kept=callables is None)
    # The key of the concurrency is known before any step runs, so it can't name one.
    concurrency = _concurrency(root.get("concurrency"), visible._replace(steps=[]), complain)
    steps = steps_of(root.get("steps"), ("steps",), visible, callables, complain)
    on_failure = (
        ()
        if root.get("on_failure") is None
        else steps_of(root["on_failure"], ("on_failure",), visible, callables, complain)
    )
    if name is None or trigger is None:
        return None
    return Chain(
        name=name,
        trigger=trigger,
        concurrency=concurrency,
        steps=steps,
        on_failure=on_failure,
        definition=root,
        file=document.name,
        **read,
    )


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
    table: Mapping[str, JsonValue] = {"key": value}
    if isinstance(value, dict):
        check_keys(value, loc, known_keys(Concurrency), complain)
        table = value
    read = read_keys(Concurrency, table, loc, complain)
    text = table.get("key")
    at = (*loc, "key") if isinstance(value, dict) and text is not None else loc
    if not isinstance(text, str) or not text:
        complain(Complaint(at, "has no key, a text", 'write concurrency: "{{ trigger.repository }}"'))
        return None
    check_text(text, at, visible, complain)
    return Concurrency(text, **read)
