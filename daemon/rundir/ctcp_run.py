"""A CTCP run directory checked against its contracts: each file is read within bounds, and no link is followed.

One contract is checked after another, so a patch and a journal of maximum size are never held together.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from runward.config.plain_data import is_text
from runward.daemon.rundir.artifacts import NOWHERE
from runward.daemon.rundir.opening import LINK, REFUSED, REGULAR, opened, opened_below
from runward.daemon.rundir.zip_directory import read_zip_directory
from runward.handlers.ctcp.changing import BUNDLE
from runward.handlers.ctcp.contracts import CONTRACTS, further_needs, new_report
from runward.handlers.ctcp.documents import ABSENT as NO_DOCUMENT
from runward.handlers.ctcp.documents import Document, Documents, ZipDirectory
from runward.handlers.ctcp.rules import Report

_CHUNK: Final = 1 << 20
_NOT_A_FILE: Final = frozenset({LINK, errno.EISDIR, errno.ENXIO, errno.ENODEV})


def check_run(
    root: int,
    letters: Iterable[str],
    also: Mapping[str, Callable[[Documents, Report], None]] | None = None,
    *,
    allow_missing: bool = False,
) -> dict[str, Report]:
    """A report for each of the letters, on the run directory with this descriptor.

    `also` has further checks by their letters. With `allow_missing` missing files are not reported. Raises `OSError` if
    the machine is at fault: then nothing is known.
    """
    reports: dict[str, Report] = {}
    for letter in letters:
        contract, report = CONTRACTS[letter], new_report(letter, allow_missing)
        files = {path: _read(root, path, most) for path, most in contract.needs.items()}
        documents = Documents(files)
        if contract.reads_bundle:
            documents = Documents(files, _bundle(root))
            files.update({path: _read(root, path, 0) for path in further_needs(letter, documents)})
        contract.check(documents, report)
        if also is not None and letter in also:
            also[letter](documents, report)
        reports[letter] = report
    return reports


def _read(root: int, path: str, most: int) -> Document:
    """The file at `path`; if `most` is 0, only whether it exists."""
    parts = path.split("/")
    if "\0" in path or not is_text(path) or any(part in ("", "..") for part in parts):
        return NO_DOCUMENT
    try:
        with opened_below(root, parts[:-1]) as directory, opened(parts[-1], REGULAR, directory) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return Document("not_regular")
            if most == 0:
                return Document("file")
            return Document("too_large") if status.st_size > most else _content(file, most)
    except OSError as error:
        return _refused(error)


def _content(file: int, most: int) -> Document:
    content = bytearray()
    while piece := os.read(file, _CHUNK):
        content += piece
        if len(content) > most:
            return Document("too_large")
    return Document("file", content)


def _refused(error: OSError) -> Document:
    """What an error on the way to a file says about it. Raises the error if the machine causes it."""
    if error.errno in NOWHERE:
        return NO_DOCUMENT
    if error.errno in REFUSED:
        return Document("denied")
    if error.errno in _NOT_A_FILE:
        return Document("not_regular")
    raise error


def _bundle(root: int) -> ZipDirectory | None:
    """The directory of the failure bundle; None if there is no bundle."""
    try:
        with opened(BUNDLE, REGULAR, root) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return ZipDirectory(problem="is not a regular file")
            return read_zip_directory(file)
    except OSError as error:
        found = _refused(error)
        return None if found.state == "absent" else ZipDirectory(problem="can't be read as a file")
