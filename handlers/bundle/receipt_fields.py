"""Whether the fields of a receipt are valid, in the seed's form and in Runward's."""

from collections.abc import Callable, Iterator
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec

from runward.config.json_value import JsonValue
from runward.config.problem import quoted
from runward.handlers.bundle.canonical import FORMS, Form
from runward.handlers.bundle.numbers import is_number, is_whole
from runward.handlers.bundle.parts import REPLAY, SUMMARY
from runward.handlers.bundle.receipt import (
    ADDED_FIELDS,
    FILE_FIELDS,
    SCHEMA,
    SEED_FIELDS,
    TELLING_FIELDS,
    is_hash,
)
from runward.handlers.bundle.timestamps import moment_of

ReceiptForm: TypeAlias = Literal["runward", "seed"]
Fields: TypeAlias = dict[str, JsonValue]
_Hash: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]


class FieldProblem(NamedTuple):
    """What is wrong with a field."""

    field: str
    message: str


class _Rule(NamedTuple):
    """What a field must be."""

    holds: Callable[[JsonValue], bool]
    said: str


def _or_null(rule: _Rule) -> _Rule:
    return _Rule(lambda value: value is None or rule.holds(value), f"{rule.said} or null")


_TEXT: Final = _Rule(lambda value: isinstance(value, str), "a text")
_NAME: Final = _Rule(lambda value: isinstance(value, str) and value != "", "a text that is not empty")
_HASH: Final = _Rule(is_hash, "`sha256:` and 64 lower-case hexadecimal digits")
_EVENT_HASH: Final = _Rule(
    lambda value: is_hash(value) or is_hash(f"sha256:{value}"),
    "the hash of an event: 64 lower-case hexadecimal digits",
)
_TIME: Final = _Rule(lambda value: moment_of(value) is not None, "a time in ISO 8601")
_NUMBER: Final = _Rule(lambda value: is_number(value), "a number")
_WHOLE: Final = _Rule(lambda value: is_whole(value), "a whole number")
_COUNT: Final = _Rule(lambda value: is_whole(value) and value >= 0, "a whole number that is not negative")
_TOKENS: Final = _or_null(_COUNT)
_LATENCY: Final = _Rule(lambda value: is_number(value) and value >= 0, "a number that is not negative")
_UTILITY: Final = _Rule(lambda value: is_number(value) and -1 <= value <= 1, "a number from -1 to 1")
_CONFIDENCE: Final = _Rule(lambda value: is_number(value) and 0 <= value <= 1, "a number from 0 to 1")
_LIST: Final = _Rule(lambda value: isinstance(value, list), "a list")
_OBJECT: Final = _Rule(lambda value: isinstance(value, dict), "an object")

_SEED: Final = {
    "session_id": _NAME,
    "started_at": _or_null(_TIME),
    "completed_at": _or_null(_TIME),
    "issue_number": _or_null(_NUMBER),
    "plan_hash": _or_null(_HASH),
    "tool_calls": _LIST,
    "verification": _OBJECT,
    "final_confidence": _or_null(_CONFIDENCE),
    "policy_bundle_id": _TEXT,
    "signature": _or_null(_TEXT),
}
_CALL: Final = {
    "id": _TEXT,
    "tool": _TEXT,
    "params_hash": _or_null(_HASH),
    "output_hash": _or_null(_HASH),
    "step_utility": _or_null(_UTILITY),
    "latency_ms": _or_null(_LATENCY),
}
_VERIFICATION: Final = {
    "commands_run": _LIST,
    "exit_codes": _LIST,
    "verification_delta": _or_null(_NUMBER),
}
_ADDED: Final = {
    "schema": _Rule(lambda value: value == SCHEMA, f"`{SCHEMA}`"),
    "layout": _NAME,
    "attempt": _Rule(lambda value: is_whole(value) and value >= 1, "a whole number from 1"),
    "status": _NAME,
    "reason_code": _or_null(_TEXT),
    "delivery": _or_null(_TEXT),
    "event_hash": _or_null(_EVENT_HASH),
    "canonical_form": _Rule(lambda value: value in FORMS, "`seed` or `rfc8785`"),
    "files": _OBJECT,
    "prev": _or_null(_HASH),
    "receipt_hash": _HASH,
}
assert _SEED.keys() == set(SEED_FIELDS)
assert _ADDED.keys() == set(ADDED_FIELDS)


def form_of(fields: Fields) -> ReceiptForm:
    """Runward's form if one of its additions is present."""
    return "runward" if TELLING_FIELDS & fields.keys() else "seed"


def hash_form_of(fields: Fields) -> Form:
    """The canonical form of the hashes in a receipt; the seed's where it names none."""
    return "rfc8785" if fields.get("canonical_form") == "rfc8785" else "seed"


def field_problems(fields: Fields) -> Iterator[FieldProblem]:
    """All problems of the fields, each checked on its own."""
    yield from _held(fields, _SEED, "")
    calls = fields.get("tool_calls")
    if isinstance(calls, list) and not _are_valid(calls):
        for index, call in enumerate(calls):
            yield from _call_problems(call, f"tool_calls[{index}]")
    verification = fields.get("verification")
    if isinstance(verification, dict):
        yield from _verification_problems(verification)
    if form_of(fields) == "runward":
        yield from _held(fields, _ADDED, "")
        files = fields.get("files")
        if isinstance(files, dict):
            yield from _file_problems(files)


class _ValidCall(msgspec.Struct):
    """What `_call_problems` finds nothing wrong with."""

    id: str
    tool: str
    params_hash: _Hash | None
    output_hash: _Hash | None
    step_utility: Annotated[float, msgspec.Meta(ge=-1, le=1)] | None
    latency_ms: Annotated[float, msgspec.Meta(ge=0)] | None
    cost_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None


def _are_valid(calls: list[JsonValue]) -> bool:
    """Whether nothing is wrong with any call. Of many, this is told much sooner than what is."""
    try:
        msgspec.convert(calls, list[_ValidCall])
    except (msgspec.ValidationError, OverflowError):
        return False
    return True


def _held(fields: Fields, rules: dict[str, _Rule], within: str) -> Iterator[FieldProblem]:
    for key, rule in rules.items():
        if key not in fields:
            yield FieldProblem(within + key, "the field is missing")
        elif not rule.holds(fields[key]):
            yield FieldProblem(within + key, f"must be {rule.said}, and is {quoted(fields[key])}")


def _call_problems(call: JsonValue, name: str) -> Iterator[FieldProblem]:
    if not isinstance(call, dict):
        yield FieldProblem(name, "must be an object")
        return
    yield from _held(call, _CALL, f"{name}.")
    if not _TOKENS.holds(call.get("cost_tokens")):
        yield FieldProblem(f"{name}.cost_tokens", f"must be {_TOKENS.said}")


def _verification_problems(verification: Fields) -> Iterator[FieldProblem]:
    yield from _held(verification, _VERIFICATION, "verification.")
    commands, codes = verification.get("commands_run"), verification.get("exit_codes")
    if isinstance(commands, list) and not all(isinstance(each, str) for each in commands):
        yield FieldProblem("verification.commands_run", "must be a list of texts")
    if isinstance(codes, list):
        if not all(each is None or is_whole(each) for each in codes):
            yield FieldProblem("verification.exit_codes", "must be a list of whole numbers")
        if isinstance(commands, list) and len(commands) != len(codes):
            message = f"{len(codes)} exit codes for {len(commands)} commands"
            yield FieldProblem("verification.exit_codes", message)


def _file_problems(files: Fields) -> Iterator[FieldProblem]:
    for name in (REPLAY, SUMMARY):
        entry = files.get(name)
        if not isinstance(entry, dict):
            yield FieldProblem(f"files.{name}", "must be an object with `sha256` and `size`")
        elif (
            set(entry) != set(FILE_FIELDS) or not is_hash(entry["sha256"]) or not _COUNT.holds(entry["size"])
        ):
            yield FieldProblem(
                f"files.{name}", "must have a hash as `sha256` and a number of bytes as `size`"
            )
    for name in files.keys() - {REPLAY, SUMMARY}:
        yield FieldProblem(f"files.{quoted(name)}", "names no part of a bundle")
