"""Signatures of receipts: right ones by authorized keys are valid; what a receipt says itself proves nothing."""

import json
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tests.handlers.bundle.bundles import bundle

from runward.config.bundle import SCHEMES, Scheme
from runward.config.json_value import JsonValue
from runward.handlers.bundle.signatures import (
    NotSignable,
    SecretKey,
    named,
    nostr_event,
    nostr_id,
    sign,
    signature_state,
)

FIELDS = bundle(1).fields
SECRET = bytes(range(1, 33))

BIP_340 = [
    (
        "F9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9",
        "0000000000000000000000000000000000000000000000000000000000000000",
        (
            "E907831F80848D1069A5371B402410364BDF1C5F8307B0084C55F1CE2DCA8215"
            "25F66A4A85EA8B71E482A74F382D2CE5EBEEE8FDB2172F477DF4900D310536C0"
        ),
        True,
    ),
    (
        "DFF1D77F2A671C5F36183726DB2341BE58FEAE1DA2DECED843240F7B502BA659",
        "243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89",
        (
            "6896BD60EEAE296DB48A229FF71DFE071BDE413E6D43F917DC8DCF8C78DE3341"
            "8906D11AC976ABCCB20B091292BFF4EA897EFCB639EA871CFA95F6DE339E4B0A"
        ),
        True,
    ),
    (
        "DFF1D77F2A671C5F36183726DB2341BE58FEAE1DA2DECED843240F7B502BA659",
        "243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89",
        (
            "FFF97BD5755EEEA420453A14355235D382F6472F8568A18B2F057A1460297556"
            "3CC27944640AC607CD107AE10923D9EF7A73C643E166BE5EBEAFA34B1AC553E2"
        ),
        False,
    ),
    (
        "EEFDEA4CDB677750A420FEE807EACF21EB9898AE79B9768766E4FAA04A2D4A34",
        "243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89",
        (
            "6CFF5C3BA86C69EA4B7376F31A9BCB4F74C1976089B2D9963DA2E5543E177769"
            "69E89B4C5564D00349106B8497785DD7D1D713A8AE82B32FA79D5F7FC407D39B"
        ),
        False,
    ),
]
"""BIP-340's own vectors 0, 1, 6 and 5 (a key that is not on the curve)."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_signature_by_an_authorized_key_is_valid_and_by_any_other_unknown(scheme: Scheme) -> None:
    key = SecretKey(scheme, SECRET)
    signed = sign(FIELDS, key)
    assert signature_state(signed, {named(key)}) == "valid"
    assert signature_state(signed, ()) == "unknown_key"
    assert signature_state(signed, {named(SecretKey(scheme, b"\x05" * 32))}) == "unknown_key"
    assert signature_state(FIELDS, {named(key)}) == "absent"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_any_change_makes_a_signature_invalid(scheme: Scheme) -> None:
    key = SecretKey(scheme, SECRET)
    signed = sign(FIELDS, key)
    signature = str(signed["signature"])
    wrong: list[dict[str, JsonValue]] = [
        {**signed, "receipt_hash": f"sha256:{'0' * 64}"},
        {**signed, "receipt_hash": None},
        *({**signed, "signature": each} for each in _spoiled(signature)),
    ]
    assert {signature_state(each, {named(key)}) for each in wrong} == {"invalid"}


def _spoiled(signature: str) -> list[JsonValue]:
    last = "0" if signature[-1] != "0" else "1"
    other = "nostr" if "ed25519" in signature else "ed25519"
    return [
        signature[:-1] + last,
        signature.upper(),
        signature + "\n",
        signature.removeprefix("sig:"),
        f"sig:{other}:" + signature.split(":", 2)[2],
        "sig:ed25519",
        "",
        7,
    ]


def test_ed25519_covers_the_schema_and_the_hash() -> None:
    signed = sign(FIELDS, SecretKey("ed25519", SECRET))
    _, _, public, value = str(signed["signature"]).split(":")
    covered = f"runward-receipt-v1\n{FIELDS['receipt_hash']}".encode()
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(value), covered)


def test_nostr_signs_the_event_of_nip_01() -> None:
    signed = sign(FIELDS, SecretKey("nostr", SECRET))
    event = nostr_event(signed)
    parts = [0, event["pubkey"], event["created_at"], event["kind"], event["tags"], event["content"]]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    assert event["id"] == sha256(text.encode()).hexdigest()
    assert event["kind"] == 30078
    assert event["created_at"] == 1768298732  # date -ud 2026-01-13T10:05:32Z +%s
    assert event["tags"] == [["d", f"runward:{FIELDS['session_id']}"]]
    assert event["content"] == FIELDS["receipt_hash"]
    with pytest.raises(NotSignable):
        nostr_event(FIELDS)


def test_what_has_no_hash_or_end_cannot_be_signed() -> None:
    with pytest.raises(NotSignable):
        sign({**FIELDS, "receipt_hash": None}, SecretKey("ed25519", SECRET))
    with pytest.raises(NotSignable):
        sign({**FIELDS, "completed_at": None}, SecretKey("nostr", SECRET))


@pytest.mark.parametrize(("key", "message", "signature", "is_right"), BIP_340)
def test_schnorr_signatures_are_those_of_bip_340(
    monkeypatch: pytest.MonkeyPatch, key: str, message: str, signature: str, is_right: bool
) -> None:
    monkeypatch.setattr(
        "runward.handlers.bundle.signatures.nostr_id", lambda fields, public: bytes.fromhex(message)
    )
    fields: dict[str, JsonValue] = {**FIELDS, "signature": f"sig:nostr:{key}:{signature}".lower()}
    assert signature_state(fields, ()) == ("unknown_key" if is_right else "invalid")


def test_a_key_shows_its_secret_to_nobody() -> None:
    assert repr(SecretKey("ed25519", SECRET)) == "SecretKey(ed25519)"
    assert len(nostr_id(FIELDS, "00" * 32)) == 32
