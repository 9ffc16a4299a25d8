"""Sealing a receipt: it names the one before it, and its own hash covers both."""

import json
from collections.abc import Mapping

from runward.config.bundle import CanonicalForm
from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import hash_of


def seal(body: Mapping[str, JsonValue], prev: str | None, form: CanonicalForm) -> tuple[bytes, str]:
    """The text of the receipt, and its hash."""
    receipt: dict[str, JsonValue] = {**body, "prev": prev}
    digest = hash_of(receipt, form)
    receipt |= {"receipt_hash": digest, "signature": None}
    return json.dumps(receipt, indent=2, ensure_ascii=False).encode() + b"\n", digest
