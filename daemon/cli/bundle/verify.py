"""`receipt verify`: the answer for a directory or a session, for people and for programs."""

from collections.abc import Sequence

import click

from runward.config.bundle import PUBLIC_KEY
from runward.config.counting import counted
from runward.daemon.cli.bundle.place import BundlePlace, bundle_place
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.shell.context import read_settings_of
from runward.daemon.cli.terminal.output import coloured, fail, note, print_json, safe
from runward.daemon.rundir.bundle_verifying import verify_bundle
from runward.handlers.bundle.verify import Verified


def answer_of(
    context: click.Context,
    target: str,
    attempt: int | None,
    keys: Sequence[str],
    require_signature: bool,
) -> Verified:
    """Verify the bundle; ends the program if there is no receipt."""
    for key in keys:
        if PUBLIC_KEY.fullmatch(key) is None:
            fail(f"{key!r} is not a key: write ed25519: or nostr: and 64 hexadecimal digits", WRONG_USAGE)
    place = bundle_place(context, target, attempt)
    try:
        answer = verify_bundle(
            place.directory,
            place.attempt,
            lambda: _authorized(context, keys),
            require_signature,
            place.recorded_of,
        )
    except OSError as error:
        if isinstance(error, FileNotFoundError) and place.session_id is not None:
            fail(_no_receipt(place), NOT_FOUND)
        fail(f"{place.directory} can't be read: {error.strerror}", NOT_FOUND)
    if answer is None:
        fail(_no_receipt(place), NOT_FOUND)
    return answer


def _authorized(context: click.Context, keys: Sequence[str]) -> frozenset[str]:
    """The keys that were given, those of the settings, and our own if this machine has any."""
    from runward.daemon.views.receipts import own_keys_that_count

    settings = read_settings_of(context.find_root().obj["config"]).value
    if settings is None:
        return frozenset(keys)
    return own_keys_that_count(settings.state_dir, note).union(settings.authorized_keys, keys)


def _no_receipt(place: BundlePlace) -> str:
    if place.session_id is None:
        return f"there is no RECEIPT.json in {place.directory}"
    return f"there is no receipt of attempt {place.attempt} of {place.session_id} in {place.directory}"


def print_answer(answer: Verified, as_json: bool) -> None:
    """The answer on stdout."""
    if as_json:
        print_json(answer.as_json())
        return
    if answer.form == "seed":
        compared = "" if answer.is_compared else ", and the store doesn't know it"
        shown = f"seed form: this proves less. Its parts are checked against each other, but anybody may have written or changed them{compared}"
        click.echo(coloured("warning", shown))
    for each in answer.problems:
        if each.severity == "error":
            place = each.part if each.line is None else f"{each.part}:{each.line}"
            field = f"{each.field}: " if each.field else ""
            click.echo(safe(f"{place}: {field}{each.message}"))
    hashes = answer.hashes
    word = coloured("ok", "valid") if answer.valid else coloured("invalid")
    form = f" ({answer.form} form)" if answer.form is not None else ""
    known = (
        f"{counted(hashes.parts, 'hash', 'hashes')} of the parts and {hashes.recomputed} of values recomputed"
    )
    left_out = [
        f"{count} {what}"
        for count, what in ((hashes.redacted, "redacted"), (hashes.cut, "cut"), (hashes.unknown, "unknown"))
        if count
    ]
    compared = "compared with the store" if answer.is_compared else "not known to the store"
    said = ", ".join([known, *left_out, compared, f"signature {answer.signature.replace('_', ' ')}"])
    click.echo(f"{word}{form}: {said}")
