"""From what people type to the replay that they mean: a file, or that of a session.

If the daemon writes no replay of a session, or not yet, it is made from the session's files up to the present.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from runward.config.settings import Settings
from runward.daemon.cli.bundle.place import is_key
from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.terminal.output import fail, safe
from runward.daemon.rundir.bundle_parts import lines_on_demand
from runward.daemon.rundir.bundle_verifying import ReplayFile, opened_part, opened_replay
from runward.daemon.rundir.opening import ROOT, opened
from runward.daemon.store.reading_told_actions import told_actions
from runward.handlers.bundle.parts import REPLAY, part_name
from runward.handlers.model.bundle import BundleOrder


class ReplaySource(NamedTuple):
    """A replay and its path; `is_own` says whether it is where a session's parts are.

    With an `order` it is not on disk, and is made: whole if the attempt `is_over`. The path then says whose it is, and
    the store of the `settings` has its actions in the exchange.
    """

    path: str
    is_own: bool
    order: BundleOrder | None = None
    is_over: bool = True
    settings: Settings | None = None


def replay_source(context: click.Context, target: str, attempt: int | None) -> ReplaySource:
    """The file `target`, the replay in the directory `target`, or that of the session `target`."""
    if os.path.isdir(target):
        return ReplaySource(os.path.join(target, part_name(REPLAY, attempt or 1)), is_own=True)
    if os.path.exists(target):
        return ReplaySource(target, is_own=False)
    if "/" in target and not is_key(target):
        fail(f"there is no file {target}", NOT_FOUND)
    return _of_session(context, target, attempt)


def _of_session(context: click.Context, text: str, attempt: int | None) -> ReplaySource:
    from runward.daemon.cli.shell.finding import find_session
    from runward.daemon.views.bundles import session_bundle
    from runward.daemon.views.replay import order_on_demand

    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, text)
        number = attempt or row.attempt
        bundle = session_bundle(connection, settings, row, number)
        if bundle is not None and bundle.state == "written":
            return ReplaySource(os.path.join(bundle.directory, part_name(REPLAY, number)), is_own=True)
        order = order_on_demand(connection, settings, row, number)
    if order is None:
        fail(
            f"session {safe(row.session_id)} has no attempt {number} that was judged or is running", NOT_FOUND
        )
    return ReplaySource(
        f"the replay of {safe(row.session_id)}",
        is_own=False,
        order=order,
        is_over=bundle is not None,
        settings=settings,
    )


@contextmanager
def opened_source(source: ReplaySource) -> Iterator[ReplayFile]:
    """The replay, opened. Ends the program if it cannot be read."""
    try:
        if source.order is not None and source.settings is not None:
            order = source.order
            with tempfile.TemporaryFile() as made:
                with store_to_read(source.settings) as connection:
                    actions = told_actions(connection, order.key, order.actions)
                    made.writelines(lines_on_demand(order, actions, is_over=source.is_over)[1])
                made.flush()
                yield ReplayFile(made.fileno())
        elif source.is_own:
            directory, name = os.path.split(source.path)
            with opened(directory, ROOT) as within, opened_part(within, name) as file:
                yield file
        else:
            with opened_replay(source.path) as file:
                yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        fail(f"{source.path} can't be read: {error.strerror}", NOT_FOUND)
