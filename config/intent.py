"""An intent, what a principal wants done: its fields for each action, each declared once; and what else the exchange reads.

The results of actions and the policies of artifacts have their JSON Schemas here, too.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue

LONGEST_ID: Final = 128
LONGEST_METHOD: Final = 64
MOST_DEPENDENCIES: Final = 64
MOST: Final = 1 << 53
"""The largest price, cost and amount: every number up to it is the same number in every program."""

DEFAULT_TYPE: Final = "generic"
DEFAULT_METHOD: Final = "run"
EVERYONE: Final = "*"

_ID: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
_OPTIONAL_ID: Final[dict[str, JsonValue]] = {**_ID, "type": ["string", "null"]}
_COUNT: Final[dict[str, JsonValue]] = {"type": "integer", "minimum": 0}
_ALLOWED: Final[dict[str, JsonValue]] = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}},
        {"type": "string", "pattern": "^([*]|@.+)$"},
    ]
}

_PRICES: Final[Mapping[str, dict[str, JsonValue]]] = {
    "read_price": {"description": "What others pay to the owner for a read.", **_COUNT, "default": 0},
    "invoke_price": {
        "description": "What others pay for an invocation. By default the price of the artifact.",
        **_COUNT,
        "default": 0,
    },
}
_RIGHTS: Final[Mapping[str, dict[str, JsonValue]]] = {
    "allow_read": {
        "description": "Who may read: ids, everyone, or a contract.",
        **_ALLOWED,
        "default": [EVERYONE],
    },
    "allow_write": {"description": "Who may write in addition to the owner.", **_ALLOWED, "default": []},
    "allow_invoke": {"description": "Who may invoke.", **_ALLOWED, "default": [EVERYONE]},
}

_POLICY: Final[Mapping[str, JsonValue]] = {
    "title": "Runward policy of an artifact: who may do what, and what it costs",
    "type": "object",
    "properties": {**_PRICES, **_RIGHTS},
}

PRICES: Final = tuple(_PRICES)
RIGHTS: Final = tuple(_RIGHTS)
POLICY_DEFAULTS: Final[Mapping[str, JsonValue]] = {
    name: each["default"] for name, each in (*_PRICES.items(), *_RIGHTS.items())
}
"""The policy of an artifact that has none. A policy with some of the keys gets the others from here."""


class NotAnIntent(Exception):
    """A line does not hold an intent; the message says why."""


def why_no_id(value: str) -> str | None:
    """Why a text can't be an id of the exchange."""
    if not 1 <= len(value) <= LONGEST_ID:
        return f"must have 1 to {LONGEST_ID} characters"
    return None if value.isprintable() else "must not have control characters"


def _identifier(value: JsonValue, name: str) -> str:
    if not isinstance(value, str):
        raise NotAnIntent(f"{name} must be a text")
    why = why_no_id(value)
    if why is not None:
        raise NotAnIntent(f"{name} {why}")
    return value


def _needed_id(given: Mapping[str, JsonValue], name: str) -> str:
    if name not in given:
        raise NotAnIntent(f"{name} is missing")
    return _identifier(given[name], name)


def _optional_id(given: Mapping[str, JsonValue], name: str) -> str | None:
    value = given.get(name)
    return None if value is None else _identifier(value, name)


def _text(given: Mapping[str, JsonValue], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def _type(given: Mapping[str, JsonValue], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else DEFAULT_TYPE


def _flag(given: Mapping[str, JsonValue], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise NotAnIntent(f"{name} must be true or false")
    return value


def _optional_flag(given: Mapping[str, JsonValue], name: str) -> bool | None:
    return None if given.get(name) is None else _flag(given, name)


def _whole(given: Mapping[str, JsonValue], name: str) -> int:
    value = given.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise NotAnIntent(f"{name} must be a whole number of 0 or more, up to 2^53")
    return value


def _optional_whole(given: Mapping[str, JsonValue], name: str) -> int | None:
    return None if given.get(name) is None else _whole(given, name)


def _object(given: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue] | None:
    value = given.get(name)
    if value is not None and not isinstance(value, dict):
        raise NotAnIntent(f"{name} must be an object or null")
    return value


def _ids(given: Mapping[str, JsonValue], name: str) -> tuple[str, ...]:
    value = given.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST_DEPENDENCIES:
        raise NotAnIntent(f"{name} must be a list of at most {MOST_DEPENDENCIES} ids")
    return tuple(dict.fromkeys(_identifier(each, f"an id of {name}") for each in value))


def _method(given: Mapping[str, JsonValue], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_METHOD or not value.isprintable():
        raise NotAnIntent(
            f"{name} must be a text of 1 to {LONGEST_METHOD} characters, none of them a control"
        )
    return value


def _values(given: Mapping[str, JsonValue], name: str) -> tuple[JsonValue, ...]:
    value = given.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise NotAnIntent(f"{name} must be a list")
    return tuple(value)


_Reader: TypeAlias = Callable[[Mapping[str, JsonValue], str], object]


class _Field(NamedTuple):
    """Declares a field of an intent: its schema, and the reader that finds it in the intent by its name.

    An action that has a field needs it if it `is_needed`. A write keeps what the artifact has if it `is_kept`.
    """

    schema: Mapping[str, JsonValue]
    read: _Reader
    is_needed: bool = False
    is_kept: bool = False


class Intent(NamedTuple):
    """An intent with omitted fields filled in. Fields that its action doesn't have keep their defaults.

    `named` are the keys that a write names, among those that it otherwise keeps.
    """

    action_type: str
    reasoning: str = ""
    id: str | None = None
    principal_id: str | None = None
    artifact_id: Annotated[
        str, _Field({**_ID, "description": "The artifact."}, _needed_id, is_needed=True)
    ] = ""
    artifact_type: Annotated[
        str,
        _Field(
            {"description": "Its type, such as note or code.", "type": "string", "default": DEFAULT_TYPE},
            _type,
        ),
    ] = DEFAULT_TYPE
    content: Annotated[
        str, _Field({"description": "Its content.", "type": "string", "default": ""}, _text)
    ] = ""
    executable: Annotated[
        bool,
        _Field(
            {
                "description": "Whether it can be invoked. Then it needs code and a price.",
                "type": "boolean",
                "default": False,
            },
            _flag,
        ),
    ] = False
    price: Annotated[
        int, _Field({"description": "What an invocation costs others.", **_COUNT, "default": 0}, _whole)
    ] = 0
    code: Annotated[
        str,
        _Field(
            {"description": "Python code that defines run(*args).", "type": "string", "default": ""}, _text
        ),
    ] = ""
    policy: Annotated[
        dict[str, JsonValue] | None,
        _Field(
            {
                "description": "Who may do what, and what it costs. Kept unless given; only the owner may give it.",
                "anyOf": [dict(_POLICY), {"type": "null"}],
            },
            _object,
            is_kept=True,
        ),
    ] = None
    interface: Annotated[
        dict[str, JsonValue] | None,
        _Field(
            {
                "description": "What it says about itself: description, methods, examples. Kept unless given.",
                "type": ["object", "null"],
            },
            _object,
            is_kept=True,
        ),
    ] = None
    depends_on: Annotated[
        tuple[str, ...],
        _Field(
            {
                "description": "The artifacts that it needs.",
                "type": "array",
                "items": _ID,
                "maxItems": MOST_DEPENDENCIES,
            },
            _ids,
        ),
    ] = ()
    access_contract_id: Annotated[
        str | None,
        _Field(
            {
                **_OPTIONAL_ID,
                "description": "The contract that decides who may do what. Kept unless given.",
            },
            _optional_id,
            is_kept=True,
        ),
    ] = None
    has_standing: Annotated[
        bool,
        _Field(
            {"description": "Whether it may own and hold scrip. Kept unless given.", "type": "boolean"},
            _flag,
            is_kept=True,
        ),
    ] = False
    can_execute: Annotated[
        bool,
        _Field(
            {"description": "Whether it acts on its own. Kept unless given.", "type": "boolean"},
            _flag,
            is_kept=True,
        ),
    ] = False
    memory_artifact_id: Annotated[
        str | None,
        _Field(
            {**_OPTIONAL_ID, "description": "The artifact with its memory. Kept unless given."},
            _optional_id,
            is_kept=True,
        ),
    ] = None
    method: Annotated[
        str,
        _Field(
            {
                "description": "The method to call; most artifacts have run.",
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_METHOD,
            },
            _method,
            is_needed=True,
        ),
    ] = DEFAULT_METHOD
    args: Annotated[
        tuple[JsonValue, ...],
        _Field({"description": "The arguments of the method, any JSON values.", "type": "array"}, _values),
    ] = ()
    budget: Annotated[
        int | None,
        _Field(
            {
                "description": "The most scrip that it may cost. Default: all that the caller has.",
                **_COUNT,
                "type": ["integer", "null"],
            },
            _optional_whole,
        ),
    ] = None
    delegate: Annotated[
        bool | None,
        _Field(
            {
                "description": "Whether code of other owners may act on the caller's behalf. Default: as the settings say.",
                "type": ["boolean", "null"],
            },
            _optional_flag,
        ),
    ] = None
    to: Annotated[
        str,
        _Field({**_ID, "description": "The principal who becomes the owner."}, _needed_id, is_needed=True),
    ] = ""
    named: frozenset[str] = frozenset()


_DECLARED: Final[Mapping[str, _Field]] = {
    name: each
    for name, annotation in Intent.__annotations__.items()
    for each in getattr(annotation, "__metadata__", ())
}

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "noop": (),
    "read_artifact": ("artifact_id",),
    "write_artifact": (
        *("artifact_id", "artifact_type", "content", "executable", "price", "code", "depends_on"),
        *("policy", "interface", "access_contract_id", "has_standing", "can_execute", "memory_artifact_id"),
    ),
    "invoke_artifact": ("artifact_id", "method", "args", "budget", "delegate"),
    "delete_artifact": ("artifact_id",),
    "transfer_artifact": ("artifact_id", "to"),
}
"""The keys of an intent by its action, in addition to those that every intent has."""

ACTION_TYPES: Final = tuple(FIELDS)

ACTION_FIELDS: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    action: {name: dict(_DECLARED[name].schema) for name in names} for action, names in FIELDS.items()
}
"""The schemas of these keys."""

NEEDED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    action: tuple(name for name in names if _DECLARED[name].is_needed) for action, names in FIELDS.items()
}
"""The keys that an intent must have."""

KEPT: Final = tuple(name for name, each in _DECLARED.items() if each.is_kept)
"""What a write keeps unless it names it, and what only the owner may change."""

_KEPT: Final = frozenset(KEPT)
_READ: Final = {action: tuple((name, _DECLARED[name]) for name in names) for action, names in FIELDS.items()}
"""The declared fields of an intent by its action. One that is absent and not needed has its default."""


def read_intent(given: Mapping[str, JsonValue]) -> Intent:
    """The intent that a JSON object is. Raises `NotAnIntent`."""
    kind = given.get("action_type")
    kind = kind.lower() if isinstance(kind, str) else kind
    if kind == "transfer":
        raise NotAnIntent(
            "transfer is not an action: invoke the method transfer of genesis_ledger to pay, or use transfer_artifact"
        )
    if not isinstance(kind, str) or kind not in FIELDS:
        raise NotAnIntent(f"action_type must be one of {', '.join(ACTION_TYPES)}")
    reasoning = given.get("reasoning")
    fields: dict[str, object] = {
        "reasoning": reasoning if isinstance(reasoning, str) else "",
        "id": _optional_id(given, "id"),
        "principal_id": _optional_id(given, "principal_id"),
        "named": _KEPT.intersection(given),
    }
    for name, declared in _READ[kind]:
        if declared.is_needed or name in given:
            fields[name] = declared.read(given, name)
    intent = Intent(kind, **fields)  # type: ignore[arg-type] # each reader returns its field's type
    if kind == "write_artifact" and intent.executable and ("price" not in given or not intent.code):
        raise NotAnIntent("an executable artifact needs code, and a price of 0 or more")
    return intent


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
                "enum": [*dict.fromkeys(kind.category for kind in CODES.values())],
            },
            "retriable": {"description": "Whether the same may succeed later.", "type": "boolean"},
            "error_details": {"description": "More about the failure.", "type": "object"},
        },
        "required": ["success", "message", "data"],
        "dependentRequired": {"error_code": ["error_category", "retriable"]},
    }
