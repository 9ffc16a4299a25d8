"""The JSON Schemas of an intent, of an ActionResult, and of the policy of an artifact."""

from collections.abc import Mapping
from typing import Final

from runward.config.json_value import JsonValue

_ID: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": 128}
_OPTIONAL_ID: Final[dict[str, JsonValue]] = {**_ID, "type": ["string", "null"]}
_COUNT: Final[dict[str, JsonValue]] = {"type": "integer", "minimum": 0}
_ALLOWED: Final[dict[str, JsonValue]] = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}},
        {"type": "string", "pattern": "^([*]|@.+)$"},
    ]
}

POLICY_SCHEMA: Final[Mapping[str, JsonValue]] = {
    "title": "Runward policy of an artifact: who may do what, and what it costs",
    "type": "object",
    "properties": {
        "read_price": {"description": "What others pay to the owner for a read.", **_COUNT, "default": 0},
        "invoke_price": {
            "description": "What others pay for an invocation. By default the price of the artifact.",
            **_COUNT,
            "default": 0,
        },
        "allow_read": {
            "description": "Who may read: ids, everyone, or a contract.",
            **_ALLOWED,
            "default": ["*"],
        },
        "allow_write": {"description": "Who may write beside the owner.", **_ALLOWED, "default": []},
        "allow_invoke": {"description": "Who may invoke.", **_ALLOWED, "default": ["*"]},
    },
}


_SAID: Final[Mapping[str, str]] = {
    "artifact_id": "The artifact.",
    "artifact_type": "Its type.",
    "content": "Its content.",
    "executable": "Whether it can be invoked; then it needs code and a price.",
    "price": "What an invocation costs.",
    "code": "Python code that defines run.",
    "policy": "Who may do what. Kept unless named; only the owner may name it.",
    "interface": "What it says of itself. Kept unless named.",
    "depends_on": "The artifacts that it needs.",
    "access_contract_id": "The contract that decides who may do what.",
    "has_standing": "Whether it can own and pay.",
    "can_execute": "Whether it acts on its own.",
    "memory_artifact_id": "Where it keeps what it learned.",
    "method": "The function that is called.",
    "args": "Its arguments.",
    "budget": "The most that it may cost.",
    "delegate": "Whether code of others may act on the caller's behalf.",
    "to": "The principal who gets it.",
}


def _described(name: str, shape: JsonValue) -> JsonValue:
    assert isinstance(shape, dict), "each shape is an object"
    return {"description": _SAID[name], **shape}


def _action(name: str, needed: list[JsonValue], **properties: JsonValue) -> JsonValue:
    return {
        "properties": {
            "action_type": {"const": name, "description": "What is to be done."},
            **{key: _described(key, each) for key, each in properties.items()},
        },
        "required": ["action_type", *needed],
    }


INTENT_SCHEMA: Final[Mapping[str, JsonValue]] = {
    "title": "Runward intent: one line of intents.jsonl",
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "Why. The log shows if there is none."},
        "id": {**_OPTIONAL_ID, "description": "The result repeats it."},
        "principal_id": {**_OPTIONAL_ID, "description": "In a run, it must be the run's agent."},
    },
    "oneOf": [
        _action("noop", []),
        _action("read_artifact", ["artifact_id"], artifact_id=_ID),
        _action(
            "write_artifact",
            ["artifact_id"],
            artifact_id=_ID,
            artifact_type={"type": "string", "default": "generic"},
            content={"type": "string", "default": ""},
            executable={"type": "boolean", "default": False},
            price={**_COUNT, "default": 0},
            code={"type": "string", "default": ""},
            policy={"anyOf": [dict(POLICY_SCHEMA), {"type": "null"}]},
            interface={"type": ["object", "null"]},
            depends_on={"type": "array", "items": _ID, "maxItems": 64},
            access_contract_id=_OPTIONAL_ID,
            has_standing={"type": "boolean"},
            can_execute={"type": "boolean"},
            memory_artifact_id=_OPTIONAL_ID,
        ),
        _action(
            "invoke_artifact",
            ["artifact_id", "method"],
            artifact_id=_ID,
            method={"type": "string", "minLength": 1, "maxLength": 64},
            args={"type": "array"},
            budget={**_COUNT, "type": ["integer", "null"]},
            delegate={"type": ["boolean", "null"]},
        ),
        _action("delete_artifact", ["artifact_id"], artifact_id=_ID),
        _action("transfer_artifact", ["artifact_id", "to"], artifact_id=_ID, to=_ID),
    ],
}

ACTION_RESULT_SCHEMA: Final[Mapping[str, JsonValue]] = {
    "title": "Runward ActionResult: what became of an intent",
    "type": "object",
    "properties": {
        "success": {"description": "Whether it was done.", "type": "boolean"},
        "message": {"description": "What was done, or why not, in a sentence.", "type": "string"},
        "data": {"type": ["object", "null"], "description": "Null where it failed."},
        "resources_consumed": {
            "description": "What it used: disk_bytes, cpu_seconds.",
            "type": "object",
            "additionalProperties": {"type": "number"},
        },
        "charged_to": {"description": "Who paid for that.", "type": "string"},
        "error_code": {"description": "Why it failed.", "type": "string"},
        "error_category": {
            "description": "What kind of failure it is.",
            "enum": ["resource", "permission", "validation", "execution", "system"],
        },
        "retriable": {"description": "Whether the same may succeed later.", "type": "boolean"},
        "error_details": {"description": "More about the failure.", "type": "object"},
    },
    "required": ["success", "message", "data"],
    "dependentRequired": {"error_code": ["error_category", "retriable"]},
}
