"""From what people type to the bundle that they mean: a directory, a file, or a session's own."""

import os
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from runward.daemon.store.reading_bundles import BundleRow
    from runward.handlers.bundle.verify import Recorded


class BundlePlace(NamedTuple):
    """Where a bundle is; `session_id` is None for a named directory. `recorded` is what the store has of it."""

    directory: str
    attempt: int
    session_id: str | None
    recorded: "Recorded | None" = None


def bundle_place(context: click.Context, target: str, attempt: int | None) -> BundlePlace:
    """The directory `target`, or that of the session's parts. Ends the program if there is neither."""
    if os.path.isdir(target):
        return BundlePlace(target, attempt or 1, None)
    if "/" in target and not is_key(target):
        from runward.daemon.cli.exits import NOT_FOUND
        from runward.daemon.cli.terminal.output import fail

        fail(f"there is no directory {target}", NOT_FOUND)
    return _of_session(context, target, attempt)


def is_key(text: str) -> bool:
    """Whether it can only be the key of a session, such as `native:runs/a`: its first component has a colon."""
    return ":" in text.partition("/")[0]


def _of_session(context: click.Context, text: str, attempt: int | None) -> BundlePlace:
    from runward.daemon.cli.session.journal_place import journal_place
    from runward.daemon.cli.shell.context import settings_in_force, store_to_read
    from runward.daemon.cli.shell.finding import find_session
    from runward.daemon.store.reading_bundles import bundle_of

    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, text)
        number = attempt or row.attempt
        found = bundle_of(connection, row.key, number)
    if found is None:
        return BundlePlace(journal_place(settings.state_dir, row), number, row.session_id)
    # A run may have refused its bundle, which is then in the state directory.
    directory = os.path.join(settings.state_dir, found.directory)
    return BundlePlace(directory, number, row.session_id, _recorded(found))


def _recorded(row: "BundleRow") -> "Recorded | None":
    from runward.handlers.bundle.parts import REPLAY, SUMMARY, part_name
    from runward.handlers.bundle.verify import FileFacts, Recorded

    if row.receipt_hash is None:
        return None
    plain = {part_name(name, row.attempt): name for name in (REPLAY, SUMMARY)}
    files = {plain[each.name]: FileFacts(each.sha256, each.size) for each in row.parts if each.name in plain}
    return Recorded(row.receipt_hash, files)
