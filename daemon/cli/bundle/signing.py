"""`receipt sign`, `key` and `attest`: asking the daemon to sign a receipt, our keys, and what they sign for other programs."""

import os
import time
import uuid
from pathlib import Path
from typing import NoReturn

import click

from runward.config.bundle import SCHEMES, Scheme
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.bundle.verify import answer_of, bundle_place
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.shell.context import own_settings, settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import find_session
from runward.daemon.cli.shell.request_waiting import refuse_without_daemon, wait_for
from runward.daemon.cli.terminal.output import fail, note, print_json, print_table, safe
from runward.daemon.configuration.extras import how_to_install
from runward.daemon.disk.durable import write_durably
from runward.daemon.disk.receipt_keys import KeyRefused, OwnKey, own_key, own_key_on_first_use
from runward.daemon.inbox.spool import put
from runward.daemon.rundir.bundle_verifying import part_hashes, receipt_fields
from runward.daemon.store import reading, reading_queue
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_bundles import SigningRow, signing
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views.bundles import SessionBundle, session_bundle
from runward.handlers.bundle.signatures import (
    NoLibrary,
    NotSignable,
    ed25519_signature,
    envelope,
    named,
    nostr_event,
    payload_of,
    statement,
)

NO_LIBRARY = f"signatures need more libraries: {how_to_install('sign')}"


def print_keys(context: click.Context, create: str | None, as_json: bool) -> None:
    """Our public keys on stdout."""
    state = own_settings(context).state_dir
    found: list[tuple[Scheme, str, str]] = []
    try:
        for scheme in SCHEMES:
            own = _key(state, scheme) if scheme == create else own_key(state, scheme, os.environ)
            if own is not None:
                found.append((scheme, named(own.key), own.path))
    except (KeyRefused, NoLibrary, OSError) as error:
        _refuse(error)
    if as_json:
        keys: list[JsonValue] = [
            {"scheme": scheme, "public_key": public, "path": path} for scheme, public, path in found
        ]
        print_json({"keys": keys})
    elif found:
        print_table(("KEY", "KEPT IN"), [(public, safe(path)) for _, public, path in found])
    else:
        note("there is no key yet: `runward receipt key --create ed25519` creates one")


def attest_bundle(context: click.Context, target: str, attempt: int | None, output: str | None) -> None:
    """The envelope on stdout or in a file; ends the program if the bundle is not valid."""
    answer = answer_of(context, target, attempt, (), require_signature=False)
    if not answer.valid:
        fail(
            f"nothing is signed: the bundle is not valid (`runward receipt verify {target}` says why)", NOT_SO
        )
    place = bundle_place(context, target, attempt)
    try:
        hashes = part_hashes(place.directory, place.attempt)
        fields = receipt_fields(place.directory, place.attempt)
        own = _key(own_settings(context).state_dir, "ed25519")
        made = payload_of(statement(fields or {}, hashes))
        signed = envelope(made, named(own.key), lambda text: ed25519_signature(own.key, text))
    except (KeyRefused, NoLibrary, OSError) as error:
        _refuse(error)
    if output is None:
        print_json(signed)
        return
    _write(output, signed)


def _write(output: str, signed: dict[str, JsonValue]) -> None:
    import json

    directory, name = os.path.split(os.path.abspath(output))
    try:
        write_durably(directory, name, f"{json.dumps(signed)}\n".encode())
    except OSError as error:
        fail(f"{output} can't be written: {error.strerror}", NOT_FOUND)
    click.echo(f"attested in {safe(output)}")


def _key(state: str, scheme: Scheme) -> OwnKey:
    os.makedirs(state, mode=0o700, exist_ok=True)
    return own_key_on_first_use(state, scheme, os.environ)


def _refuse(error: Exception) -> NoReturn:
    match error:
        case NoLibrary():
            fail(NO_LIBRARY, WRONG_USAGE)
        case OSError():
            fail(f"{error.filename or 'a key'} can't be read: {error.strerror}", TRY_AGAIN)
    fail(str(error), NOT_SO)


def ask_to_sign(
    context: click.Context,
    identifier: str,
    attempt: int | None,
    scheme: Scheme,
    patience: float | None,
    as_json: bool,
) -> int:
    """Put the request; wait `patience` seconds for the result, unless None. Returns the exit code."""
    from runward.daemon.inbox.spool import dump_request
    from runward.handlers.model.bundle import ReceiptSignRequested

    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
        bundle = session_bundle(connection, settings, row, attempt)
    bundle = _with_receipt(row, bundle)
    state = Path(settings.state_dir)
    is_up = holder(state) is not None
    if patience is not None and not is_up:
        refuse_without_daemon()
    request = str(uuid.uuid4())
    asked = ReceiptSignRequested(request, time.time(), row.key, bundle.attempt, scheme)
    put(state, request, dump_request(asked))
    if patience is not None:
        return _say(row, bundle, _wait(settings, request, patience), scheme, as_json)
    if as_json:
        print_json({"session": row.key, "attempt": bundle.attempt, "request": request})
    else:
        click.echo(f"the receipt of session {safe(row.session_id)} will be signed")
    if not is_up:
        note("no daemon is running: it will be done when one starts")
    return GOOD


def _with_receipt(row: SessionRow, bundle: SessionBundle | None) -> SessionBundle:
    """The bundle, which has a receipt or gets one; ends the program if it has none."""
    name = safe(row.session_id)
    if row.not_judged_yet and row.status != "running":
        fail(f"session {name} is not judged yet: try again", TRY_AGAIN)
    if bundle is None:
        fail(f"session {name} is still running: its receipt is made when it is over", NOT_SO)
    if not 1 <= bundle.attempt <= row.attempt:
        fail(f"session {name} has no attempt {bundle.attempt}", NOT_FOUND)
    if bundle.state not in ("pending", "written"):
        fail(f"there is no receipt of {name} that the daemon wrote", NOT_SO)
    return bundle


def _wait(settings: Settings, request: str, patience: float) -> SigningRow:
    def settled() -> SigningRow | None:
        with reading.reading(settings.state_dir) as connection:
            event = reading_queue.event_recorded(connection, request)
            found = None if event is None else signing(connection, event)
        return found if found is not None and found.is_settled else None

    return wait_for(
        settings.state_dir, patience, settled, lambda: "it is not signed yet; the request is kept"
    )


def _say(row: SessionRow, bundle: SessionBundle, came: SigningRow, scheme: Scheme, as_json: bool) -> int:
    if as_json and scheme == "nostr" and came.signature is not None:
        print_json(_event(bundle, came.signature))
    elif as_json:
        told: dict[str, JsonValue] = {"session": row.key, "attempt": bundle.attempt}
        print_json({**told, "signature": came.signature, "problem": came.problem})
    elif came.signature is not None:
        click.echo(f"the receipt of session {safe(row.session_id)} is signed: {safe(came.signature)}")
    if came.problem is not None:
        note(f"the receipt of session {safe(row.session_id)} is not signed: {safe(came.problem)}")
    return GOOD if came.problem is None else NOT_SO


def _event(bundle: SessionBundle, signature: str) -> JsonValue:
    """The NIP-01 event with this signature; ends the program if the receipt no longer exists."""
    try:
        fields = receipt_fields(bundle.directory, bundle.attempt) or {}
        return nostr_event({**fields, "signature": signature})
    except (OSError, NotSignable) as error:
        fail(f"the receipt in {bundle.directory} can't be read again: {error}", NOT_SO)
