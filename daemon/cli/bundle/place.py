"""From what people type to the bundle that they mean: a directory, a file, or a session's own."""

import os
from typing import NamedTuple

import click


class BundlePlace(NamedTuple):
    """Where a bundle lies; `session_id` is None for a directory that was named."""

    directory: str
    attempt: int
    session_id: str | None


def bundle_place(context: click.Context, target: str, attempt: int | None) -> BundlePlace:
    """The directory `target`, or that of the session's parts. Ends the program where there is neither."""
    if os.path.isdir(target):
        return BundlePlace(target, attempt or 1, None)
    if "/" in target:
        from runward.daemon.cli.exits import NOT_FOUND
        from runward.daemon.cli.terminal.output import fail

        fail(f"there is no directory {target}", NOT_FOUND)
    return _of_session(context, target, attempt)


def _of_session(context: click.Context, text: str, attempt: int | None) -> BundlePlace:
    from runward.daemon.cli.session.journal_place import journal_place
    from runward.daemon.cli.shell.context import settings_in_force, store_to_read
    from runward.daemon.cli.shell.finding import find_session

    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, text)
    return BundlePlace(journal_place(settings.state_dir, row), attempt or row.attempt, row.session_id)
