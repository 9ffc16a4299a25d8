"""`runward receipt`: receipts of sessions, and the hashes in them."""

import sys
from typing import Final

import click

from runward.config.bundle import SCHEMES, Scheme
from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import GOOD, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath, content_of
from runward.daemon.cli.terminal.options import timeout_option
from runward.daemon.cli.terminal.output import fail, print_json

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
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the form and the hash.")
def hash_file(file: str, form: str, as_text: bool, as_json: bool) -> None:
    """Print the canonical hash of the JSON in FILE, as in receipts.

    Exit code 2: the JSON has no canonical form. 3: no such file.

    \b
    Example:
      runward receipt hash params.json
    """
    from runward.handlers.bundle.canonical import FORMS, NotCanonical, canonical_bytes, hash_of, parse

    content = content_of(file, LARGEST)
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
        answer: dict[str, JsonValue] = {"form": form, "hash": said}
        print_json({**answer, "canonical": text.decode()} if as_text else answer)
    elif as_text:
        sys.stdout.buffer.write(text + b"\n")
    else:
        click.echo(said)


@receipt.command()
@click.argument("target", metavar="ID|DIR", shell_complete=completing.sessions)
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="The attempt (default: the last one).")
@click.option("--require-signature", is_flag=True, help="Fail unless an authorized key signed it.")
@click.option(
    "--authorized-key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="A key whose signatures count, in addition to the daemon's own: ed25519:HEX or nostr:HEX.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    from runward.daemon.cli.bundle.verify import answer_of, print_answer

    answer = answer_of(context, target, attempt, keys, require_signature)
    print_answer(answer, as_json)
    sys.exit(GOOD if answer.valid else NOT_SO)


@receipt.command()
@click.option(
    "--create",
    type=click.Choice(["ed25519", "nostr"]),
    help="Create the key of this kind if there is none yet.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def key(context: click.Context, create: str | None, as_json: bool) -> None:
    """Show the daemon's public keys for receipts, and where the keys are stored.

    \b
    Example:
      runward receipt key --create ed25519
    """
    from runward.daemon.cli.bundle.signing import print_keys

    print_keys(context, create, as_json)


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
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="The attempt (default: the last one).")
@click.option("--wait", is_flag=True, help="Wait until it is signed.")
@timeout_option()
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the result as JSON; with nostr, wait and print the NIP-01 event.",
)
@click.pass_context
def sign_receipt(
    context: click.Context,
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
    from runward.daemon.cli.bundle.signing import ask_to_sign

    patience = timeout if wait or (as_json and scheme == "nostr") else None
    sys.exit(ask_to_sign(context, identifier, attempt, scheme, patience, as_json))


@receipt.command()
@click.argument("target", metavar="ID|DIR", shell_complete=completing.sessions)
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="The attempt (default: the last one).")
@click.option("--output", type=NamedPath(), metavar="FILE", help="The file to write (default: stdout).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (always on).")
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
    from runward.daemon.cli.bundle.signing import attest_bundle

    attest_bundle(context, target, attempt, output)


@receipt.command("chain")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def follow_chain(context: click.Context, as_json: bool) -> None:
    """Check that each receipt follows from the one before it.

    Exit code 1: the chain is broken.

    \b
    Example:
      runward receipt chain
    """
    from runward.daemon.cli.bundle.verify import print_chain
    from runward.daemon.cli.shell.context import settings_in_force, store_to_read

    with store_to_read(settings_in_force(context)) as connection:
        sys.exit(print_chain(connection, as_json))
