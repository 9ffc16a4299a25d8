"""The fields of the actions, and the JSON Schemas of an intent, of an ActionResult, and of an artifact's policy."""

from collections.abc import Mapping
from typing import Final

from runward.config.json_value import JsonValue

LONGEST_ID: Final = 128
LONGEST_METHOD: Final = 64
MOST_DEPENDENCIES: Final = 64

_ID: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
_OPTIONAL_ID: Final[dict[str, JsonValue]] = {**_ID, "type": ["string", "null"]}
_COUNT: Final[dict[str, JsonValue]] = {"type": "integer", "minimum": 0}
_ALLOWED: Final[dict[str, JsonValue]] = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}},
        {"type": "string", "pattern": "^([*]|@.+)$"},
    ]
}

_POLICY: Final[Mapping[str, JsonValue]] = {
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
        "allow_write": {"description": "Who may write in addition to the owner.", **_ALLOWED, "default": []},
        "allow_invoke": {"description": "Who may invoke.", **_ALLOWED, "default": ["*"]},
    },
}


_ARTIFACT: Final[Mapping[str, JsonValue]] = {"artifact_id": {**_ID, "description": "The artifact."}}

ACTION_FIELDS: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "noop": {},
    "read_artifact": _ARTIFACT,
    "write_artifact": {
        **_ARTIFACT,
        "artifact_type": {
            "description": "Its type, such as note or code.",
            "type": "string",
            "default": "generic",
        },
        "content": {"description": "Its content.", "type": "string", "default": ""},
        "executable": {
            "description": "Whether it can be invoked. Then it needs code and a price.",
            "type": "boolean",
            "default": False,
        },
        "price": {"description": "What an invocation costs others.", **_COUNT, "default": 0},
        "code": {"description": "Python code that defines run(*args).", "type": "string", "default": ""},
        "depends_on": {
            "description": "The artifacts that it needs.",
            "type": "array",
            "items": _ID,
            "maxItems": MOST_DEPENDENCIES,
        },
        "policy": {
            "description": "Who may do what, and what it costs. Kept unless given; only the owner may give it.",
            "anyOf": [dict(_POLICY), {"type": "null"}],
        },
        "interface": {
            "description": "What it says about itself: description, methods, examples. Kept unless given.",
            "type": ["object", "null"],
        },
        "access_contract_id": {
            **_OPTIONAL_ID,
            "description": "The contract that decides who may do what. Kept unless given.",
        },
        "has_standing": {
            "description": "Whether it may own and hold scrip. Kept unless given.",
            "type": "boolean",
        },
        "can_execute": {"description": "Whether it acts on its own. Kept unless given.", "type": "boolean"},
        "memory_artifact_id": {
            **_OPTIONAL_ID,
            "description": "The artifact with its memory. Kept unless given.",
        },
    },
    "invoke_artifact": {
        **_ARTIFACT,
        "method": {
            "description": "The method to call; most artifacts have run.",
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_METHOD,
        },
        "args": {"description": "The arguments of the method, any JSON values.", "type": "array"},
        "budget": {
            "description": "The most scrip that it may cost. Default: all that the caller has.",
            **_COUNT,
            "type": ["integer", "null"],
        },
        "delegate": {
            "description": "Whether code of other owners may act on the caller's behalf. Default: as the settings say.",
            "type": ["boolean", "null"],
        },
    },
    "delete_artifact": _ARTIFACT,
    "transfer_artifact": {
        **_ARTIFACT,
        "to": {**_ID, "description": "The principal who becomes the owner."},
    },
}
"""The fields of each action's intent with their schemas, in addition to the fields that every intent has."""

NEEDED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "noop": (),
    "read_artifact": ("artifact_id",),
    "write_artifact": ("artifact_id",),
    "invoke_artifact": ("artifact_id", "method"),
    "delete_artifact": ("artifact_id",),
    "transfer_artifact": ("artifact_id", "to"),
}
"""The fields that an intent must have."""


def policy_schema() -> Mapping[str, JsonValue]:
    """What the policy of an artifact may look like."""
    return _POLICY


def _action(name: str) -> JsonValue:
    return {
        "properties": {
            "action_type": {"const": name, "description": "What to do."},
            **ACTION_FIELDS[name],
        },
        "required": ["action_type", *NEEDED_FIELDS[name]],
    }


def intent_schema() -> Mapping[str, JsonValue]:
    """What a line of `intents.jsonl` may look like."""
    return {
        "title": "Runward intent: one line of intents.jsonl",
        "type": "object",
        "properties": {
            "reasoning": {"type": "string", "description": "The reason. The log shows if it is missing."},
            "id": {**_OPTIONAL_ID, "description": "The result repeats it."},
            "principal_id": {**_OPTIONAL_ID, "description": "In a run, it must be the run's agent."},
        },
        "oneOf": [_action(name) for name in ACTION_FIELDS],
    }


def action_result_schema() -> Mapping[str, JsonValue]:
    """What the result of an intent looks like."""
    return {
        "title": "Runward ActionResult: the result of an intent",
        "type": "object",
        "properties": {
            "success": {"description": "Whether it was done.", "type": "boolean"},
            "message": {"description": "What was done, or why not, in a sentence.", "type": "string"},
            "data": {"type": ["object", "null"], "description": "Null if it failed."},
            "resources_consumed": {
                "description": "What it used: disk_bytes, cpu_seconds.",
                "type": "object",
                "additionalProperties": {"type": "number"},
            },
            "charged_to": {"description": "Who paid for that.", "type": "string"},
            "error_code": {"description": "Why it failed.", "type": "string"},
            "error_category": {
                "description": "The kind of failure.",
                "enum": ["resource", "permission", "validation", "execution", "system"],
            },
            "retriable": {"description": "Whether the same may succeed later.", "type": "boolean"},
            "error_details": {"description": "More about the failure.", "type": "object"},
        },
        "required": ["success", "message", "data"],
        "dependentRequired": {"error_code": ["error_category", "retriable"]},
    }
