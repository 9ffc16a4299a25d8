"""The files of a run that hold outcomes: `outcome.json` and those in `outcomes/`, in its directory and among its artifacts."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from runward.config.path_rule import names_in
from runward.daemon.disk.durable import write_durably
from runward.daemon.rundir.opening import (
    ABSENT,
    DIRECTORY,
    LASTING,
    LISTED,
    NotRegular,
    held,
    open_regular,
    opened,
    opened_below,
    unreadable,
)
from runward.daemon.rundir.report_reading import LARGEST_REPORT, LargeReport, Reader, read_here
from runward.handlers.layouts.native import ARTIFACTS, OUTCOME_NAMES
from runward.handlers.model.files import Signature, Unreadable, signature_of
from runward.handlers.model.outcomes import BeingRead, OutcomeFile
from runward.handlers.outcomes.reading import LARGEST
from runward.handlers.outcomes.report import REPORTS

OUTCOME, OUTCOMES = OUTCOME_NAMES
_USUAL: Final = (*OUTCOME_NAMES, *(f"{ARTIFACTS}/{each}" for each in OUTCOME_NAMES))
ENDINGS: Final = (".json", ".xml", ".sarif")

MOST_FILES: Final = 200
MOST_NAMES: Final = 2000
MOST_BYTES: Final = 8 << 20
"""Bytes of all files of a run together that are read at once; files beyond this count as too large."""

MOST_AT_ONCE: Final = 64 << 10
"""Bytes of a run's reports that are read at once: a hostile one of this size takes some hundredths of a second."""

MOST_REPORTS: Final = 256 << 20
"""Bytes of a run's other reports; reports beyond this count as too large."""


def outcomes_digest(path: str) -> str | None:
    """Distinguishes this state of a run's outcome files from the next; None if there are none.

    They are in the run's directory `path` and in its `artifacts`. Their contents are not read.
    """
    if all(_is_absent(f"{path}/{each}") for each in _USUAL):
        return None
    signatures = [entry for directory in (path, f"{path}/{ARTIFACTS}") for entry in _signatures_in(directory)]
    return hashlib.sha256(repr(signatures).encode(errors="replace")).hexdigest()[:16] if signatures else None


def _is_absent(path: str) -> bool:
    """Whether nothing exists there. An error of another kind proves nothing. Most verdicts need only this."""
    try:
        os.stat(path, follow_symlinks=False)
    except OSError as error:
        return error.errno in ABSENT
    return False


def _signatures_in(directory: str) -> list[tuple[str, Signature]]:
    signatures: list[tuple[str, Signature]] = []
    try:
        with opened(directory, DIRECTORY) as within:
            signatures += _signature_of(within, OUTCOME, f"{directory}/{OUTCOME}")
            with opened(OUTCOMES, LISTED, within) as listing:
                for name in _names(listing):
                    signatures += _signature_of(listing, name, f"{directory}/{OUTCOMES}/{name}")
    except OSError:
        return signatures  # the verdict must read them, and reports why it can't
    return signatures


def _signature_of(within: int, name: str, path: str) -> list[tuple[str, Signature]]:
    """The signature of a file, if there is one."""
    try:
        status = os.stat(name, dir_fd=within, follow_symlinks=False)
    except OSError:
        return []
    return [(path, signature_of(status))]


class _OpenFile(NamedTuple):
    at: int
    path: str
    content: bytes | None
    report: LargeReport | None = None


def outcomes_in(
    path: str, artifacts_path: str, named: Sequence[str] = (), read: Reader = read_here
) -> tuple[OutcomeFile, ...] | BeingRead | Unreadable:
    """The files of the run in the directory `path` that may hold outcomes, the oldest first, then by name.

    The `named` files are below `artifacts_path`. Reports that are too large to be read at once are passed to `read`.
    """
    directories = dict.fromkeys((path, artifacts_path))
    if not named and all(_is_absent(f"{each}/{name}") for each in directories for name in OUTCOME_NAMES):
        return ()
    look = _Look()
    try:
        for directory in directories:
            look.at_usual_places(directory)
        usual = {each.path for each in look.files}
        look.at(artifacts_path, [name for name in named if name not in usual])
        return _with_reports(path, sorted(look.files, key=lambda each: (each.at, each.path)), read)
    except OSError as error:
        return unreadable(error)
    finally:
        look.close()


def _with_reports(run: str, files: Sequence[_OpenFile], read: Reader) -> tuple[OutcomeFile, ...] | BeingRead:
    large = [each.report for each in files if each.report is not None]
    answer = read(run, large) if large else []
    if isinstance(answer, float):
        return BeingRead(answer)
    reports = iter(answer)
    return tuple(
        OutcomeFile(each.path, each.content, None if each.report is None else next(reports)) for each in files
    )


@dataclass(slots=True)
class _Look:
    """The files of one run that were found, and how many bytes may still be read of it.

    It raises `OSError` if the machine is at fault: then nothing is known.
    """

    files: list[_OpenFile] = field(default_factory=list)
    content_left: int = MOST_BYTES
    at_once_left: int = MOST_AT_ONCE
    reports_left: int = MOST_REPORTS

    def close(self) -> None:
        """Close the reports."""
        for each in self.files:
            if each.report is not None:
                os.close(each.report.descriptor)

    def at_usual_places(self, directory: str) -> None:
        """Find the files in a run's directory or among its artifacts."""
        try:
            with opened(directory, DIRECTORY) as within:
                self._file(within, OUTCOME, OUTCOME)
                with opened(OUTCOMES, LISTED, within) as listing:
                    for name in _names(listing):
                        if len(self.files) == MOST_FILES:
                            return
                        self._file(listing, name, f"{OUTCOMES}/{name}")
        except OSError as error:
            if error.errno not in LASTING:
                raise

    def at(self, directory: str, paths: Sequence[str]) -> None:
        """Find the files at these paths below a directory. No link is followed."""
        if not paths:
            return
        try:
            with opened(directory, DIRECTORY) as within:
                for path in paths:
                    self._below(within, path)
        except OSError as error:
            if error.errno not in LASTING:
                raise

    def _below(self, within: int, path: str) -> None:
        *parts, name = names_in(path)
        try:
            with opened_below(within, parts) as parent:
                self._file(parent, name, path)
        except OSError as error:
            if error.errno not in LASTING:
                raise

    def _file(self, within: int, name: str, path: str) -> None:
        try:
            descriptor = open_regular(within, name)
        except NotRegular:
            return
        except OSError as error:
            if error.errno in LASTING:
                return
            raise
        is_kept = False
        try:
            status = os.fstat(descriptor)
            shown = path.encode(errors="backslashreplace").decode()
            if path.endswith(REPORTS) and status.st_size > min(LARGEST, self.at_once_left, self.content_left):
                # It stays open until it is read: another file may have its name by then.
                is_kept = self._report(shown, descriptor, status)
                return
            most = min(LARGEST, self.content_left)
            content = os.pread(descriptor, most + 1, 0)
            if len(content) > most:
                self.files.append(_OpenFile(status.st_mtime_ns, shown, None))
                return
            self.files.append(_OpenFile(status.st_mtime_ns, shown, content))
            self.content_left -= len(content)
            self.at_once_left -= len(content) if path.endswith(REPORTS) else 0
        finally:
            if not is_kept:
                os.close(descriptor)

    def _report(self, path: str, descriptor: int, status: os.stat_result) -> bool:
        """Keep a report open to be read elsewhere; returns whether it is one that is read at all."""
        if status.st_size > min(LARGEST_REPORT, self.reports_left):
            self.files.append(_OpenFile(status.st_mtime_ns, path, None))
            return False
        self.reports_left -= status.st_size
        report = LargeReport(path, descriptor, signature_of(status), status.st_size)
        self.files.append(_OpenFile(status.st_mtime_ns, path, None, report))
        return True


def _names(listing: int) -> list[str]:
    with os.scandir(listing) as entries:
        names = [each.name for each in islice(entries, MOST_NAMES)]
    return sorted(each for each in names if each.endswith(ENDINGS) and not each.startswith("."))[:MOST_FILES]


def write_outcome(directory: str, name: str, content: bytes) -> None:
    """Put an outcome into the run's directory of outcomes as `name`, whole or not at all. Raises `OSError`."""
    with opened(directory, DIRECTORY) as within:
        try:
            os.mkdir(OUTCOMES, 0o700, dir_fd=within)
        except FileExistsError:
            pass  # whatever it is: it is opened as a directory
        folder = os.open(OUTCOMES, LISTED, dir_fd=within)
    with held(folder):
        write_durably(folder, name, content)
