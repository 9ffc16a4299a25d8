"""Which session is at a place: its layout, and its id in its tool, from the beginning of its files."""

import math
import os
from itertools import islice
from typing import Final

from runward.daemon.ports.session_reads import NOTHING_READ, Identity
from runward.daemon.rundir.mixed_places import is_inside_session
from runward.daemon.rundir.opening import ABSENT, LINK, ROOT, opened, opened_below, unreadable
from runward.daemon.rundir.recognising import HEAD, log_by_its_place, recognise_head, recognise_inside
from runward.daemon.rundir.session_files import SessionFiles
from runward.daemon.rundir.session_places import log_at
from runward.daemon.rundir.session_reading import Scanning
from runward.daemon.rundir.tailing import NotRegular, open_regular
from runward.daemon.rundir.unpacking import CannotUnpack
from runward.handlers.layouts.places import LOG, is_glob, mixed_shape, unpacked_name
from runward.handlers.layouts.registry import DirectoryLayout, Layouts, LogLayout, Scan
from runward.handlers.layouts.transcript import LogLine
from runward.handlers.model.unreadable import Unreadable

MOST_NAMES: Final = 10_000
"""Entries of a directory that are looked at; a session has a handful."""

_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def identify(root: str, place: str, layouts: Layouts) -> Identity | Unreadable | None:
    """Identify the session at a place, if one of these layouts is there by now.

    For a packed log that can't be unpacked, the layout is guessed from its path.
    """
    *parents, name = place.split("/")
    try:
        with opened(root, ROOT) as top:
            if layouts.logs and layouts.directories and is_inside_session(top, parents, mixed_shape(layouts)):
                return None
            with opened_below(top, parents) as within:
                found = _log(within, name, f"{root}/{place}", layouts) if layouts.logs else None
            if found is not None or not layouts.directories:
                return found
            with opened_below(top, [*parents, name]) as directory:
                return _directory(directory, name, layouts)
    except OSError as error:
        return None if error.errno in ABSENT or error.errno == LINK else unreadable(error)


def _log(within: int, name: str, path: str, layouts: Layouts) -> Identity | None:
    found = log_at(within, name)
    if found is None:
        return None
    try:
        descriptor = open_regular(within, found[0])
    except NotRegular:
        return None
    try:
        status = os.fstat(descriptor)
        layout, head = recognise_head(descriptor, found[0], layouts)
    except CannotUnpack:
        layout, head = log_by_its_place(path, layouts), b""
    finally:
        os.close(descriptor)
    if layout is None:
        return None
    contents = head.split(b"\n")[:-1]
    lines = [LogLine(number, content) for number, content in enumerate(contents, 1)]
    scan, _ = layout.start(unpacked_name(name)).feed(unpacked_name(name), lines)
    return _identity(layout, scan, name.removesuffix(LOG), status)


def _directory(directory: int, name: str, layouts: Layouts) -> Identity | None:
    with opened(".", _LISTED, directory) as listing, os.scandir(listing) as entries:
        names = frozenset(entry.name for entry in islice(entries, MOST_NAMES))
    layout = recognise_inside(directory, names, layouts)
    if not isinstance(layout, DirectoryLayout):
        return None
    scanning = Scanning(layout.start(name))
    files = SessionFiles(directory, NOTHING_READ, math.inf, scanning, HEAD)
    files.documents([each for each in layout.documents if not is_glob(each)])
    files.logs([each for each in layout.logs if not is_glob(each)])
    return _identity(layout, scanning.scan, name, os.fstat(directory))


def _identity(layout: LogLayout | DirectoryLayout, scan: Scan, name: str, status: os.stat_result) -> Identity:
    told = scan.tell()
    return Identity(layout, told.session_id or name, told.is_subagent, status.st_dev, status.st_ino)
