"""`receipt attest`: an in-toto statement about a bundle's parts, in a DSSE envelope."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final

from runward.config.json_value import JsonValue

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "urn:runward:receipt:v1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_OF_RECEIPT: Final = (
    "session_id",
    "started_at",
    "completed_at",
    "layout",
    "attempt",
    "status",
    "reason_code",
    "delivery",
    "event_hash",
    "canonical_form",
    "receipt_hash",
    "prev",
)


def statement(fields: Mapping[str, JsonValue], parts: Mapping[str, str]) -> dict[str, JsonValue]:
    """The statement: `parts` are the SHA-256 of each part by name, in hex."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in parts.items()],
        "predicateType": PREDICATE,
        "predicate": {key: fields[key] for key in _OF_RECEIPT if key in fields},
    }


def envelope(payload: bytes, key_id: str, sign: Callable[[bytes], bytes]) -> dict[str, JsonValue]:
    """The DSSE envelope of a payload, signed by one key."""
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": b64encode(payload).decode(),
        "signatures": [{"keyid": key_id, "sig": b64encode(sign(signed_text(payload))).decode()}],
    }


def payload_of(made: Mapping[str, JsonValue]) -> bytes:
    """A statement as it is signed."""
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()


def signed_text(payload: bytes) -> bytes:
    """What a DSSE signature covers: its pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
