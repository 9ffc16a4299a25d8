"""A CTCP run directory checked against its contracts: each file is read within bounds, and no link is followed.

One contract is checked after another, so a patch and a journal of maximum size are never held together.
"""

import errno
import os
import stat
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from runward.config.artifact_rules import BY_PATH, CTCP
from runward.config.json_value import is_text
from runward.config.problem import printable
from runward.daemon.rundir.opening import LINK, REFUSED, REGULAR, opened, opened_below
from runward.daemon.rundir.resolving import NOWHERE, fact_at
from runward.handlers.ctcp.changing import BUNDLE, PATCH
from runward.handlers.ctcp.contracts import CONTRACTS, further_needs, new_report
from runward.handlers.ctcp.documents import ABSENT as NO_DOCUMENT
from runward.handlers.ctcp.documents import Document, Documents, Entry, ZipDirectory
from runward.handlers.ctcp.rules import Report
from runward.handlers.model.files import FileFact, RuleFact

LARGEST_DIRECTORY: Final = 8 << 20
"""Bytes of a directory that is read: 10,000 entries with long names have less."""


class _TooLarge(Exception):
    """The directory has more bytes than are read."""


class _File:
    """A file for `zipfile` to read from, which reads at most a directory's bytes at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = descriptor, 0
        self._size = os.fstat(descriptor).st_size

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError("seeks before the beginning")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int = -1) -> bytes:
        count = max(0, self._size - self._at) if count < 0 else count
        if count > LARGEST_DIRECTORY:
            raise _TooLarge
        piece = os.pread(self._descriptor, count, self._at)
        self._at += len(piece)
        return piece


def read_zip_directory(descriptor: int) -> ZipDirectory:
    """The entries of the zip file with this descriptor, or why there are none."""
    file = _File(descriptor)
    try:
        with zipfile.ZipFile(file) as zip_file:
            entries = tuple(Entry(each.orig_filename, each.file_size) for each in zip_file.infolist())
    except _TooLarge:
        return ZipDirectory(is_too_large=True)
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, ValueError) as error:
        return ZipDirectory(problem=f"is not a zip file: {error}")
    except OSError as error:
        if error.errno is not None:
            raise
        return ZipDirectory(problem="is not a zip file: its directory is not where it says")
    return ZipDirectory(entries)


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
        refusal = _refused(error)
        return None if refusal.state == "absent" else ZipDirectory(problem="can't be read as a file")


def ctcp_facts(root: int, paths: Sequence[str]) -> list[FileFact]:
    """A fact for each entry, by the paths of their first files. Raises `OSError` where nothing is known."""
    letters = [BY_PATH[path].id for path in paths]
    reports = check_run(root, letters)
    return [
        _fact(fact_at(root, path), path, reports[letter]) for path, letter in zip(paths, letters, strict=True)
    ]


def _fact(first: FileFact, path: str, report: Report) -> FileFact:
    """The fact about an entry whose first file has the state `first`. Each error of its contract is a broken rule."""
    if not report.has_errors:
        state = FileFact("excused") if first.state == "absent" else first._replace(state="file")
        return state._replace(rules=(RuleFact("profile", path, True, f"holds to its contract of {CTCP}"),))
    broken = tuple(
        RuleFact(each.rule, each.path, False, each.message, each.line)
        for each in report.findings()
        if each.severity == "error"
    )
    return first._replace(state="absent" if first.state == "absent" else "unfit", rules=broken)


# Whether git would apply a run's patch is checked without running anything that the tree configures: git is pointed at a
# repository that doesn't exist. So it reads no configuration of the tree, the user or the machine, and runs no hook,
# filter or monitor. It only reads files.
PATIENCE_S: Final = 60.0

_MOST_SAID: Final = 64 << 10
_SHOWN: Final = 300


class NoGit(Exception):
    """git can't be started."""


def check_applies(tree: str, documents: Documents, report: Report) -> None:
    """Report a patch that git refuses. A malformed patch is not passed to git."""
    document = documents.document(PATCH)
    if document.state != "file" or report.has_errors:
        return
    why = _why_not(tree, document.content)
    if why is not None:
        report.add("does_not_apply", why)


def _why_not(tree: str, patch: bytes | bytearray) -> str | None:
    import signal  # imported here because only those who ask for git need it
    import subprocess
    import tempfile

    from runward.daemon.rundir.work_tree import GIT, git_environment

    with tempfile.TemporaryFile() as patch_file, tempfile.TemporaryFile() as errors:
        patch_file.write(patch)
        patch_file.seek(0)
        try:
            process = subprocess.Popen(
                (*GIT, "apply", "--check", "--whitespace=nowarn", "-"),
                cwd=tree,
                env=git_environment({"GIT_DIR": "/nonexistent/git"}),
                stdin=patch_file,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise NoGit("git can't be started") from error
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"git apply --check did not end within {PATIENCE_S:g} s"
        if code == 0:
            return None
        errors.seek(0)
        text = errors.read(_MOST_SAID).decode(errors="replace").strip()
        return printable(text.split("\n")[0][:_SHOWN]) or f"git apply --check ended with {code}"
