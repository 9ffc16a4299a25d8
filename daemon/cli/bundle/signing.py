"""`receipt key` and `receipt attest`: our keys, and what they sign for other programs."""

import os
from typing import NoReturn

import click

from runward.config.bundle import SCHEMES, Scheme
from runward.config.json_value import JsonValue
from runward.daemon.cli.bundle.place import bundle_place
from runward.daemon.cli.bundle.verify import answer_of
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.terminal.output import fail, note, print_json, print_table, safe
from runward.daemon.configuration.extras import how_to_install
from runward.daemon.disk.durable import write_durably
from runward.daemon.disk.receipt_keys import KeyRefused, OwnKey, own_key, own_key_on_first_use
from runward.daemon.rundir.bundle_verifying import part_hashes, receipt_fields
from runward.handlers.bundle.signatures import (
    NoLibrary,
    ed25519_signature,
    envelope,
    named,
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
