"""The receipt of an attempt: its fields, its only valid text, and its hash."""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import Form, hash_of
from runward.handlers.bundle.parts import REPLAY, SUMMARY

SCHEMA: Final = "runward-receipt-v1"

SEED_FIELDS: Final = (
    "session_id",
    "started_at",
    "completed_at",
    "issue_number",
    "plan_hash",
    "tool_calls",
    "verification",
    "final_confidence",
    "policy_bundle_id",
    "signature",
)
"""The fields of every receipt, as the bundle's specification has them."""

ADDED_FIELDS: Final = (
    "schema",
    "layout",
    "attempt",
    "status",
    "reason_code",
    "delivery",
    "event_hash",
    "canonical_form",
    "files",
    "prev",
    "receipt_hash",
)
"""What Runward adds, so that every byte of a bundle can be proven."""

TELLING_FIELDS: Final = frozenset({"schema", "event_hash", "canonical_form", "files", "prev", "receipt_hash"})
"""A receipt with one of these is in Runward's form, and must have everything that Runward adds."""

CALL_FIELDS: Final = (
    "id",
    "tool",
    "params_hash",
    "output_hash",
    "step_utility",
    "latency_ms",
    "cost_tokens",
)
VERIFICATION_FIELDS: Final = ("commands_run", "exit_codes", "verification_delta")
FILE_FIELDS: Final = ("sha256", "size")

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
    text = ",".join(f"{_dumps(key)}:{_in_pieces(value)}" for key, value in ordered.items())
    return msgspec.json.format(f"{{{text}}}".encode(), indent=2) + b"\n"


def _in_pieces(value: JsonValue) -> str:
    """The JSON of a value. A long list is written in pieces: other threads wait as long as one is being written."""
    if not isinstance(value, list) or len(value) <= _PIECE:
        return _dumps(value)
    pieces = (value[first : first + _PIECE] for first in range(0, len(value), _PIECE))
    return f"[{','.join(_dumps(piece)[1:-1] for piece in pieces)}]"


def receipt_hash(fields: Mapping[str, JsonValue], form: Form) -> str:
    """The hash of the receipt without `receipt_hash` and `signature`. Raises `NotCanonical`."""
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
    whole: dict[str, JsonValue] = {**fields, "schema": SCHEMA, "canonical_form": form, "prev": prev}
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
