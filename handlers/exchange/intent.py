"""An intent, what a principal wants done, as one line of JSON; and the result of the action that it becomes."""

import json
import string
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.intent import (
    CODES,
    FIELDS,
    KEPT,
    LONGEST_ID,
    Intent,
    NotAnIntent,
    read_intent,
)
from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import NotJson, read_json

RESULTS: Final = "results.jsonl"
"""The file of a run in which its intents have their results, a line each."""

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


def intent_to_json(intent: Intent) -> dict[str, JsonValue]:
    """The intent as parsed, with all fields of its action."""
    fields: dict[str, JsonValue] = {"action_type": intent.action_type, "reasoning": intent.reasoning}
    for name in ("id", "principal_id"):
        if getattr(intent, name) is not None:
            fields[name] = getattr(intent, name)
    for name in FIELDS[intent.action_type]:
        if name in KEPT and name not in intent.named:
            continue
        value = getattr(intent, name)
        fields[name] = list(value) if isinstance(value, tuple) else value
    return fields


def as_intent(intent: Intent) -> dict[str, JsonValue]:
    """The intent as a line that parses to the same intent."""
    fields = intent_to_json(intent)
    return {key: value for key, value in fields.items() if value is not None or key in intent.named}


def shown(intent: Intent) -> dict[str, JsonValue]:
    """The intent as results show it: long content and code are cut."""
    fields = intent_to_json(intent)
    for name in ("content", "code"):
        text = fields.get(name)
        if isinstance(text, str) and len(text) > SHOWN:
            fields[name] = text[:SHOWN] + "..."
    return fields


def without_content(answer: JsonValue) -> JsonValue:
    """An intent, or the result of an action, without what others pay for: content, code, and what code returned or said.

    Only who paid gets these, with the result itself.
    """
    if not isinstance(answer, dict):
        return answer
    less = {key: None if key in _PAID else value for key, value in answer.items()}
    if _is_said_by_code(answer):
        less["message"] = WHY_IS_PAID
    for name in ("data", "artifact"):
        if name in less:
            less[name] = without_content(less[name])
    return less


def _is_said_by_code(result: Mapping[str, JsonValue]) -> bool:
    """Whether code may have written the message of this result: then it may have what code read."""
    code, consumed = result.get("error_code"), result.get("resources_consumed")
    has_run_code = isinstance(consumed, dict) and "cpu_seconds" in consumed
    return has_run_code and code in _SAID_BY_CODE


def line_without_content(text: str) -> str:
    """The line of an intent without its content and code. A line that isn't an intent has neither, and is cut."""
    value = read_json(text.encode(errors="replace"))
    return json.dumps(without_content(value)) if isinstance(value, dict) else text[:SHOWN]


def why_no_name(value: str) -> str | None:
    """Why no new artifact or principal may have this id. Those of older versions keep theirs."""
    if not 1 <= len(value) <= LONGEST_ID:
        return f"must have 1 to {LONGEST_ID} characters"
    if not set(value) <= _NAMING:
        return f"must have only ASCII letters, digits and {_JOINING}"
    if value[0] in _JOINING or value[-1] in _JOINING:
        return "must begin and end with a letter or a digit"
    return None


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
    fields: dict[str, JsonValue] = {"success": result.success, "message": result.message, "data": result.data}
    if result.resources_consumed is not None:
        fields["resources_consumed"] = dict(result.resources_consumed)
    if result.charged_to is not None:
        fields["charged_to"] = result.charged_to
    if result.error_code is not None:
        kind = CODES[result.error_code]
        fields |= {
            "error_code": result.error_code,
            "error_category": kind.category,
            "retriable": kind.retriable,
        }
        if result.error_details is not None:
            fields["error_details"] = dict(result.error_details)
    return fields
