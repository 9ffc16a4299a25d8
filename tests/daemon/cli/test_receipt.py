"""`runward receipt` and `replay check`, as people call them on files and directories."""

import hashlib
import json
import shutil
import subprocess
import time
from base64 import b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tests.daemon.cli.calling import Place
from tests.handlers.bundle.bundles import bundle

from runward.config.bundle import SCHEMES
from runward.handlers.bundle.receipt import receipt_text
from runward.handlers.bundle.signatures import SecretKey, named, sign


def _bundle_in(directory: Path, seed: int = 1, *, plain: bool = False) -> Path:
    directory.mkdir(exist_ok=True)
    for name, content in bundle(seed, plain=plain).parts().items():
        (directory / name).write_bytes(content)
    return directory


def test_a_hash_is_printed_in_the_form_that_is_asked_for(place: Place) -> None:
    (place.directory / "x.json").write_text('{"b": 1e21, "a": [1.0]}')
    assert place.call("receipt", "hash", "x.json", "--canonical").out == '{"a":[1.0],"b":1e21}\n'
    assert (
        place.call("receipt", "hash", "x.json", "--canonical", "--form", "rfc8785").out
        == '{"a":[1],"b":1e+21}\n'
    )
    shown = place.call("receipt", "hash", "x.json", "--json").object()
    assert shown["hash"] == place.call("receipt", "hash", "x.json").out.strip()


@pytest.mark.parametrize(
    ("text", "where"), [('{"a": 1,\n "a": 2}', "x.json:2:2"), ("[NaN]", "x.json:1:2"), ("", "x.json:1:1")]
)
def test_what_has_no_canonical_form_ends_with_2_at_its_place(place: Place, text: str, where: str) -> None:
    (place.directory / "x.json").write_text(text)
    refused = place.call("receipt", "hash", "x.json")
    assert (refused.code, refused.out) == (2, "")
    assert f"{where}: no canonical form" in refused.err
    assert place.call("receipt", "hash", "nowhere.json").code == 3


def test_a_bundle_verifies_until_a_byte_changes(place: Place) -> None:
    directory = _bundle_in(place.directory / "bundle")
    assert place.call("receipt", "verify", "./bundle").out.startswith(
        "+ valid: the receipt matches its files (3 hashes, "
    )
    shown = place.call("receipt", "verify", "./bundle", "--json").object()
    assert (shown["valid"], shown["form"], shown["signature"], shown["problems"]) == (
        True,
        "runward",
        "absent",
        [],
    )
    replay = directory / "REPLAY.jsonl"
    lines = replay.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"t":"2026', b'"t":"2027')
    replay.write_bytes(b"".join(lines))
    refused = place.call("receipt", "verify", "./bundle")
    assert refused.code == 1
    assert "REPLAY.jsonl: files.REPLAY.jsonl.sha256: the file was changed" in refused.out
    (directory / "RECEIPT.json").unlink()
    assert place.call("receipt", "verify", "./bundle").code == 3
    assert place.call("receipt", "verify", "./nowhere").code == 3


def test_a_signature_that_is_asked_for_must_be_there(place: Place) -> None:
    _bundle_in(place.directory / "bundle")
    refused = place.call("receipt", "verify", "./bundle", "--require-signature")
    assert refused.code == 1
    assert "the receipt is not signed" in refused.out


def test_a_directory_verifies_without_settings(place: Place) -> None:
    _bundle_in(place.directory / "bundle", plain=True)
    (place.directory / "runward.toml").write_text("this is [not TOML")
    shown = place.call("receipt", "verify", "./bundle", "--json").object()
    assert (shown["valid"], shown["form"]) == (True, "seed")


def test_a_replay_is_checked_line_by_line(place: Place) -> None:
    directory = _bundle_in(place.directory / "bundle")
    right = place.call("replay", "check", "./bundle/REPLAY.jsonl", "--json").object()
    count = len((directory / "REPLAY.jsonl").read_bytes().splitlines())
    assert right == {"valid": True, "events": count, "problems": []}
    with (directory / "REPLAY.jsonl").open("a") as file:
        file.write('{"event": "Late"}\n\x1b[2J\n')
    wrong = place.call("replay", "check", "./bundle")
    assert wrong.code == 1
    assert f"REPLAY.jsonl:{count + 1}: 'Late' comes after SessionEnd" in wrong.out
    assert f"REPLAY.jsonl:{count + 2}: column 1: not JSON" in wrong.out
    assert "\x1b" not in wrong.out
    assert place.call("replay", "check", "nowhere.jsonl").code == 3


def test_a_line_over_64_mib_is_a_problem_and_later_lines_count(place: Place) -> None:
    path = place.directory / "long.jsonl"
    with path.open("wb") as file:
        file.write(b'{"event":"SessionStart","session_id":"s"}\n{"event":"')
        file.truncate(file.tell() + (65 << 20))
        file.seek(0, 2)
        file.write(b'"}\n{"event":"SessionEnd"}\n{"event":"X"}')
    shown = place.call("replay", "check", str(path), "--json").object()
    problems = shown["problems"]
    assert isinstance(problems, list)
    assert [(each["line"], str(each["message"])[:18]) for each in problems if isinstance(each, dict)] == [
        (2, "longer than 64 MiB"),
        (4, "'X' comes after Se"),
    ]
    assert shown["events"] == 3


@pytest.mark.prove
def test_a_repeated_key_beside_a_long_list_is_told_in_seconds(place: Place) -> None:
    path = place.directory / "long.jsonl"
    path.write_bytes(
        b'{"event":"SessionStart","event":"x","l":[' + b"0," * 1_900_000 + b"1" * 300 + b"," + b"0]}\n"
    )
    began = time.monotonic()
    refused = place.call("replay", "check", str(path))
    assert refused.code == 1
    assert "the key 'event' appears twice" in refused.out
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("unit", [b"0,", b"{},", b'"ab",'])
def test_a_line_of_too_many_values_is_a_problem_and_later_lines_count(place: Place, unit: bytes) -> None:
    path = place.directory / "long.jsonl"
    many = b'{"event":"X","l":[' + unit * 2_000_000 + b"0]}"
    path.write_bytes(b'{"event":"SessionStart","session_id":"s"}\n' + many + b'\n{"event":"SessionEnd"}\n')
    shown = place.call("replay", "check", str(path), "--json").object()
    assert shown["problems"] == [
        {"line": 2, "message": "more than 2,000,000 values: it is not read", "severity": "error"}
    ]
    assert shown["events"] == 2


def test_commas_in_a_text_are_no_values(place: Place) -> None:
    path = place.directory / "long.jsonl"
    text = json.dumps("a,[{\\" + '"' + "," * 2_000_001).encode()
    many = b'{"event":"ToolCall","id":"a","params":' + text + b"}"
    path.write_bytes(b'{"event":"SessionStart","session_id":"s"}\n' + many + b'\n{"event":"SessionEnd"}\n')
    assert place.call("replay", "check", str(path), "--json").object()["valid"] is True


def test_a_terminal_obeys_nothing_in_a_problem(place: Place) -> None:
    directory = _bundle_in(place.directory / "bundle", plain=True)
    fields = json.loads((directory / "RECEIPT.json").read_text())
    fields["session_id"] = "\x1b]0;title\x07"
    (directory / "RECEIPT.json").write_text(json.dumps(fields))
    refused = place.call("receipt", "verify", "./bundle")
    assert refused.code == 1
    assert "\x1b" not in refused.out


def test_a_receipt_signed_by_an_authorized_key_is_valid_and_by_another_unknown(place: Place) -> None:
    directory = _bundle_in(place.directory / "bundle")
    made = place.call("receipt", "key", "--create", "ed25519", "--json").object()["keys"]
    assert isinstance(made, list)
    assert isinstance(made[0], dict)
    kept = Path(str(made[0]["path"]))
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    fields = bundle(1).fields
    for secret, state in ((bytes.fromhex(kept.read_text()), "valid"), (b"\7" * 32, "unknown_key")):
        signed = sign(fields, SecretKey("ed25519", secret))
        (directory / "RECEIPT.json").write_bytes(receipt_text(signed))
        shown = place.call("receipt", "verify", "./bundle", "--json").object()
        assert (shown["signature"], shown["valid"]) == (state, True)
    assert place.call("receipt", "verify", "./bundle", "--require-signature").code == 1
    other = named(SecretKey("ed25519", b"\7" * 32))
    assert (
        place.call("receipt", "verify", "./bundle", "--require-signature", "--authorized-key", other).code
        == 0
    )
    assert place.call("receipt", "verify", "./bundle", "--authorized-key", "ed25519:x").code == 2
    settings = place.directory / "runward.toml"
    settings.write_text(f'{settings.read_text()}\n[bundle]\nauthorized_keys = ["{other}"]\n')
    assert place.call("receipt", "verify", "./bundle", "--require-signature").code == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_daemon_signs_each_receipt_where_the_settings_say_so(place: Place, scheme: str) -> None:
    settings = place.directory / "runward.toml"
    settings.write_text(f'{settings.read_text()}\n[bundle]\nsign = "{scheme}"\n')
    place.add_run("one", exit_code=0)
    place.add_run("two", exit_code=3)
    place.daemon_once()
    kept = place.state / "keys" / f"receipt-{scheme}"
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    for session in ("one", "two"):
        told = place.call("receipt", "verify", session, "--require-signature", "--json")
        assert (told.code, told.object()["signature"], told.object()["valid"]) == (0, "valid", True)
        bundled = place.call("session", "show", session, "--json").object()["bundle"]
        assert isinstance(bundled, dict)
        assert (bundled["signature"], bundled["valid"]) == ("valid", True)
    assert place.call("receipt", "chain").code == 0
    kept.unlink()  # whose key it was is not known any more
    assert place.call("receipt", "verify", "one", "--require-signature").code == 1


@pytest.mark.longest
def test_a_receipt_waits_while_the_key_that_signs_it_cannot_be_used(place: Place) -> None:
    settings = place.directory / "runward.toml"
    settings.write_text(f'{settings.read_text()}\n[bundle]\nsign = "ed25519"\n')
    kept = place.state / "keys" / "receipt-ed25519"
    kept.parent.mkdir(parents=True, mode=0o700)
    kept.write_text("no key\n")
    kept.chmod(0o600)
    run = place.add_run("one", exit_code=0)
    place.daemon_once()
    assert not (run / "RECEIPT.json").exists()
    ((why,),) = place.rows("select error from jobs where handler = 'bundle/write' and state = 'waiting'")
    assert str(why).startswith(f"its receipt can't be signed: {kept} does not contain a key")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_finds_the_signature_right_and_that_of_other_bytes_wrong(tmp_path: Path) -> None:
    key = SecretKey("ed25519", bytes(range(32)))
    signed = sign(bundle(1).fields, key)
    _, _, public, signature = str(signed["signature"]).split(":")
    # RFC 8410: what stands before the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo.
    (tmp_path / "key.der").write_bytes(bytes.fromhex("302a300506032b6570032100" + public))
    (tmp_path / "signature").write_bytes(bytes.fromhex(signature))
    message = tmp_path / "message"
    arguments = [
        "-verify",
        "-rawin",
        "-pubin",
        "-keyform",
        "DER",
        "-inkey",
        "key.der",
        "-sigfile",
        "signature",
    ]
    for text, is_right in ((signed["receipt_hash"], True), (f"sha256:{'0' * 64}", False)):
        message.write_text(f"runward-receipt-v1\n{text}")
        ended = subprocess.run(
            ["openssl", "pkeyutl", *arguments, "-in", str(message)],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert (ended.returncode == 0) is is_right, ended.stderr


def test_an_attestation_names_the_parts_and_is_signed_by_our_key(place: Place) -> None:
    directory = _bundle_in(place.directory / "bundle")
    assert "no key yet" in place.call("receipt", "key").err
    assert place.call("receipt", "attest", "./bundle", "--output", "made.json").code == 0
    made = json.loads((place.directory / "made.json").read_text())
    payload = b64decode(made["payload"])
    said = json.loads(payload)
    assert {each["name"]: each["digest"]["sha256"] for each in said["subject"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in bundle(1).parts().items()
    }
    scheme, public = made["signatures"][0]["keyid"].split(":")
    covered = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload)
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
        b64decode(made["signatures"][0]["sig"]), covered
    )
    assert scheme == "ed25519"
    (directory / "PR_SUMMARY.md").write_text("changed")
    refused = place.call("receipt", "attest", "./bundle")
    assert (refused.code, refused.out) == (1, "")


def test_a_key_that_others_can_read_is_refused(place: Place) -> None:
    assert place.call("receipt", "key", "--create", "nostr").out.count("nostr:") == 1
    kept = next((place.directory / "state/keys").iterdir())
    kept.chmod(0o644)
    refused = place.call("receipt", "key")
    assert refused.code == 1
    assert "chmod 600" in refused.err
    kept.chmod(0o600)
    kept.write_text("not a key")
    assert "does not contain a key" in place.call("receipt", "key").err
