"""Roots with sessions of several layouts: a bounded look into each directory shows which ones are sessions.

Everything in a session's directory belongs to that session, so no other one is looked for there.
"""

import os

from runward.daemon.rundir.opening import ABSENT, LINK, opened_below
from runward.daemon.rundir.recognising import recognise_inside, says_native
from runward.handlers.layouts import native
from runward.handlers.layouts.places import DirectoryShape, MixedShape, directory_shape
from runward.handlers.layouts.registry import DirectoryLayout


def recognise_place(directory: int, shape: MixedShape) -> DirectoryLayout | str | None:
    """The layout of an open directory; `"native"` only for our own run that says so: any tool may have a `run.json`."""
    names = frozenset(name for name in shape.telling_names() if _stands(name, directory))
    layout = recognise_inside(directory, names, shape.layouts) if names else None
    return None if layout == native.LAYOUT and not says_native(directory, names) else layout


def shape_inside(directory: int, shape: MixedShape) -> DirectoryShape:
    """Which files tell what an open directory is; for one that is not a session's yet, those that may make it one."""
    layout = recognise_place(directory, shape)
    return directory_shape(layout) if isinstance(layout, DirectoryLayout) else shape.directories()


def is_inside_session(top: int, parents: list[str], shape: MixedShape) -> bool:
    """Whether one of the directories on the way to a place, from an open root, is a session's. Raises `OSError`."""
    for level in range(1, len(parents) + 1):
        with opened_below(top, parents[:level]) as directory:
            if recognise_place(directory, shape) is not None:
                return True
    return False


def _stands(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno in ABSENT or error.errno == LINK:
            return False
        raise
    return True
