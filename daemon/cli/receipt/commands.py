"""`runward receipt`: receipts of sessions, and the hashes in them."""

import sys
from typing import Final

import click

from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import fail, print_json, safe

LARGEST: Final = 256 << 20
"""Bytes of a file that `receipt hash` reads."""


@click.group(cls=Group)
def receipt() -> None:
    """Receipts: the proof of what a session did.

    \b
    Example:
      runward receipt hash params.json
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the form and the hash.")
def hash_file(file: str, form: str, as_text: bool, as_json: bool) -> None:
    """The canonical hash of the JSON in FILE, as receipts hold it.

    Exit code 2: the JSON has no canonical form. 3: there is no such file.

    \b
    Example:
      runward receipt hash params.json
    """
    from runward.handlers.bundle.canonical import FORMS, NotCanonical, canonical_bytes, hash_of, parse

    content = _content(file)
    chosen = FORMS[FORMS.index("rfc8785" if form == "rfc8785" else "seed")]
    try:
        value = parse(content)
        text = canonical_bytes(value, chosen) if as_text else b""
        said = hash_of(value, chosen)
    except NotCanonical as error:
        place = f":{error.line}:{error.column}" if error.line is not None else ""
        message = error.message if place else str(error)
        fail(f"{file}{place}: no canonical form: {message}", WRONG_USAGE)
    if as_json:
        print_json({"form": form, "hash": said} | ({"canonical": text.decode()} if as_text else {}))
    elif as_text:
        sys.stdout.buffer.write(text + b"\n")
    else:
        click.echo(said)


def _content(file: str) -> bytes:
    from pathlib import Path

    try:
        with Path(file).open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        fail(f"{safe(file)} can't be read: {error.strerror}", NOT_FOUND)
    if len(content) > LARGEST:
        fail(f"{safe(file)} is larger than {LARGEST >> 20} MiB", WRONG_USAGE)
    return content


@receipt.command("chain")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def chain(context: click.Context, as_json: bool) -> None:
    """Check that every receipt in the store follows from the one before it.

    Exit code 1: the chain is broken.

    \b
    Example:
      runward receipt chain
    """
    from runward.daemon.cli.receipt.chain import print_chain
    from runward.daemon.cli.shell.context import settings_in_force, store_to_read

    with store_to_read(settings_in_force(context)) as connection:
        sys.exit(print_chain(connection, as_json))
