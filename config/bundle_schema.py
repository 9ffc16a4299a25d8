"""What `RECEIPT.json` and a line of `REPLAY.jsonl` may look like, as JSON Schemas for programs that read or write them.

`receipt verify` and `replay check` decide: they also know what one part says about another.
"""

from typing import Final

from runward.config.json_value import JsonValue

RECEIPT: Final = "runward-receipt-v1"


def _text(description: str) -> JsonValue:
    return {"type": "string", "description": description}


def _name(description: str) -> JsonValue:
    return {"type": "string", "minLength": 1, "description": description}


def _time(description: str) -> JsonValue:
    return {"type": ["string", "null"], "format": "date-time", "description": f"{description} ISO 8601."}


def _hash(description: str) -> JsonValue:
    return {
        "type": ["string", "null"],
        "pattern": "^sha256:[0-9a-f]{64}$",
        "description": f"{description} null: not known.",
    }


def _number(description: str, least: int | None = None, most: int | None = None) -> JsonValue:
    bounds: dict[str, JsonValue] = {"minimum": least, "maximum": most}
    known = {key: value for key, value in bounds.items() if value is not None}
    return {"type": ["number", "null"], **known, "description": f"{description} null: not known."}


def _whole(description: str, least: int | None = None) -> JsonValue:
    bound: dict[str, JsonValue] = {} if least is None else {"minimum": least}
    return {"type": ["integer", "null"], **bound, "description": f"{description} null: not known."}


_EVENT_HASH: Final[JsonValue] = {
    "type": ["string", "null"],
    "pattern": "^(sha256:)?[0-9a-f]{64}$",
    "description": "The hash of the event of the verdict in Runward's store. null: it is not recorded.",
}

_FILE_SCHEMAS: Final[dict[str, JsonValue]] = {
    "sha256": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "description": "Its hash."},
    "size": {"type": "integer", "minimum": 0, "description": "Its bytes."},
}

_FILE: Final[dict[str, JsonValue]] = {
    "type": "object",
    "required": [*_FILE_SCHEMAS],
    "additionalProperties": False,
    "properties": _FILE_SCHEMAS,
}

_CALL: Final[dict[str, JsonValue]] = {
    "id": _text("The call's id."),
    "tool": _text("What was called."),
    "params_hash": _hash("The hash of its params, whole."),
    "output_hash": _hash("The hash of its output, whole."),
    "step_utility": _number("How much it helped, as the run says.", -1, 1),
    "latency_ms": _number("Milliseconds from the call to its result.", 0),
    "cost_tokens": _whole("The tokens of the reply that made the call, at the reply's first call.", 0),
}

_ADDED: Final[dict[str, JsonValue]] = {
    "schema": {"const": RECEIPT, "description": "The form of a receipt of Runward's."},
    "layout": _name("The tool's layout, as in the settings."),
    "attempt": {"type": "integer", "minimum": 1, "description": "Which attempt of the session it is."},
    "status": _name("How it ended."),
    "reason_code": {"type": ["string", "null"], "description": "Why, as a code."},
    "delivery": {
        "type": ["string", "null"],
        "description": "The result of the contract. null: there is none.",
    },
    "event_hash": _EVENT_HASH,
    "canonical_form": {
        "enum": ["seed", "rfc8785"],
        "description": "The canonical form of the JSON that every hash covers.",
    },
    "files": {
        "type": "object",
        "required": ["REPLAY.jsonl", "PR_SUMMARY.md"],
        "additionalProperties": False,
        "description": "The other parts, by their plain names.",
        "properties": {
            "REPLAY.jsonl": {**_FILE, "description": "The replay."},
            "PR_SUMMARY.md": {**_FILE, "description": "The summary."},
        },
    },
    "prev": _hash("The hash of the receipt before it in the store."),
    "receipt_hash": {
        "type": "string",
        "pattern": "^sha256:[0-9a-f]{64}$",
        "description": "The hash of the receipt without this field and without the signature.",
    },
}

_VERIFICATION: Final[dict[str, JsonValue]] = {
    "commands_run": {
        "type": "array",
        "items": {"type": "string"},
        "description": "The commands, in the order of their first run.",
    },
    "exit_codes": {
        "type": "array",
        "items": {"type": ["integer", "null"]},
        "description": "The exit code of the last run of each; null: not known.",
    },
    "verification_delta": _number("The failing tests at the first count minus those at the last."),
}

_SEED: Final[dict[str, JsonValue]] = {
    "session_id": _name("The session's id."),
    "started_at": _time("When the attempt began."),
    "completed_at": _time("When it was over."),
    "issue_number": _number("The issue that it was about."),
    "plan_hash": _hash("The hash of the first plan that the run declared."),
    "tool_calls": {
        "type": "array",
        "items": {
            "type": "object",
            "required": [name for name in _CALL if name != "cost_tokens"],
            "properties": _CALL,
        },
        "description": "The calls, in the replay's order.",
    },
    "verification": {
        "type": "object",
        "required": [*_VERIFICATION],
        "description": "The verification commands that the run really ran.",
        "properties": _VERIFICATION,
    },
    "final_confidence": _number("How sure the run says it is.", 0, 1),
    "policy_bundle_id": _text("The policy that the run was under."),
    "signature": {
        "type": ["string", "null"],
        "description": "sig:ed25519:… or sig:nostr:…; null: none.",
    },
}

SEED_FIELDS: Final = tuple(_SEED)
"""The fields of every receipt in their order, as the bundle's specification has them."""

ADDED_FIELDS: Final = tuple(_ADDED)
"""What Runward adds, so that every byte of a bundle can be proven."""

TELLING_FIELDS: Final = ("schema", "event_hash", "canonical_form", "files", "prev", "receipt_hash")
"""A receipt with one of these is in Runward's form, and must have everything that Runward adds."""

CALL_FIELDS: Final = tuple(_CALL)
VERIFICATION_FIELDS: Final = tuple(_VERIFICATION)
FILE_FIELDS: Final = tuple(_FILE_SCHEMAS)


def receipt_schema() -> dict[str, JsonValue]:
    """What `RECEIPT.json` may look like."""
    return {
        "title": "Runward RECEIPT.json",
        "type": "object",
        "required": [*_SEED],
        "properties": _SEED,
        "if": {"anyOf": [{"required": [each]} for each in TELLING_FIELDS]},
        "then": {"required": [*_ADDED], "properties": _ADDED},
    }


_PER_EVENT: Final[dict[str, tuple[list[JsonValue], dict[str, JsonValue]]]] = {
    "SessionStart": (
        ["session_id"],
        {
            "session_id": _name("The session's id."),
            "issue_number": _number("The issue that it is about."),
            "policy_bundle_id": {"type": ["string", "null"], "description": "The policy that it is under."},
            "attempt": _whole("Which attempt it is.", 1),
            "hash": _EVENT_HASH,
        },
    ),
    "PlanStart": (
        [],
        {
            "plan_hash": _hash("The hash of the plan."),
            "step_count": _whole("How many steps it has.", 0),
        },
    ),
    "StepComplete": (
        [],
        {
            "step_id": {"type": ["string", "null"], "description": "The step."},
            "status": {"type": ["string", "null"], "description": "How it ended."},
            "iterations": _whole("How often it was tried.", 0),
        },
    ),
    "ToolCall": (
        ["id"],
        {
            "id": _text("The call's id."),
            "tool": _text("What is called."),
            "params": {"description": "What it is called with; null where it can't be shown."},
            "params_hash": _hash("The hash of the params, whole."),
            "step_id": {"type": ["string", "null"], "description": "The step that it belongs to."},
        },
    ),
    "ToolResult": (
        ["id"],
        {
            "id": _text("The id of the call."),
            "output": {"description": "{content, error, success}; null where it can't be shown."},
            "output_hash": _hash("The hash of the output, whole."),
            "exit_code": _whole("The command's exit code."),
            "step_utility": _number("How much it helped, as the run says.", -1, 1),
            "latency_ms": _number("Milliseconds from the call to its result.", 0),
        },
    ),
    "Verification": (
        [],
        {
            "commands": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The verification commands that ran.",
            },
            "exit_codes": _VERIFICATION["exit_codes"],
            "verification_delta": _VERIFICATION["verification_delta"],
        },
    ),
    "SessionEnd": (
        [],
        {
            "status": _text("Success, Failed, Timeout or Cancelled."),
            "confidence": _number("How sure the run says it is.", 0, 1),
            "total_tool_calls": _whole("How many calls the replay has.", 0),
            "total_latency_ms": _number("The sum of the latencies that are known.", 0),
            "reason_code": {"type": ["string", "null"], "description": "Why it ended like this, as a code."},
            "hash": _EVENT_HASH,
        },
    ),
}


def replay_schema() -> dict[str, JsonValue]:
    """What a line of `REPLAY.jsonl` may look like."""
    return {
        "title": "Runward REPLAY.jsonl, one line",
        "type": "object",
        "required": ["event"],
        "properties": {
            "event": _name(f"What happened: {', '.join(_PER_EVENT)}; others are ignored."),
            "t": _time("When."),
            "redacted": {
                "type": "array",
                "items": {"type": "string"},
                "description": "JSON Pointers to what was redacted.",
            },
            "cut": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0},
                "description": "How many characters each text had that was cut, by its JSON Pointer.",
            },
            "problem": _text("Why a hash of this line can't be computed."),
        },
        "allOf": [
            {
                "if": {"properties": {"event": {"const": event, "description": "This event."}}},
                "then": {"required": required, "properties": properties},
            }
            for event, (required, properties) in _PER_EVENT.items()
        ],
    }
