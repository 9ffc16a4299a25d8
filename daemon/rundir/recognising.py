"""Which layout a file or a directory is in, by its content: a look at names and at the first bytes of a few files."""

import os
from collections.abc import Iterable
from typing import Final

from runward.daemon.rundir.opening import DIRECTORY, opened, opened_below
from runward.daemon.rundir.tailing import NotRegular, open_in_run, open_regular
from runward.daemon.rundir.unpacking import CannotUnpack, Unpacked
from runward.handlers.layouts import native
from runward.handlers.layouts.places import PACKED, unpacked_name
from runward.handlers.layouts.registry import DirectoryLayout, Layouts, LogLayout

HEAD: Final = 256 << 10
"""Bytes of a file that are looked at; the first line of a transcript alone may have a tenth of that."""

_FIRST: Final = 32 << 10
"""Bytes that mostly do: a first look at them is much cheaper than one at the whole head."""


def recognise_log(path: str, layouts: Layouts) -> LogLayout | None:
    """The layout of the log at `path`. Raises `OSError`, `NotRegular`, and `CannotUnpack` for a packed one."""
    directory, name = os.path.split(path)
    descriptor = open_in_run(directory, name)
    try:
        head = _head(descriptor, is_packed=name.endswith(PACKED))
    finally:
        os.close(descriptor)
    for part in (head[:_FIRST], head) if len(head) > _FIRST else (head,):
        for layout in layouts.logs:
            if layout.recognises(unpacked_name(name), part):
                return layout
    return None


def log_by_its_place(path: str, layouts: Layouts) -> LogLayout | None:
    """The layout whose logs usually lie at such a path: the best that can be said of one that can't be read."""
    plain = unpacked_name(path)
    return next((each for each in layouts.logs if each.usual_place.search(plain)), None)


def recognise_directory(path: str, names: Iterable[str], layouts: Layouts) -> DirectoryLayout | str | None:
    """The layout of the directory at `path`, in which these names stand; `"native"` for our own."""
    there = frozenset(names)
    if native.SCHEMA.encode() in _heads(path, there, (native.RUN,)).get(native.RUN, b""):
        return native.LAYOUT
    for layout in layouts.directories:
        if layout.recognises(there, _heads(path, there, layout.markers)):
            return layout
    return native.LAYOUT if native.RUN in there else None


def _heads(path: str, names: frozenset[str], markers: tuple[str, ...]) -> dict[str, bytes]:
    """The first bytes of those markers that are there and can be read."""
    heads = {}
    for marker in markers:
        *parents, name = marker.split("/")
        if (parents[0] if parents else name) not in names:
            continue
        try:
            heads[marker] = _head_below(path, parents, name)
        except (OSError, NotRegular):
            continue  # what can't be read marks nothing
    return heads


def _head_below(path: str, parents: list[str], name: str) -> bytes:
    with opened(path, DIRECTORY) as within, opened_below(within, parents) as directory:
        descriptor = open_regular(directory, name)
    try:
        return _head(descriptor, is_packed=False)
    finally:
        os.close(descriptor)


def _head(descriptor: int, *, is_packed: bool) -> bytes:
    if not is_packed:
        return os.pread(descriptor, HEAD, 0)
    head, unpacked = b"", Unpacked(descriptor)
    try:
        while len(head) < HEAD and (piece := unpacked.read(HEAD - len(head))):
            head += piece
    except CannotUnpack:
        if not head:
            raise
    return head
