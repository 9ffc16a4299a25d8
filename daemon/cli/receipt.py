"""`runward receipt`: receipts of sessions, their hashes, our keys, and what the daemon signs with them."""

import json
import os
import sqlite3
import sys
from typing import Final, NoReturn

import click

from runward.config.bundle import SCHEMES, Scheme
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.receipt_verify import answer_of, bundle_place, print_answer, print_chain
from runward.daemon.cli.session.finding import find_session
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import (
    ask_daemon,
    need_daemon,
    new_request,
    note_without_daemon,
    wait_for,
)
from runward.daemon.cli.shell.context import own_settings, pass_settings, store_to_read
from runward.daemon.cli.terminal.options import (
    NamedPath,
    attempt_option,
    content_of,
    json_option,
    timeout_option,
)
from runward.daemon.cli.terminal.output import (
    fail,
    note,
    print_json,
    print_one,
    print_table,
    print_text,
    safe,
)
from runward.daemon.configuration.extras import how_to_install
from runward.daemon.disk.durable import write_durably
from runward.daemon.disk.receipt_keys import KeyRefused, OwnKey, own_key, own_key_on_first_use
from runward.daemon.rundir.bundle_verifying import part_hashes, receipt_fields
from runward.daemon.store.tables import events
from runward.daemon.store.tables.receipts import SigningRow, signing
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.bundles import SessionBundle, session_bundle
from runward.handlers.bundle.canonical import FORMS, NotCanonical, canonical_bytes, hash_of, parse
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
from runward.handlers.model.bundle import ReceiptSignRequested

LARGEST: Final = 256 << 20
"""Bytes of a file that `receipt hash` reads."""


@click.group(cls=Group)
def receipt() -> None:
    """Verify, sign and export receipts: the proof of what a session did.

    \b
    Example:
      runward receipt verify ./bundle
    """


@receipt.command("hash")
@click.argument("file", type=NamedPath(readable=False))
@click.option(
    "--form",
    type=click.Choice(["seed", "rfc8785"]),
    default="seed",
    show_default=True,
    help="The canonical form.",
)
@click.option("--canonical", "as_text", is_flag=True, help="Print the canonical text instead of its hash.")
@json_option("Print JSON: the form and the hash.")
def hash_file(file: str, form: str, as_text: bool, as_json: bool) -> None:
    """Print the canonical hash of the JSON in FILE, as in receipts.

    Exit code 2: the JSON has no canonical form. 3: no such file.

    \b
    Example:
      runward receipt hash params.json
    """
    content = content_of(file, LARGEST)
    chosen = FORMS[FORMS.index("rfc8785" if form == "rfc8785" else "seed")]
    try:
        value = parse(content)
        text = canonical_bytes(value, chosen) if as_text else b""
        digest = hash_of(value, chosen)
    except NotCanonical as error:
        place = f":{error.line}:{error.column}" if error.line is not None else ""
        message = error.message if place else str(error)
        fail(f"{file}{place}: no canonical form: {message}", WRONG_USAGE)
    if as_json:
        answer: dict[str, JsonValue] = {"form": form, "hash": digest}
        print_json({**answer, "canonical": text.decode()} if as_text else answer)
    elif as_text:
        sys.stdout.buffer.write(text + b"\n")
    else:
        click.echo(digest)


@receipt.command()
@click.argument("target", metavar="ID|DIR", shell_complete=completing.sessions)
@attempt_option
@click.option("--require-signature", is_flag=True, help="Fail unless an authorized key signed it.")
@click.option(
    "--authorized-key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="A key whose signatures count, in addition to the daemon's own: ed25519:HEX or nostr:HEX.",
)
@json_option()
@click.pass_context
def verify(
    context: click.Context,
    target: str,
    attempt: int | None,
    require_signature: bool,
    keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """Recompute every hash of a bundle, and report what was changed.

    ID is a session, DIR a directory with the three parts; an existing directory takes precedence. A directory
    needs neither store nor settings. Exit code 1: the bundle is not valid. 3: there is no RECEIPT.json.

    \b
    Example:
      runward receipt verify ./bundle
      runward receipt verify @last
    """
    answer = answer_of(context, target, attempt, keys, require_signature)
    print_answer(answer, as_json)
    sys.exit(GOOD if answer.valid else NOT_SO)


@receipt.command()
@click.option(
    "--create",
    type=click.Choice(["ed25519", "nostr"]),
    help="Create the key of this kind if there is none yet.",
)
@json_option()
@click.pass_context
def key(context: click.Context, create: str | None, as_json: bool) -> None:
    """Show the daemon's public keys for receipts, and where the keys are stored.

    \b
    Example:
      runward receipt key --create ed25519
    """
    state = own_settings(context).state_dir
    keys_there: list[tuple[Scheme, str, str]] = []
    try:
        for scheme in SCHEMES:
            own = _key(state, scheme) if scheme == create else own_key(state, scheme, os.environ)
            if own is not None:
                keys_there.append((scheme, named(own.key), own.path))
    except (KeyRefused, NoLibrary, OSError) as error:
        _refuse(error)
    if as_json:
        keys: list[JsonValue] = [
            {"scheme": scheme, "public_key": public, "path": path} for scheme, public, path in keys_there
        ]
        print_json({"keys": keys})
    elif keys_there:
        print_table(("KEY", "KEPT IN"), [(public, safe(path)) for _, public, path in keys_there])
    else:
        note("there is no key yet: `runward receipt key --create ed25519` creates one")


@receipt.command("sign")
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option(
    "--with",
    "scheme",
    type=click.Choice(SCHEMES),
    default="ed25519",
    show_default=True,
    help="The kind of signature.",
)
@attempt_option
@click.option("--wait", is_flag=True, help="Wait until it is signed.")
@timeout_option()
@json_option("Print the result as JSON; with nostr, wait and print the NIP-01 event.")
@pass_settings
def sign_receipt(
    settings: Settings,
    identifier: str,
    scheme: Scheme,
    attempt: int | None,
    wait: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Have the daemon sign a session's receipt with its own key.

    An existing signature is replaced.

    The key is created on first use. Exit code 1: there is no receipt, or it can't be signed. 75: the session is not
    judged yet, or no daemon is running. 124: not signed in time; the request remains.

    \b
    Example:
      runward receipt sign @last --wait
    """
    # The NIP-01 event has the signature, so there is nothing to print before it.
    patience = timeout if wait or (as_json and scheme == "nostr") else None
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
        bundle = session_bundle(connection, settings, row, attempt)
    bundle = _with_receipt(row, bundle)
    if patience is not None:
        need_daemon(settings)
    request = ask_daemon(settings, new_request(ReceiptSignRequested, row.key, bundle.attempt, scheme))
    if patience is not None:
        sys.exit(_say(row, bundle, _wait(settings, request, patience), scheme, as_json))
    print_one(
        as_json,
        {"session": row.key, "attempt": bundle.attempt, "request": request},
        f"the receipt of session {safe(row.session_id)} will be signed",
    )
    note_without_daemon(settings)


@receipt.command()
@click.argument("target", metavar="ID|DIR", shell_complete=completing.sessions)
@attempt_option
@click.option("--output", type=NamedPath(), metavar="FILE", help="The file to write (default: stdout).")
@json_option("Print JSON (always on).")
@click.pass_context
def attest(
    context: click.Context, target: str, attempt: int | None, output: str | None, as_json: bool
) -> None:
    """Write a signed in-toto statement about a bundle.

    It is in a DSSE envelope, signed with the daemon's Ed25519 key.

    The key is created on first use. Exit code 1: the bundle is invalid, so nothing is signed. 3: no such bundle.

    \b
    Example:
      runward receipt attest ./bundle --output bundle.intoto.json
    """
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


@receipt.command("chain")
@json_option()
@pass_settings
def follow_chain(settings: Settings, as_json: bool) -> None:
    """Check that each receipt follows from the one before it.

    Exit code 1: the chain is broken.

    \b
    Example:
      runward receipt chain
    """
    sys.exit(print_chain(settings, as_json))


NO_LIBRARY = f"signatures need more libraries: {how_to_install('sign')}"


def _write(output: str, signed: dict[str, JsonValue]) -> None:
    directory, name = os.path.split(os.path.abspath(output))
    try:
        write_durably(directory, name, f"{json.dumps(signed)}\n".encode())
    except OSError as error:
        fail(f"{output} can't be written: {error.strerror}", NOT_FOUND)
    print_text(f"attested in {safe(output)}")


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
    def settled(connection: sqlite3.Connection) -> SigningRow | None:
        event = events.event_recorded(connection, request)
        signed = None if event is None else signing(connection, event)
        return signed if signed is not None and signed.is_settled else None

    return wait_for(settings, patience, settled, lambda: "it is not signed yet; the request is kept")


def _say(
    row: SessionRow, bundle: SessionBundle, signing_row: SigningRow, scheme: Scheme, as_json: bool
) -> int:
    if as_json and scheme == "nostr" and signing_row.signature is not None:
        print_json(_event(bundle, signing_row.signature))
    elif as_json:
        answer: dict[str, JsonValue] = {"session": row.key, "attempt": bundle.attempt}
        print_json({**answer, "signature": signing_row.signature, "problem": signing_row.problem})
    elif signing_row.signature is not None:
        print_text(f"the receipt of session {safe(row.session_id)} is signed: {safe(signing_row.signature)}")
    if signing_row.problem is not None:
        note(f"the receipt of session {safe(row.session_id)} is not signed: {safe(signing_row.problem)}")
    return GOOD if signing_row.problem is None else NOT_SO


def _event(bundle: SessionBundle, signature: str) -> JsonValue:
    """The NIP-01 event with this signature; ends the program if the receipt no longer exists."""
    try:
        fields = receipt_fields(bundle.directory, bundle.attempt) or {}
        return nostr_event({**fields, "signature": signature})
    except (OSError, NotSignable) as error:
        fail(f"the receipt in {bundle.directory} can't be read again: {error}", NOT_SO)
