"""The files of a run that hold outcomes: `outcome.json` and those in `outcomes/`, in its directory and among its artifacts."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from runward.config.path_rule import names_in
from runward.daemon.rundir.looking import signature
from runward.daemon.rundir.opening import (
    ABSENT,
    DIRECTORY,
    LASTING,
    opened,
    opened_below,
    unreadable,
)
from runward.daemon.rundir.tailing import NotRegular, open_regular
from runward.handlers.layouts.native import ARTIFACTS, OUTCOME_NAMES
from runward.handlers.layouts.scanner import Signature
from runward.handlers.outcomes.facts import OutcomeFile
from runward.handlers.outcomes.reading import LARGEST
from runward.handlers.unreadable import Unreadable

OUTCOME, OUTCOMES = OUTCOME_NAMES
_USUAL: Final = (*OUTCOME_NAMES, *(f"{ARTIFACTS}/{each}" for each in OUTCOME_NAMES))
ENDINGS: Final = (".json", ".xml", ".sarif")

MOST_FILES: Final = 200
MOST_NAMES: Final = 2000
MOST_BYTES: Final = 8 << 20
"""Bytes of all files of a run together; files beyond this count as too large."""

_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def outcomes_digest(path: str) -> str | None:
    """Distinguishes this state of a run's outcome files from the next; None if there are none.

    They are in the run's directory `path` and in its `artifacts`. Their contents are not read.
    """
    if all(_is_absent(f"{path}/{each}") for each in _USUAL):
        return None
    found = [entry for directory in (path, f"{path}/{ARTIFACTS}") for entry in _signatures_in(directory)]
    return hashlib.sha256(repr(found).encode(errors="replace")).hexdigest()[:16] if found else None


def _is_absent(path: str) -> bool:
    """Whether nothing exists there. An error of another kind proves nothing. Most verdicts need only this."""
    try:
        os.stat(path, follow_symlinks=False)
    except OSError as error:
        return error.errno in ABSENT
    return False


def _signatures_in(directory: str) -> list[tuple[str, Signature]]:
    found: list[tuple[str, Signature]] = []
    try:
        with opened(directory, DIRECTORY) as within:
            found += _signature_of(within, OUTCOME, f"{directory}/{OUTCOME}")
            listing = os.open(OUTCOMES, _LISTED, dir_fd=within)
            try:
                for name in _names(listing):
                    found += _signature_of(listing, name, f"{directory}/{OUTCOMES}/{name}")
            finally:
                os.close(listing)
    except OSError:
        return found  # the verdict must read them, and reports why it can't
    return found


def _signature_of(within: int, name: str, path: str) -> list[tuple[str, Signature]]:
    """The signature of a file, if there is one."""
    try:
        status = os.stat(name, dir_fd=within, follow_symlinks=False)
    except OSError:
        return []
    return [(path, signature(status))]


class _Found(NamedTuple):
    at: int
    path: str
    content: bytes | None


def outcomes_in(
    path: str, artifacts_path: str, named: Sequence[str] = ()
) -> tuple[OutcomeFile, ...] | Unreadable:
    """The files of the run in the directory `path` that may hold outcomes, the oldest first, then by name.

    The `named` files are below `artifacts_path`.
    """
    directories = dict.fromkeys((path, artifacts_path))
    if not named and all(_is_absent(f"{each}/{name}") for each in directories for name in OUTCOME_NAMES):
        return ()
    found: list[_Found] = []
    left = MOST_BYTES
    for directory in directories:
        try:
            for each in _in_directory(directory, left):
                found.append(each)
                left -= len(each.content or b"")
                if len(found) == MOST_FILES:
                    break
        except OSError as error:
            if error.errno not in LASTING:
                return unreadable(error)
    usual = {each.path for each in found}
    try:
        for each in _at(artifacts_path, [name for name in named if name not in usual], left):
            found.append(each)
            left -= len(each.content or b"")
    except OSError as error:
        if error.errno not in LASTING:
            return unreadable(error)
    found.sort(key=lambda each: (each.at, each.path))
    return tuple(OutcomeFile(each.path, each.content) for each in found)


def _in_directory(directory: str, left: int) -> Iterator[_Found]:
    with opened(directory, DIRECTORY) as within:
        alone = _file(within, OUTCOME, OUTCOME, left)
        if alone is not None:
            yield alone
            left -= len(alone.content or b"")
        try:
            listing = os.open(OUTCOMES, _LISTED, dir_fd=within)
        except OSError as error:
            if error.errno in LASTING:
                return
            raise
        try:
            for name in _names(listing):
                each = _file(listing, name, f"{OUTCOMES}/{name}", left)
                if each is not None:
                    yield each
                    left -= len(each.content or b"")
        finally:
            os.close(listing)


def _at(directory: str, paths: Sequence[str], left: int) -> Iterator[_Found]:
    """The files at these paths below a directory. No link is followed."""
    if not paths:
        return
    with opened(directory, DIRECTORY) as within:
        for path in paths:
            *parts, name = names_in(path)
            try:
                with opened_below(within, parts) as parent:
                    each = _file(parent, name, path, left)
            except OSError as error:
                if error.errno in LASTING:
                    continue
                raise
            if each is not None:
                yield each
                left -= len(each.content or b"")


def _names(listing: int) -> list[str]:
    with os.scandir(listing) as entries:
        names = [each.name for each in islice(entries, MOST_NAMES)]
    return sorted(each for each in names if each.endswith(ENDINGS) and not each.startswith("."))[:MOST_FILES]


def _file(within: int, name: str, path: str, left: int) -> _Found | None:
    try:
        descriptor = open_regular(within, name)
    except NotRegular:
        return None
    except OSError as error:
        if error.errno in LASTING:
            return None
        raise
    try:
        most = min(LARGEST, left)
        content = os.pread(descriptor, most + 1, 0)
        at = os.fstat(descriptor).st_mtime_ns
        shown = path.encode(errors="backslashreplace").decode()
        return _Found(at, shown, content if len(content) <= most else None)
    finally:
        os.close(descriptor)
