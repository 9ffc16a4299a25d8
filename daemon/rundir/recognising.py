"""Which layout a file or a directory has, by its content: its names and the first bytes of a few files."""

import os
from codecs import BOM_UTF8
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
"""Bytes that are usually enough: looking at them first is much cheaper than reading the whole head."""


def recognise_log(path: str, layouts: Layouts) -> LogLayout | None:
    """The layout of the log at `path`. Raises `OSError`, `NotRegular`, and `CannotUnpack` for a packed one."""
    directory, name = os.path.split(path)
    descriptor = open_in_run(directory, name)
    try:
        return recognise_head(descriptor, name, layouts)[0]
    finally:
        os.close(descriptor)


def recognise_head(descriptor: int, name: str, layouts: Layouts) -> tuple[LogLayout | None, bytes]:
    """The layout of an open log with this name, and the first bytes that identified it.

    Raises `OSError`, and `CannotUnpack` for a packed one.
    """
    head = b""
    for most in (_FIRST, HEAD):
        head = head_of(descriptor, most, is_packed=name.endswith(PACKED))
        plain = head.removeprefix(BOM_UTF8)
        for layout in layouts.logs:
            if layout.recognises(unpacked_name(name), plain):
                return layout, plain
        if len(head) < most:
            break
    return None, head


def log_by_its_place(path: str, layouts: Layouts) -> LogLayout | None:
    """The layout whose logs usually are at such a path: the best guess for one that can't be read."""
    plain = unpacked_name(path)
    return next((each for each in layouts.logs if each.usual_place.search(plain)), None)


def recognise_directory(path: str, names: Iterable[str], layouts: Layouts) -> DirectoryLayout | str | None:
    """The layout of the directory at `path`, which has these names; `"native"` for our own."""
    try:
        with opened(path, DIRECTORY) as within:
            return recognise_inside(within, frozenset(names), layouts)
    except OSError:
        return None  # it no longer exists


def recognise_inside(within: int, names: frozenset[str], layouts: Layouts) -> DirectoryLayout | str | None:
    """Like `recognise_directory`, for an open directory."""
    if says_native(within, names):
        return native.LAYOUT
    for layout in layouts.directories:
        if layout.recognises(names, _heads(within, names, layout.markers)):
            return layout
    return native.LAYOUT if native.RUN in names else None


def says_native(within: int, names: frozenset[str]) -> bool:
    """Whether an open directory's own `run.json` says that it is one of our runs."""
    return native.SCHEMA.encode() in _heads(within, names, (native.RUN,)).get(native.RUN, b"")


def _heads(within: int, names: frozenset[str], markers: tuple[str, ...]) -> dict[str, bytes]:
    """The first bytes of those markers that exist and can be read."""
    heads = {}
    for marker in markers:
        *parents, name = marker.split("/")
        if (parents[0] if parents else name) not in names:
            continue
        try:
            heads[marker] = _head_below(within, parents, name)
        except (OSError, NotRegular):
            continue  # what can't be read marks nothing
    return heads


def _head_below(within: int, parents: list[str], name: str) -> bytes:
    with opened_below(within, parents) as directory:
        descriptor = open_regular(directory, name)
    try:
        return head_of(descriptor, HEAD, is_packed=False).removeprefix(BOM_UTF8)
    finally:
        os.close(descriptor)


def head_of(descriptor: int, most: int, *, is_packed: bool) -> bytes:
    """The first bytes of an open file, unpacked. Raises `OSError`, and `CannotUnpack` if nothing can be unpacked."""
    if not is_packed:
        return os.pread(descriptor, most, 0)
    head, unpacked = b"", Unpacked(descriptor)
    try:
        while len(head) < most and (piece := unpacked.read(most - len(head))):
            head += piece
    except CannotUnpack:
        if not head:
            raise
    return head
