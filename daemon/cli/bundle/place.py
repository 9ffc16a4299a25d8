"""From what people type to the bundle that they mean: a directory, a file, or a session's own."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.daemon.disk.state_rights import StateDirectoryUnsafe
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
        from runward.daemon.cli.exits import NOT_FOUND
        from runward.daemon.cli.terminal.output import fail

        fail(f"there is no directory {target}", NOT_FOUND)
    return _of_session(context, target, attempt)


def is_key(text: str) -> bool:
    """Whether it can only be the key of a session, such as `native:runs/a`: its first component has a colon."""
    return ":" in text.partition("/")[0]


def _of_session(context: click.Context, text: str, attempt: int | None) -> BundlePlace:
    from runward.daemon.cli.shell.context import settings_in_force, store_to_read
    from runward.daemon.cli.shell.finding import find_session
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
    from runward.daemon.cli.shell.context import read_settings_of
    from runward.daemon.store import reading
    from runward.daemon.store.reading_bundles import bundle_in, bundles_of_id
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
