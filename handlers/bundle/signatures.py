"""Signatures of receipts: Ed25519, and Nostr's (NIP-01, BIP-340). A signature counts only by an authorized key.

The libraries come with the extra `sign`, and are loaded only when there is a signature.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.bundle import Scheme
from runward.config.bundle_schema import RECEIPT
from runward.config.json_value import JsonValue
from runward.handlers.bundle.receipt import is_hash
from runward.handlers.bundle.replay_lines import datetime_of
from runward.handlers.bundle.verify import SignatureState

if TYPE_CHECKING:
    from types import ModuleType

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


SECRET_BYTES: Final = 32
NOSTR_KIND: Final = 30078
"""Nostr's kind for data of an application."""
_SIGNATURE: Final = re.compile(r"sig:(ed25519|nostr):([0-9a-f]{64}):([0-9a-f]{128})", re.ASCII)


class NoLibrary(Exception):
    """The libraries that check and make signatures are not installed."""


class NotSignable(Exception):
    """The receipt lacks what a signature of this kind covers."""


class SecretKey(NamedTuple):
    """A key that signs: its 32 bytes, which are never printed."""

    scheme: Scheme
    secret: bytes

    def __repr__(self) -> str:
        return f"SecretKey({self.scheme})"


def signature_state(fields: dict[str, JsonValue] | None, authorized: Collection[str]) -> SignatureState:
    """What the signature of a receipt is worth. Raises `NoLibrary`."""
    signature = fields.get("signature") if fields is not None else None
    if fields is None or signature is None:
        return "absent"
    # The key in a signature proves nothing: it counts only if it is an authorized one.
    match = _SIGNATURE.fullmatch(signature) if isinstance(signature, str) else None
    if match is None:
        return "invalid"
    scheme, key, value = match.groups()
    try:
        message = _ed25519_message(fields) if scheme == "ed25519" else nostr_id(fields, key)
    except NotSignable:
        return "invalid"
    verified = ed25519_verified if scheme == "ed25519" else _nostr_verified
    if not verified(bytes.fromhex(key), bytes.fromhex(value), message):
        return "invalid"
    return "valid" if f"{scheme}:{key}" in authorized else "unknown_key"


def sign(fields: dict[str, JsonValue], key: SecretKey) -> dict[str, JsonValue]:
    """The receipt with its signature, which is the same each time. Raises `NotSignable` and `NoLibrary`."""
    public = public_key(key)
    if key.scheme == "ed25519":
        value = _ed25519_private(key.secret).sign(_ed25519_message(fields))
    else:
        value = _coincurve().PrivateKey(key.secret).sign_schnorr(nostr_id(fields, public), None)
    return {**fields, "signature": f"sig:{key.scheme}:{public}:{value.hex()}"}


def public_key(key: SecretKey) -> str:
    """The public key in lower-case hexadecimal. Raises `NoLibrary`."""
    if key.scheme == "nostr":
        public: bytes = _coincurve().PublicKeyXOnly.from_secret(key.secret).format()
        return public.hex()
    return _ed25519_private(key.secret).public_key().public_bytes_raw().hex()


def named(key: SecretKey) -> str:
    """The public key as `authorized_keys` has it. Raises `NoLibrary`."""
    return f"{key.scheme}:{public_key(key)}"


def ed25519_signature(key: SecretKey, message: bytes) -> bytes:
    """A bare signature, for an attestation. Raises `NoLibrary`."""
    return _ed25519_private(key.secret).sign(message)


def nostr_event(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The NIP-01 event of a receipt that is signed by Nostr. Raises `NotSignable`."""
    signature = fields.get("signature")
    match = _SIGNATURE.fullmatch(signature) if isinstance(signature, str) else None
    if match is None or match.group(1) != "nostr":
        raise NotSignable("the receipt is not signed with Nostr")
    _, public, value = match.groups()
    created_at, tags, content = _nostr_parts(fields)
    return {
        "id": nostr_id(fields, public).hex(),
        "pubkey": public,
        "created_at": created_at,
        "kind": NOSTR_KIND,
        "tags": tags,
        "content": content,
        "sig": value,
    }


def nostr_id(fields: dict[str, JsonValue], public: str) -> bytes:
    """The id of the receipt's NIP-01 event, which is what is signed. Raises `NotSignable`."""
    created_at, tags, content = _nostr_parts(fields)
    event = [0, public, created_at, NOSTR_KIND, tags, content]
    return sha256(json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()).digest()


def _nostr_parts(fields: dict[str, JsonValue]) -> tuple[int, list[JsonValue], str]:
    completed = datetime_of(fields.get("completed_at"))
    session_id = fields.get("session_id")
    if completed is None:
        raise NotSignable("the receipt has no `completed_at`")
    if not isinstance(session_id, str):
        raise NotSignable("the receipt has no `session_id`")
    return int(completed.timestamp()), [["d", f"runward:{session_id}"]], _receipt_hash(fields)


def _ed25519_message(fields: dict[str, JsonValue]) -> bytes:
    return f"{RECEIPT}\n{_receipt_hash(fields)}".encode()


def _receipt_hash(fields: dict[str, JsonValue]) -> str:
    stated = fields.get("receipt_hash")
    if not isinstance(stated, str) or not is_hash(stated):
        raise NotSignable("the receipt has no `receipt_hash`")
    return stated


def ed25519_verified(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether this is a bare signature of the message by this public key. Raises `NoLibrary`."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise NoLibrary from error
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _nostr_verified(key: bytes, signature: bytes, message: bytes) -> bool:
    library = _coincurve()
    try:
        return bool(library.PublicKeyXOnly(key).verify(signature, message))
    except ValueError:  # not a point on the curve
        return False


def _ed25519_private(secret: bytes) -> "Ed25519PrivateKey":
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise NoLibrary from error
    return Ed25519PrivateKey.from_private_bytes(secret)


def _coincurve() -> "ModuleType":
    try:
        import coincurve
    except ImportError as error:
        raise NoLibrary from error
    return coincurve


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
