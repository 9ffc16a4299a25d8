"""Reading the parts of a bundle from its directory: no link is followed, and reads are bounded."""

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.configuration.extras import how_to_install
from runward.daemon.rundir.growing import FileBytes, Lines, data_after, is_empty
from runward.daemon.rundir.opening import LINK, REGULAR, ROOT, opened
from runward.handlers.bundle.canonical import FORMS
from runward.handlers.bundle.parts import PARTS, RECEIPT, REPLAY, SUMMARY, part_name
from runward.handlers.bundle.receipt import hash_form_of
from runward.handlers.bundle.replay_check import BundleProblem, HashCounts, ReplayCheck
from runward.handlers.bundle.replay_lines import LONGEST_LINE, RawLine, read_line
from runward.handlers.bundle.signatures import NoLibrary, signature_state
from runward.handlers.bundle.verify import (
    FileFacts,
    ReadReceipt,
    Recorded,
    Unread,
    Verified,
    missing_part,
    read_receipt,
    record_problems,
    replay_problems,
    summary_problems,
    verdict,
)

_CHUNK: Final = 1 << 20


class ReplayFile(FileBytes):
    """An open file whose bytes are hashed as they are read."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._digest = sha256()
        self._has_large_hole = False

    @property
    def size(self) -> int:
        """How many bytes were read."""
        return self.at

    @property
    def sha256(self) -> str | None:
        """The hash of what was read; None if a hole is longer than any line, because such a hole is not hashed."""
        return None if self._has_large_hole else self._digest.hexdigest()

    def read(self, most: int) -> bytes:
        piece = super().read(most)
        self._digest.update(piece)
        # A hole may have terabytes, which would take hours to hash. No line is as long, so it is wrong in any case.
        if piece and is_empty(piece) and data_after(self._descriptor, self.at) - self.at > LONGEST_LINE:
            self._has_large_hole = True
        return piece

    def pass_over_hole(self) -> int:
        passed = super().pass_over_hole()
        if passed > LONGEST_LINE:
            self._has_large_hole = True  # it has grown since `read` measured it
        if not self._has_large_hole:
            self._digest.update(bytes(passed))
        return passed

    def whole(self, largest: int) -> bytes | None:
        """All of the file; None if it has more bytes than `largest`. Raises `OSError`."""
        if os.fstat(self._descriptor).st_size > largest:
            return None
        pieces: list[bytes] = []
        while piece := super().read(_CHUNK):
            if self.at > largest:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def lines(self) -> Iterator[RawLine]:
        """Every line without its newline, the last one with or without. Raises `OSError`."""
        lines = Lines(self, LONGEST_LINE)
        while (whole := lines.read(_CHUNK)) is not None:
            for index, content in enumerate(whole.contents):
                yield RawLine(whole.number + index, None if index in whole.cut else content)
        if lines.length:
            yield RawLine(lines.position.lines + 1, None if lines.is_too_long else lines.unfinished)


UNCHECKED: Final = f"it can't be checked without the libraries for it: {how_to_install('sign')}"
LARGEST_RECEIPT: Final = 64 << 20
LARGEST_SUMMARY: Final = 16 << 20


def verify_bundle(
    directory: str,
    attempt: int,
    authorized: Callable[[], Collection[str]],
    require_signature: bool = False,
    recorded_of: Callable[[Mapping[str, JsonValue]], Recorded | None] = lambda _fields: None,
) -> Verified | None:
    """Verify the bundle of an attempt in a directory. None if it has no RECEIPT.json. Raises `OSError`.

    `authorized` gives the keys whose signatures count; it is called only if the receipt is signed. The bundle is also
    compared with what was recorded of it: `recorded_of` gets the fields of its receipt.
    """
    with opened(directory, ROOT) as within:
        content = _part(within, part_name(RECEIPT, attempt), LARGEST_RECEIPT)
        if content is None:
            return None
        if isinstance(content, Unread):
            receipt = ReadReceipt(None, (missing_part(RECEIPT, content.why),))
        else:
            receipt = read_receipt(content)
        hashes, problems = _replay(within, part_name(REPLAY, attempt), receipt)
        problems += _summary(within, part_name(SUMMARY, attempt), receipt)
    recorded = None if receipt.fields is None else recorded_of(receipt.fields)
    if recorded is not None:
        problems += record_problems(receipt, recorded)
    try:
        is_signed = receipt.fields is not None and receipt.fields.get("signature") is not None
        signature = signature_state(receipt.fields, authorized() if is_signed else ())
    except NoLibrary:
        problems.append(BundleProblem(RECEIPT, None, "signature", UNCHECKED))
        signature = "invalid"
    return verdict(
        receipt,
        hashes,
        problems,
        signature,
        require_signature=require_signature,
        is_compared=recorded is not None,
    )


def part_hashes(directory: str, attempt: int) -> dict[str, str]:
    """The SHA-256 of each part by its plain name, in hex. Raises `OSError`."""
    hashes: dict[str, str] = {}
    with opened(directory, ROOT) as within:
        for part in PARTS:
            name = part_name(part, attempt)
            with opened(name, REGULAR, within) as descriptor:
                refuse_irregular(descriptor, name)
                digest = sha256()
                while piece := os.read(descriptor, 1 << 20):
                    digest.update(piece)
            hashes[part] = digest.hexdigest()
    return hashes


def receipt_fields(directory: str, attempt: int) -> dict[str, JsonValue] | None:
    """The fields of the receipt in a directory; None if it cannot be read. Raises `OSError`."""
    with opened(directory, ROOT) as within:
        content = _part(within, part_name(RECEIPT, attempt), LARGEST_RECEIPT)
    return read_receipt(content).fields if isinstance(content, bytes) else None


def _replay(within: int, name: str, receipt: ReadReceipt) -> tuple[HashCounts, list[BundleProblem]]:
    forms = FORMS if receipt.fields is None else (hash_form_of(receipt.fields),)
    check = ReplayCheck(forms)
    try:
        with opened_part(within, name) as file:
            for line in file.lines():
                check.take(read_line(line))
    except FileNotFoundError:
        return check.facts.hashes, [missing_part(REPLAY, "the file is missing")]
    except OSError as error:
        return check.facts.hashes, [missing_part(REPLAY, _why(error))]
    file_facts = FileFacts(file.sha256, file.size)
    return check.facts.hashes, list(replay_problems(receipt, check.facts, file_facts, check.finish()))


def _summary(within: int, name: str, receipt: ReadReceipt) -> list[BundleProblem]:
    content = _part(within, name, LARGEST_SUMMARY)
    if content is None:
        return [missing_part(SUMMARY, "the file is missing")]
    if isinstance(content, Unread):
        return [missing_part(SUMMARY, content.why)]
    file_facts = FileFacts(sha256(content).hexdigest(), len(content))
    return list(summary_problems(receipt, content, file_facts))


def _part(within: int, name: str, largest: int) -> bytes | Unread | None:
    """All of a part; None if it does not exist."""
    try:
        with opened(name, REGULAR, within) as descriptor:
            refuse_irregular(descriptor, name)
            pieces: list[bytes] = []
            while piece := os.read(descriptor, 1 << 20):
                pieces.append(piece)
                largest -= len(piece)
                if largest < 0:
                    return Unread("the file is too large")
            return b"".join(pieces)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unread(_why(error))


@contextmanager
def opened_part(within: int, name: str) -> Iterator[ReplayFile]:
    """A replay in an open directory. Raises `OSError`."""
    with opened(name, REGULAR, within) as descriptor:
        refuse_irregular(descriptor, name)
        yield ReplayFile(descriptor)


@contextmanager
def opened_replay(path: str) -> Iterator[ReplayFile]:
    """A replay that a person named, so links on the way are followed. Raises `OSError`."""
    with opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY) as descriptor:
        refuse_irregular(descriptor, path)
        yield ReplayFile(descriptor)


def refuse_irregular(descriptor: int, name: str) -> None:
    """Raises `OSError` unless it is a regular file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(None, "not a regular file", name)


def _why(error: OSError) -> str:
    if error.errno == LINK:
        return "there is a link in its place; it is not followed"
    return f"it can't be read: {error.strerror}"
