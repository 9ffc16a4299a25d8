"""`receipt verify` and `receipt chain`: from what people type to the bundle that they mean, and whether it and the chain of receipts are right."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from runward.config.bundle import PUBLIC_KEY
from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell.context import read_settings_of, settings_in_force, store_to_read
from runward.daemon.cli.terminal.output import coloured, fail, note, print_json, print_text, safe
from runward.daemon.cli.terminal.signs import terminal_here
from runward.daemon.disk.state_rights import StateDirectoryUnsafe
from runward.daemon.rundir.bundle_verifying import verify_bundle
from runward.daemon.store import reading
from runward.daemon.store.tables.receipts import bundle_in, bundles_of_id, chain
from runward.handlers.bundle.verify import SignatureState, Verified
from runward.handlers.journal.place import OWN_PLACE

if TYPE_CHECKING:
    from runward.config.settings import Settings
    from runward.handlers.bundle.verify import Recorded


class BundlePlace(NamedTuple):
    """Where a bundle is; `session_id` is None for a named directory.

    `recorded_of` gives what the store has of it, from the fields of the receipt that is there.
    """

    directory: str
    attempt: int
    session_id: str | None
    recorded_of: "Callable[[Mapping[str, JsonValue]], Recorded | None]"


def bundle_place(context: click.Context, target: str, attempt: int | None) -> BundlePlace:
    """The directory `target`, or that of the session's parts. Ends the program if there is neither."""
    if os.path.isdir(target):
        number = attempt or 1
        return BundlePlace(target, number, None, lambda fields: _known_of(context, target, number, fields))
    if "/" in target and not is_key(target):
        fail(f"there is no directory {target}", NOT_FOUND)
    return _of_session(context, target, attempt)


def is_key(text: str) -> bool:
    """Whether it can only be the key of a session, such as `native:runs/a`: its first component has a colon."""
    return ":" in text.partition("/")[0]


def _of_session(context: click.Context, text: str, attempt: int | None) -> BundlePlace:
    from runward.daemon.cli.session.finding import find_session
    from runward.daemon.views.receipts import receipt_place

    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, text)
        number = attempt or row.attempt
        place = receipt_place(connection, settings, row, number)
    return BundlePlace(place.directory, number, row.session_id, lambda _: place.recorded)


def _known_of(
    context: click.Context, directory: str, attempt: int, fields: "Mapping[str, JsonValue]"
) -> "Recorded | None":
    """What our own store has of a bundle in a directory. None if it doesn't know it, or can't be read.

    It knows a bundle by its place, whatever its receipt says, and by the session's id. So a receipt that lost what it
    could be recognized by is still compared.
    """
    from runward.daemon.views.receipts import recorded_of

    settings = read_settings_of(context.find_root().obj["config"]).value
    try:
        if settings is None or not reading.exists(settings.state_dir):
            return None
        with reading.reading(settings.state_dir) as connection:
            known = bundles_of_id(connection, str(fields.get("session_id")))
            place = _as_recorded(settings.state_dir, directory)
            there = next((each for each in known if (each.directory, each.attempt) == (place, attempt)), None)
            if there is None and _is_within(settings, directory):
                there = bundle_in(connection, place, attempt)
    except (reading.StoreUnreadable, StateDirectoryUnsafe, OSError):
        return None
    if there is not None:
        return recorded_of(there)
    stated = fields.get("receipt_hash"), fields.get("attempt")
    same = [each for each in known if each.receipt_hash == stated[0]] if stated[0] is not None else []
    same = same or [each for each in known if each.attempt == stated[1]] or known[-1:]
    return recorded_of(same[0]) if same else None


def _as_recorded(state: str, directory: str) -> str:
    """A directory as receipts have it: relative to the state directory if it is one of our own."""
    real, own = os.path.realpath(directory), os.path.realpath(state)
    below = os.path.relpath(real, own)
    return below if below.split("/")[0] == OWN_PLACE else real


def _is_within(settings: "Settings", directory: str) -> bool:
    """Whether parts of a session may have been put there: it is below a root, or in our own state."""
    real = os.path.realpath(directory)
    places = [settings.state_dir, *(root.path for root in settings.roots)]
    return any(real.startswith(os.path.realpath(each).rstrip("/") + "/") for each in places)


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
            # Only if it is signed: reading the keys may ask for rights that an unsigned bundle doesn't need.
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
    from runward.daemon.disk.receipt_keys import own_keys_that_count

    settings = read_settings_of(context.find_root().obj["config"]).value
    if settings is None:
        return frozenset(keys)
    return own_keys_that_count(settings.state_dir, note).union(settings.bundle.authorized_keys, keys)


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
        print_text(coloured("warning", shown))
    for each in answer.problems:
        if each.severity == "error":
            place = each.part if each.line is None else f"{each.part}:{each.line}"
            field = f"{each.field}: " if each.field else ""
            print_text(safe(f"{place}: {field}{each.message}"))
    hashes = answer.hashes
    errors = sum(each.severity == "error" for each in answer.problems)
    state, said = ("completed", "valid") if answer.valid else ("failed", "invalid")
    found = "the receipt matches its files" if answer.valid else counted(errors, "problem", "problems")
    further = [
        f"{count} {what}"
        for count, what in (
            (hashes.recomputed, "of values"),
            (hashes.redacted, "redacted"),
            (hashes.cut, "cut"),
            (hashes.unknown, "unknown"),
        )
        if count
    ]
    facts = [
        f"{found} ({', '.join([counted(hashes.parts, 'hash', 'hashes'), *further])})",
        *([] if answer.is_compared else ["not known to the store"]),
        _SIGNATURES[answer.signature],
    ]
    sign = terminal_here().sign(state)
    print_text(f"{sign} {coloured('ok' if answer.valid else said, said)}: {', '.join(facts)}")


_SIGNATURES: Final[Mapping[SignatureState, str]] = {
    "valid": "signed",
    "absent": "not signed",
    "invalid": "the signature is wrong",
    "unknown_key": "signed by a key that is not authorized",
}


def print_chain(settings: "Settings", as_json: bool) -> int:
    """Print the result of following the chain; returns the exit code."""
    head: str | None = None
    receipts = 0
    problems: list[JsonValue] = []
    with store_to_read(settings) as connection:
        for row in chain(connection):
            if row.receipt_hash is None:
                continue
            receipts += 1
            if row.prev != head:
                message = f"its receipt (attempt {row.attempt}) names {row.prev} before it, and {head} is"
                problems.append({"session": row.session_key, "message": message})
            head = row.receipt_hash
    if as_json:
        print_json({"valid": not problems, "receipts": receipts, "head": head, "problems": problems})
    else:
        for each in problems:
            assert isinstance(each, dict)
            print_text(safe(f"{each['session']}: {each['message']}"))
        word = coloured("invalid") if problems else coloured("ok", "valid")
        print_text(f"{word}: {counted(receipts, 'receipt', 'receipts')}, head {head or 'none'}")
    return NOT_SO if problems else GOOD
