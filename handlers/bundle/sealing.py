"""Sealing a receipt: it names the one before it, and its own hash covers both."""

from collections.abc import Mapping

from runward.config.bundle import CanonicalForm
from runward.config.json_value import JsonValue
from runward.handlers.bundle.receipt import receipt_hash, receipt_text


def seal(body: Mapping[str, JsonValue], prev: str | None, form: CanonicalForm) -> tuple[bytes, str]:
    """The text of the receipt, and its hash."""
    receipt: dict[str, JsonValue] = {**body, "prev": prev}
    digest = receipt_hash(receipt, form)
    return receipt_text({**receipt, "receipt_hash": digest, "signature": None}), digest
