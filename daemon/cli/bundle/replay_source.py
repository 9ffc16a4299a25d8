"""From what people type to the replay that they mean: a file, or that of a session."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.terminal.output import fail
from runward.daemon.rundir.bundle_verifying import opened_part, opened_replay
from runward.daemon.rundir.opening import ROOT, opened
from runward.daemon.rundir.replay_file import ReplayFile


class ReplaySource(NamedTuple):
    """A replay and its name; `is_own` says whether it lies where a session's parts lie."""

    path: str
    is_own: bool


def replay_source(context: click.Context, target: str, attempt: int | None) -> ReplaySource:
    """The file `target`, the replay in the directory `target`, or that of the session `target`."""
    from runward.daemon.cli.bundle.place import bundle_place
    from runward.handlers.bundle.parts import REPLAY, part_name

    if os.path.exists(target) and not os.path.isdir(target):
        return ReplaySource(target, is_own=False)
    if "/" in target and not os.path.isdir(target):
        fail(f"there is no file {target}", NOT_FOUND)
    place = bundle_place(context, target, attempt)
    return ReplaySource(os.path.join(place.directory, part_name(REPLAY, place.attempt)), is_own=True)


@contextmanager
def opened_source(source: ReplaySource) -> Iterator[ReplayFile]:
    """The replay, opened. Ends the program where it cannot be read."""
    try:
        if source.is_own:
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
