"""Signed orders: what a signature covers, and by whose key an order is signed.

A host whose entry in `[[fleet.accept]]` has a key starts only what that key signed. So who can write to the database starts
nothing there that its origin did not order.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.bundle.signatures import (
    SecretKey,
    ed25519_signature,
    ed25519_verified,
    public_key,
)

_FORM: Final = "runward order v1"
_SIGNATURE: Final = re.compile(r"sig:ed25519:([0-9a-f]{64}):([0-9a-f]{128})", re.ASCII)


class Wanted(NamedTuple):
    """For whom an order is, and when it must begin: seconds from `placed_at` on (Unix seconds, by the origin's clock)."""

    host: str | None
    labels: tuple[str, ...]
    begin_within: float | None
    placed_at: float


def signed(
    origin: str, order: str, wanted: Wanted, body: Mapping[str, JsonValue], key: SecretKey
) -> dict[str, JsonValue]:
    """The body of an order with its signature. Raises `NoLibrary`."""
    said: dict[str, JsonValue] = {**wanted._asdict(), "labels": [*wanted.labels]}
    value = ed25519_signature(key, _message(origin, order, said, body)).hex()
    return {**body, "signed": {**said, "signature": f"sig:ed25519:{public_key(key)}:{value}"}}


def signer_of(origin: str, order: str, body: JsonValue, own: str | None) -> str | None:
    """The key that signed this order for this host, as `[[fleet.accept]]` has it; None if none did. Raises `NoLibrary`."""
    said = body.get("signed") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(said, dict):
        return None
    signature = said.get("signature")
    match = _SIGNATURE.fullmatch(signature) if isinstance(signature, str) else None
    # Whether this host has the labels that are wanted, only the database knows.
    if match is None or said.get("host") not in (own, None):
        return None
    key, value = match.groups()
    covered = {name: each for name, each in said.items() if name != "signature"}
    rest = {name: each for name, each in body.items() if name != "signed"}
    message = _message(origin, order, covered, rest)
    return f"ed25519:{key}" if ed25519_verified(bytes.fromhex(key), bytes.fromhex(value), message) else None


def _message(origin: str, order: str, said: Mapping[str, JsonValue], body: Mapping[str, JsonValue]) -> bytes:
    """What a signature covers, whatever a database did to the form of numbers."""
    covered = [_FORM, origin, order, _plain(dict(said)), _plain(dict(body))]
    return json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()


def _plain(value: JsonValue) -> JsonValue:
    """With whole numbers as such: PostgreSQL writes 1e+23 as a one and 23 zeros."""
    if isinstance(value, float) and value.is_integer():
        return int(Decimal(repr(value)))
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
