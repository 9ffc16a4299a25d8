"""An intent, what a principal wants done, as one line of JSON; and the result of the action that it becomes."""

import json
import string
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from runward.config.exchange_schema import ACTION_FIELDS, LONGEST_ID, LONGEST_METHOD, MOST_DEPENDENCIES
from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import NotJson, read_json

LONGEST_LINE: Final = 1 << 20
"""Bytes of an intent."""

SHOWN: Final = 100
"""Characters of content and code that are shown in results."""

_JOINING: Final = "._:/-"
_NAMING: Final = frozenset(string.ascii_letters + string.digits + _JOINING)
"""What a name is made of."""

_PAID: Final = ("content", "code", "result")

_SAID_BY_CODE: Final = frozenset(
    ("runtime_error", "output_limit", "invalid_argument", "not_found", "not_authorized")
)
"""Errors whose message code may have written, if code ran: an answer of its own, or a contract's reason."""

WHY_IS_PAID: Final = "code said why, so only the result that its caller got has the message"

MOST: Final = 1 << 53
"""The largest price, cost and amount: every number up to it is the same number in every program."""

DEFAULT_TYPE: Final = "generic"
DEFAULT_METHOD: Final = "run"


class Intent(NamedTuple):
    """An intent with omitted fields filled in. Fields that its action doesn't have keep their defaults.

    `named` are the keys that a write names, among those that it otherwise keeps.
    """

    action_type: str
    reasoning: str = ""
    id: str | None = None
    principal_id: str | None = None
    artifact_id: str = ""
    artifact_type: str = DEFAULT_TYPE
    content: str = ""
    executable: bool = False
    price: int = 0
    code: str = ""
    policy: dict[str, JsonValue] | None = None
    interface: dict[str, JsonValue] | None = None
    depends_on: tuple[str, ...] = ()
    access_contract_id: str | None = None
    has_standing: bool = False
    can_execute: bool = False
    memory_artifact_id: str | None = None
    method: str = DEFAULT_METHOD
    args: tuple[JsonValue, ...] = ()
    budget: int | None = None
    delegate: bool | None = None
    to: str = ""
    named: frozenset[str] = frozenset()


KEPT: Final = (
    "policy",
    "interface",
    "access_contract_id",
    "has_standing",
    "can_execute",
    "memory_artifact_id",
)
"""What a write keeps unless it names it, and what only the owner may change."""

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {name: tuple(fields) for name, fields in ACTION_FIELDS.items()}
"""The keys of an intent by its action, in addition to those that every intent has."""

ACTION_TYPES: Final = tuple(FIELDS)


class NotAnIntent(Exception):
    """A line does not hold an intent; the message says why."""


def parse_intent(content: bytes) -> Intent:
    """The intent in a line. Raises `NotAnIntent`."""
    if len(content) > LONGEST_LINE:
        raise NotAnIntent(f"the line is longer than {LONGEST_LINE >> 20} MiB")
    if not content.strip():
        raise NotAnIntent("the line is blank")
    value = read_json(content)
    if isinstance(value, NotJson):
        raise NotAnIntent(value.message)
    if not isinstance(value, dict):
        raise NotAnIntent("an intent is a JSON object")
    return read_intent(value)


def read_intent(said: Mapping[str, JsonValue]) -> Intent:
    """The intent that a JSON object is. Raises `NotAnIntent`."""
    kind = said.get("action_type")
    kind = kind.lower() if isinstance(kind, str) else kind
    if kind == "transfer":
        raise NotAnIntent(
            "transfer is not an action: invoke the method transfer of genesis_ledger to pay, or use transfer_artifact"
        )
    if not isinstance(kind, str) or kind not in FIELDS:
        raise NotAnIntent(f"action_type must be one of {', '.join(ACTION_TYPES)}")
    reasoning = said.get("reasoning")
    fields: dict[str, object] = {
        "reasoning": reasoning if isinstance(reasoning, str) else "",
        "id": _optional(said, "id", _identifier),
        "principal_id": _optional(said, "principal_id", _identifier),
        "named": frozenset(name for name in KEPT if name in said),
    }
    for name in FIELDS[kind]:
        fields[name] = _READERS[name](said, name)
    intent = Intent(kind, **fields)  # type: ignore[arg-type] # each reader returns its field's type
    if kind == "write_artifact" and intent.executable and ("price" not in said or not intent.code):
        raise NotAnIntent("an executable artifact needs code, and a price of 0 or more")
    return intent


def intent_to_json(intent: Intent) -> dict[str, JsonValue]:
    """The intent as parsed, with all fields of its action."""
    told: dict[str, JsonValue] = {"action_type": intent.action_type, "reasoning": intent.reasoning}
    for name in ("id", "principal_id"):
        if getattr(intent, name) is not None:
            told[name] = getattr(intent, name)
    for name in FIELDS[intent.action_type]:
        if name in KEPT and name not in intent.named:
            continue
        value = getattr(intent, name)
        told[name] = list(value) if isinstance(value, tuple) else value
    return told


def as_intent(intent: Intent) -> dict[str, JsonValue]:
    """The intent as a line that parses to the same intent."""
    told = intent_to_json(intent)
    return {key: value for key, value in told.items() if value is not None or key in intent.named}


def shown(intent: Intent) -> dict[str, JsonValue]:
    """The intent as results show it: long content and code are cut."""
    told = intent_to_json(intent)
    for name in ("content", "code"):
        text = told.get(name)
        if isinstance(text, str) and len(text) > SHOWN:
            told[name] = text[:SHOWN] + "..."
    return told


def without_content(told: JsonValue) -> JsonValue:
    """An intent, or the result of an action, without what others pay for: content, code, and what code returned or said.

    Only who paid gets these, with the result itself.
    """
    if not isinstance(told, dict):
        return told
    less = {key: None if key in _PAID else value for key, value in told.items()}
    if _is_said_by_code(told):
        less["message"] = WHY_IS_PAID
    for name in ("data", "artifact"):
        if name in less:
            less[name] = without_content(less[name])
    return less


def _is_said_by_code(told: Mapping[str, JsonValue]) -> bool:
    """Whether code may have written the message of this result: then it may have what code read."""
    code, consumed = told.get("error_code"), told.get("resources_consumed")
    has_run_code = isinstance(consumed, dict) and "cpu_seconds" in consumed
    return has_run_code and code in _SAID_BY_CODE


def line_without_content(text: str) -> str:
    """The line of an intent without its content and code. A line that isn't an intent has neither, and is cut."""
    value = read_json(text.encode(errors="replace"))
    return json.dumps(without_content(value)) if isinstance(value, dict) else text[:SHOWN]


def why_no_id(value: str) -> str | None:
    """Why a text can't be an id of the exchange."""
    if not 1 <= len(value) <= LONGEST_ID:
        return f"must have 1 to {LONGEST_ID} characters"
    return None if value.isprintable() else "must not have control characters"


def why_no_name(value: str) -> str | None:
    """Why no new artifact or principal may have this id. Those of older versions keep theirs."""
    if not 1 <= len(value) <= LONGEST_ID:
        return f"must have 1 to {LONGEST_ID} characters"
    if not set(value) <= _NAMING:
        return f"must have only ASCII letters, digits and {_JOINING}"
    if value[0] in _JOINING or value[-1] in _JOINING:
        return "must begin and end with a letter or a digit"
    return None


def _identifier(value: JsonValue, name: str) -> str:
    if not isinstance(value, str):
        raise NotAnIntent(f"{name} must be a text")
    why = why_no_id(value)
    if why is not None:
        raise NotAnIntent(f"{name} {why}")
    return value


def _optional(said: Mapping[str, JsonValue], name: str, read: Callable[[JsonValue, str], str]) -> str | None:
    value = said.get(name)
    return None if value is None else read(value, name)


def _needed_id(said: Mapping[str, JsonValue], name: str) -> str:
    if name not in said:
        raise NotAnIntent(f"{name} is missing")
    return _identifier(said[name], name)


def _optional_id(said: Mapping[str, JsonValue], name: str) -> str | None:
    return _optional(said, name, _identifier)


def _text(said: Mapping[str, JsonValue], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else DEFAULT_TYPE if name == "artifact_type" else ""


def _flag(said: Mapping[str, JsonValue], name: str) -> bool:
    value = said.get(name, False)
    if not isinstance(value, bool):
        raise NotAnIntent(f"{name} must be true or false")
    return value


def _optional_flag(said: Mapping[str, JsonValue], name: str) -> bool | None:
    return None if said.get(name) is None else _flag(said, name)


def _whole(said: Mapping[str, JsonValue], name: str) -> int:
    value = said.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise NotAnIntent(f"{name} must be a whole number of 0 or more, up to 2^53")
    return value


def _optional_whole(said: Mapping[str, JsonValue], name: str) -> int | None:
    return None if said.get(name) is None else _whole(said, name)


def _object(said: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue] | None:
    value = said.get(name)
    if value is not None and not isinstance(value, dict):
        raise NotAnIntent(f"{name} must be an object or null")
    return value


def _ids(said: Mapping[str, JsonValue], name: str) -> tuple[str, ...]:
    value = said.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST_DEPENDENCIES:
        raise NotAnIntent(f"{name} must be a list of at most {MOST_DEPENDENCIES} ids")
    return tuple(dict.fromkeys(_identifier(each, f"an id of {name}") for each in value))


def _method(said: Mapping[str, JsonValue], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_METHOD or not value.isprintable():
        raise NotAnIntent(
            f"{name} must be a text of 1 to {LONGEST_METHOD} characters, none of them a control"
        )
    return value


def _values(said: Mapping[str, JsonValue], name: str) -> tuple[JsonValue, ...]:
    value = said.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise NotAnIntent(f"{name} must be a list")
    return tuple(value)


_READERS: Final[Mapping[str, Callable[[Mapping[str, JsonValue], str], object]]] = {
    "artifact_id": _needed_id,
    "artifact_type": _text,
    "content": _text,
    "executable": _flag,
    "price": _whole,
    "code": _text,
    "policy": _object,
    "interface": _object,
    "depends_on": _ids,
    "access_contract_id": _optional_id,
    "has_standing": _flag,
    "can_execute": _flag,
    "memory_artifact_id": _optional_id,
    "method": _method,
    "args": _values,
    "budget": _optional_whole,
    "delegate": _optional_flag,
    "to": _needed_id,
}


class Kind(NamedTuple):
    """The kind of an error, and whether the same action may succeed later."""

    category: str
    retriable: bool


CODES: Final[Mapping[str, Kind]] = {
    "not_found": Kind("resource", False),
    "not_authorized": Kind("permission", False),
    "insufficient_funds": Kind("resource", True),
    "quota_exceeded": Kind("resource", True),
    "invalid_argument": Kind("validation", False),
    "invalid_type": Kind("validation", False),
    "timeout": Kind("execution", True),
    "runtime_error": Kind("execution", False),
    "DELETED": Kind("resource", False),
    "rate_limited": Kind("resource", True),
    "depth_exceeded": Kind("execution", False),
    "output_limit": Kind("execution", False),
    "killed": Kind("execution", False),
    "not_configured": Kind("system", False),
    "conflict": Kind("system", True),
    "internal_error": Kind("system", True),
}
"""All error codes (the seed's table, and the exchange's own)."""


class ActionResult(NamedTuple):
    """The result of an action. `resources_consumed` was charged to `charged_to`."""

    success: bool
    message: str
    data: JsonValue = None
    resources_consumed: Mapping[str, float] | None = None
    charged_to: str | None = None
    error_code: str | None = None
    error_details: Mapping[str, JsonValue] | None = None
    sandbox: str | None = None
    """What isolated the code, if any ran. Not a part of the ActionResult itself."""


class Refused(Exception):
    """An action fails: with one of `CODES`, and a message for the actor."""

    def __init__(self, code: str, message: str, **details: JsonValue) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def result(self) -> ActionResult:
        """The result of the action."""
        return ActionResult(
            False, self.message, error_code=self.code, error_details=dict(self.details) or None
        )


def result_to_json(result: ActionResult) -> dict[str, JsonValue]:
    """The ActionResult of the seed: absent fields are left out, except `success`, `message` and `data`."""
    told: dict[str, JsonValue] = {"success": result.success, "message": result.message, "data": result.data}
    if result.resources_consumed is not None:
        told["resources_consumed"] = dict(result.resources_consumed)
    if result.charged_to is not None:
        told["charged_to"] = result.charged_to
    if result.error_code is not None:
        kind = CODES[result.error_code]
        told |= {
            "error_code": result.error_code,
            "error_category": kind.category,
            "retriable": kind.retriable,
        }
        if result.error_details is not None:
            told["error_details"] = dict(result.error_details)
    return told
