"""`receipt sign`: the daemon signs a receipt that is there already, and all else holds on."""

import json
from collections.abc import Iterator
from hashlib import sha256

import coincurve
import pytest
from tests.daemon.cli.calling import Place, Result
from tests.waiting import wait_for


@pytest.fixture
def running(place: Place) -> Iterator[Place]:
    """A place with a daemon and one session that is over, with its receipt."""
    place.add_run("one", exit_code=0)
    place.daemon_once()
    with place.daemon():
        yield place


def signed(place: Place, *options: str) -> Result:
    return place.call("receipt", "sign", "one", "--wait", *options)


def test_a_receipt_is_signed_by_our_key_and_stays_valid(running: Place) -> None:
    receipt = running.runs / "one" / "RECEIPT.json"
    before = json.loads(receipt.read_text())
    told = signed(running, "--json")
    assert (told.code, told.object()["problem"]) == (0, None)
    after = json.loads(receipt.read_text())
    assert after == before | {"signature": told.object()["signature"]}
    assert receipt.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in receipt.parent.iterdir() if "RECEIPT" in path.name} == {"RECEIPT.json"}
    assert running.call("receipt", "verify", "one", "--require-signature").code == 0
    shown = running.call("session", "show", "one", "--json").object()["bundle"]
    assert isinstance(shown, dict)
    assert (shown["valid"], shown["signature"], shown["problem"]) == (True, "valid", None)
    assert running.call("receipt", "chain").code == 0
    exported = running.call("session", "export", "one", "--output", "out")
    assert exported.code == 0, exported.err
    assert running.call("receipt", "verify", "./out", "--require-signature").code == 0
    assert "asked to sign the receipt of attempt 1" in running.call("why", "one").out


def test_signed_again_otherwise_the_later_signature_stands(running: Place) -> None:
    assert signed(running).code == 0
    told = signed(running, "--with", "nostr", "--json")
    event = told.object()
    told_id = [0, event["pubkey"], event["created_at"], event["kind"], event["tags"], event["content"]]
    text = json.dumps(told_id, separators=(",", ":"), ensure_ascii=False).encode()
    assert sha256(text).hexdigest() == event["id"]
    key = coincurve.PublicKeyXOnly(bytes.fromhex(str(event["pubkey"])))
    assert key.verify(bytes.fromhex(str(event["sig"])), bytes.fromhex(str(event["id"])))
    receipt = json.loads((running.runs / "one" / "RECEIPT.json").read_text())
    assert receipt["signature"] == f"sig:nostr:{event['pubkey']}:{event['sig']}"
    assert running.call("receipt", "verify", "one", "--require-signature").code == 0


def test_a_receipt_that_somebody_changed_is_not_signed(running: Place) -> None:
    receipt = running.runs / "one" / "RECEIPT.json"
    changed = receipt.read_text().replace("run.completed.ok", "run.failed.signal")
    receipt.write_text(changed)
    told = signed(running, "--json")
    assert told.code == 1
    assert told.object()["problem"] == "the receipt in the directory is not the one that was recorded"
    assert receipt.read_text() == changed


def test_a_run_that_is_over_and_not_judged_yet_is_to_be_tried_again(place: Place) -> None:
    place.daemon_once()
    place.add_run("one", exit_code=0)
    refused = place.call("receipt", "sign", "one")
    assert (refused.code, refused.err) == (75, "runward: session one is not judged yet: try again\n")


def test_it_is_kept_until_a_daemon_runs(place: Place) -> None:
    place.add_run("one", exit_code=0)
    place.daemon_once()
    refused = signed(place)
    assert refused.code == 75
    told = place.call("receipt", "sign", "one")
    assert (told.code, told.err) == (0, "runward: no daemon is running: it will be done when one starts\n")
    place.daemon_once()
    assert place.call("receipt", "verify", "one", "--require-signature").code == 0


def test_what_has_no_receipt_cannot_be_signed(running: Place) -> None:
    running.add_run("going")
    wait_for(lambda: "going" in running.call("session", "list").out, "a session that runs")
    assert running.call("receipt", "sign", "going").code == 1
    assert running.call("receipt", "sign", "nobody").code == 3
    assert running.call("receipt", "sign", "one", "--attempt", "2").code == 3
