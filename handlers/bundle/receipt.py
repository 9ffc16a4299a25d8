"""The receipt of an attempt: its fields and whether they are valid, its only valid text, and its hash."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec

from runward.config.bundle_schema import (
    ADDED_FIELDS,
    CALL_FIELDS,
    FILE_FIELDS,
    RECEIPT,
    SEED_FIELDS,
    TELLING_FIELDS,
    VERIFICATION_FIELDS,
)
from runward.config.json_value import JsonValue
from runward.config.problem import quoted
from runward.handlers.bundle.canonical import FORMS, Form, hash_of
from runward.handlers.bundle.parts import REPLAY, SUMMARY
from runward.handlers.bundle.replay_lines import datetime_of, is_number, is_whole

_ORDER: Final = (*SEED_FIELDS[:-1], *ADDED_FIELDS, "signature")
_OUTSIDE_THE_HASH: Final = frozenset({"receipt_hash", "signature"})
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_PIECE: Final = 200
"""Calls of a receipt that are written at once."""
_dumps: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def receipt_text(fields: Mapping[str, JsonValue]) -> bytes:
    """The only valid text of a receipt: its fields in order, then others by name; indented by two, a newline last."""
    ordered = _ordered(fields, _ORDER)
    calls = ordered.get("tool_calls")
    if isinstance(calls, list):
        ordered["tool_calls"] = [
            _ordered(each, CALL_FIELDS) if isinstance(each, dict) else each for each in calls
        ]
    verification = ordered.get("verification")
    if isinstance(verification, dict):
        ordered["verification"] = _ordered(verification, VERIFICATION_FIELDS)
    files = ordered.get("files")
    if isinstance(files, dict):
        ordered["files"] = {
            name: _ordered(entry, FILE_FIELDS) if isinstance(entry, dict) else entry
            for name, entry in _ordered(files, (REPLAY, SUMMARY)).items()
        }
    # The text has one form, so that a receipt can be compared byte by byte. Fields that others added come after ours,
    # by name.
    return msgspec.json.format(_json_of(ordered).encode(), indent=2) + b"\n"


def _json_of(fields: Mapping[str, JsonValue]) -> str:
    """The JSON of an object: at once, unless it has a long list."""
    if not any(isinstance(value, list) and len(value) > _PIECE for value in fields.values()):
        return _dumps(fields)
    return f"{{{','.join(f'{_dumps(key)}:{_in_pieces(value)}' for key, value in fields.items())}}}"


def _in_pieces(value: JsonValue) -> str:
    """The JSON of a value. A long list is written in pieces: other threads wait as long as one is being written."""
    if not isinstance(value, list) or len(value) <= _PIECE:
        return _dumps(value)
    pieces = (value[first : first + _PIECE] for first in range(0, len(value), _PIECE))
    return f"[{','.join(_dumps(piece)[1:-1] for piece in pieces)}]"


def receipt_hash(fields: Mapping[str, JsonValue], form: Form) -> str:
    """The hash of the receipt without `receipt_hash` and `signature`. Raises `NotCanonical`."""
    # The signature is made of the hash, and may come later. So the hash can't cover it.
    return hash_of({key: value for key, value in fields.items() if key not in _OUTSIDE_THE_HASH}, form)


class SealedReceipt(NamedTuple):
    """A complete, unsigned receipt, and its hash."""

    fields: dict[str, JsonValue]
    receipt_hash: str

    @property
    def text(self) -> bytes:
        """Its only valid text."""
        return receipt_text(self.fields)


def sealed(fields: Mapping[str, JsonValue], prev: str | None, form: Form) -> SealedReceipt:
    """The receipt that follows `prev` in the chain, with its form and its hash. Raises `NotCanonical`."""
    whole: dict[str, JsonValue] = {**fields, "schema": RECEIPT, "canonical_form": form, "prev": prev}
    # `prev` and the canonical form are in the hash. So a receipt can't be removed, exchanged or read in another form
    # without breaking the one after it.
    digest = receipt_hash(whole, form)
    return SealedReceipt({**whole, "receipt_hash": digest, "signature": None}, digest)


def file_entry(sha256_hex: str, size: int) -> JsonValue:
    """A part's entry in `files`."""
    return {"sha256": f"sha256:{sha256_hex}", "size": size}


def is_hash(value: JsonValue) -> bool:
    """Whether it is a hash as bundles write them."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _ordered(fields: Mapping[str, JsonValue], order: tuple[str, ...]) -> dict[str, JsonValue]:
    if isinstance(fields, dict) and tuple(fields) == order:
        return fields
    known = {key: fields[key] for key in order if key in fields}
    return known | {key: fields[key] for key in sorted(fields.keys() - known.keys())}


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
    description: str


def _or_null(rule: _Rule) -> _Rule:
    return _Rule(lambda value: value is None or rule.holds(value), f"{rule.description} or null")


_TEXT: Final = _Rule(lambda value: isinstance(value, str), "a text")
_NAME: Final = _Rule(lambda value: isinstance(value, str) and value != "", "a text that is not empty")
_A_HASH: Final = _Rule(is_hash, "`sha256:` and 64 lower-case hexadecimal digits")
_EVENT_HASH: Final = _Rule(
    lambda value: is_hash(value) or is_hash(f"sha256:{value}"),
    "the hash of an event: 64 lower-case hexadecimal digits",
)
_TIME: Final = _Rule(lambda value: datetime_of(value) is not None, "a time in ISO 8601")
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
    "plan_hash": _or_null(_A_HASH),
    "tool_calls": _LIST,
    "verification": _OBJECT,
    "final_confidence": _or_null(_CONFIDENCE),
    "policy_bundle_id": _TEXT,
    "signature": _or_null(_TEXT),
}
_CALL: Final = {
    "id": _TEXT,
    "tool": _TEXT,
    "params_hash": _or_null(_A_HASH),
    "output_hash": _or_null(_A_HASH),
    "step_utility": _or_null(_UTILITY),
    "latency_ms": _or_null(_LATENCY),
}
_VERIFICATION: Final = {
    "commands_run": _LIST,
    "exit_codes": _LIST,
    "verification_delta": _or_null(_NUMBER),
}
_ADDED: Final = {
    "schema": _Rule(lambda value: value == RECEIPT, f"`{RECEIPT}`"),
    "layout": _NAME,
    "attempt": _Rule(lambda value: is_whole(value) and value >= 1, "a whole number from 1"),
    "status": _NAME,
    "reason_code": _or_null(_TEXT),
    "delivery": _or_null(_TEXT),
    "event_hash": _or_null(_EVENT_HASH),
    "canonical_form": _Rule(lambda value: value in FORMS, "`seed` or `rfc8785`"),
    "files": _OBJECT,
    "prev": _or_null(_A_HASH),
    "receipt_hash": _A_HASH,
}
assert _SEED.keys() == set(SEED_FIELDS)
assert _ADDED.keys() == set(ADDED_FIELDS)


def form_of(fields: Fields) -> ReceiptForm:
    """Runward's form if one of its additions is present."""
    # One of our fields is enough: otherwise a receipt would be checked less strictly once another one is removed from
    # it.
    return "runward" if fields.keys() & TELLING_FIELDS else "seed"


def hash_form_of(fields: Fields) -> Form:
    """The canonical form of the hashes in a receipt; the seed's where it names none."""
    return "rfc8785" if fields.get("canonical_form") == "rfc8785" else "seed"


def field_problems(fields: Fields) -> Iterator[FieldProblem]:
    """All problems of the fields, each checked on its own."""
    yield from _held(fields, _SEED, "")
    calls = fields.get("tool_calls")
    # That nothing is wrong with thousands of calls is told much sooner than what is wrong.
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
            yield FieldProblem(within + key, f"must be {rule.description}, and is {quoted(fields[key])}")


def _call_problems(call: JsonValue, name: str) -> Iterator[FieldProblem]:
    if not isinstance(call, dict):
        yield FieldProblem(name, "must be an object")
        return
    yield from _held(call, _CALL, f"{name}.")
    if not _TOKENS.holds(call.get("cost_tokens")):
        yield FieldProblem(f"{name}.cost_tokens", f"must be {_TOKENS.description}")


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
