"""Why a file or a directory is a session of one layout, and of no other. `runward inspect --explain` says it.

Each layout is asked alone, in the same way as all of them together are, and says itself what shows a session of it.
"""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runward.daemon.rundir.opening import DIRECTORY, NotRegular, opened
from runward.daemon.rundir.session_logs import CannotUnpack
from runward.daemon.rundir.session_places import (
    CannotList,
    database_layout,
    database_of,
    log_by_its_place,
    names_in,
    not_read,
    recognise_inside,
    recognise_log,
    says_native,
    why_unreadable,
)
from runward.handlers.layouts import native
from runward.handlers.layouts.layout import Layouts


class Considered(NamedTuple):
    """One layout, whether the path is of it, and why."""

    layout: str
    is_it: bool
    reason: str


class Explained(NamedTuple):
    """The layout of what is at a path, None if it is none that is known, and each one that was considered."""

    path: str
    layout: str | None
    considered: tuple[Considered, ...]


def explain(path: str, layouts: Layouts, *, with_native: bool) -> Explained:
    """Which of these layouts `path` is of, and why not another. For a file of a session's directory, that of the directory.

    Raises `FileNotFoundError`.
    """
    place = os.path.realpath(path)
    place = database_of(place) or place
    if not os.path.lexists(place):
        raise FileNotFoundError(path)
    is_directory = os.path.isdir(place)
    directory = place if is_directory else os.path.dirname(place)
    considered: list[Considered] = []
    found: str | None = None
    subject = "it" if is_directory else "its directory"
    of_directory = _of_a_directory(directory, layouts, subject, with_native=with_native)
    for each in (
        *_of_a_log(place, layouts, is_directory=is_directory),
        *(of_directory if is_directory else _or_of_one_above(place, layouts, of_directory)),
    ):
        if each.is_it and found is not None:
            each = each._replace(is_it=False, reason=f"{each.reason}, but {found} is tried first")
        elif each.is_it:
            found = each.layout
        considered.append(each)
    return Explained(place, found, tuple(considered))


def _of_a_log(path: str, layouts: Layouts, *, is_directory: bool) -> Iterator[Considered]:
    for layout in layouts.logs:
        if is_directory:
            yield Considered(layout.name, False, "it is a directory; a session of this layout is a file")
            continue
        alone = layouts.only(layout.name)
        try:
            recognise = recognise_log if layout.database is None else database_layout
            is_it = recognise(path, alone) is not None
        except (OSError, NotRegular, CannotUnpack) as error:
            reason = "is not a regular file" if isinstance(error, NotRegular) else why_unreadable(error)
            is_it = layout.database is None and log_by_its_place(path, alone) is not None
            if is_it:
                reason += ", but is where files of this layout usually are"
            yield Considered(layout.name, is_it, f"it {reason}")
        else:
            other = None if is_it else not_read(path, alone)
            yield Considered(layout.name, is_it, f"it {other or f'{_has(is_it)} {layout.shown_by}'}")


def _of_a_directory(
    directory: str, layouts: Layouts, subject: str, *, with_native: bool
) -> Iterator[Considered]:
    shown_by = {each.name: each.shown_by for each in layouts.directories}
    if with_native:
        shown_by[native.LAYOUT] = native.SHOWN_BY
    try:
        names = frozenset(names_in(directory))
        with opened(directory, DIRECTORY) as within:
            is_ours = says_native(within, names)
            found = {
                name: recognise_inside(within, os.path.basename(directory), names, layouts.only(name))
                for name in shown_by
            }
    except (OSError, CannotList) as error:
        reason = str(error) if isinstance(error, CannotList) else why_unreadable(error)
        yield from (Considered(name, False, f"{subject} {reason}") for name in shown_by)
        return
    for name in sorted(shown_by, key=lambda name: is_ours and name != native.LAYOUT):
        layout = found[name]
        is_it = (layout if isinstance(layout, str) or layout is None else layout.name) == name
        if is_ours and name != native.LAYOUT:
            yield Considered(name, False, f"{subject} has a `{native.RUN}` that says it is a native run")
        else:
            yield Considered(name, is_it, f"{subject} {_has(is_it)} {shown_by[name]}")


def _or_of_one_above(file: str, layouts: Layouts, of_directory: Iterable[Considered]) -> Iterator[Considered]:
    """The same; but a layout may have the file deeper in a session's directory."""
    directories = {each.name: each for each in layouts.directories}
    for each in of_directory:
        layout = directories.get(each.layout)
        files = () if layout is None or each.is_it else (*layout.markers, *layout.documents, *layout.logs)
        for depth in sorted({path.count("/") for path in files} - {0}):
            above = file.split("/")[: -1 - depth]
            found = _of_a_directory(
                "/".join(above) or "/", layouts.only(each.layout), "the directory above it", with_native=False
            )
            each = next((one for one in found if one.is_it), each)
        yield each


def _has(is_it: bool) -> str:
    return "has" if is_it else "doesn't have"
