"""The files of a run directory as the contracts get them: already read, within bounds."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.handlers.ctcp.report import Report

MOST_BYTES: Final = 16 << 20
"""Bytes of any file except the patch and the journal, and of one line of those."""

MOST_OF_LINES: Final = 256 << 20
"""Bytes of the patch and of the journal."""

MOST_LINES: Final = 10_000_000
"""Lines of the patch and of the journal."""

State: TypeAlias = Literal["file", "absent", "not_regular", "denied", "too_large"]


class Document(NamedTuple):
    """One file. If its state is `file`, its content is there, unless only its existence was asked for."""

    state: State
    content: bytes | bytearray = b""


ABSENT: Final = Document("absent")


class Entry(NamedTuple):
    """A name in a zip file's directory, and its unpacked size as the directory states it."""

    name: str
    size: int


class ZipDirectory(NamedTuple):
    """The directory of a zip file. `problem` says why it can't be read; `is_too_large` that nobody should read it."""

    entries: tuple[Entry, ...] = ()
    problem: str | None = None
    is_too_large: bool = False


class Documents(NamedTuple):
    """The files that a contract needs, by their paths, and the failure bundle's directory if there is one."""

    files: Mapping[str, Document]
    bundle: ZipDirectory | None = None

    def document(self, path: str) -> Document:
        return self.files.get(path, ABSENT)

    def is_there(self, path: str) -> bool:
        return self.document(path).state == "file"


def content_of(documents: Documents, path: str, report: Report) -> bytes | bytearray | None:
    """The file's content. None, with a finding, if there is none."""
    document = documents.document(path)
    why = why_unread(document)
    if why is None:
        return document.content
    if document.state == "absent" and report.allows_missing:
        return None
    report.add("too_large" if document.state == "too_large" else "missing", why, path=path)
    return None


def lined_content_of(documents: Documents, path: str, report: Report) -> bytes | bytearray | None:
    """Like `content_of`, for a file that is read line by line."""
    content = content_of(documents, path, report)
    if content is not None and content.count(b"\n") > MOST_LINES:
        report.add("too_large", f"has more than {MOST_LINES:,} lines", path=path)
        return None
    return content


def why_unread(document: Document) -> str | None:
    """Why a file has no content here."""
    match document.state:
        case "file":
            return None
        case "absent":
            return "the file does not exist"
        case "not_regular":
            return "is not a regular file; links are not followed"
        case "denied":
            return "can't be read; check its permissions"
        case "too_large":
            return "is too large"
