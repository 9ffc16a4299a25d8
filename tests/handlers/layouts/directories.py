"""Feeding the scanners of run directories: documents and logs of our own making, whole, in portions, and spoilt."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.handlers.layouts.transcript import LogLine, Resumed, Told, TranscriptScanner
from runward.handlers.model.files import Signature, signature_of
from runward.handlers.model.sessions import Document

Logs = Mapping[str, Sequence[bytes]]


HUGE: Final = (10**400, -(10**400), float("inf"))
"""Numbers beyond those that a float can hold; `json_text` writes the last one as 1e400."""


def json_text(value: object, **options: Any) -> str:
    """The value in JSON. Infinity, which JSON has not, is a number that is too large for a float."""
    return json.dumps(value, **options).replace("Infinity", "1e400")


def as_bytes(value: JsonValue | bytes) -> bytes:
    return value if isinstance(value, bytes) else json_text(value).encode()


def document(name: str, value: JsonValue | bytes, modified_at: float = 0.0) -> Document:
    content = as_bytes(value)
    return Document(name, Signature(1, len(content), 1), modified_at, content)


def numbered(contents: Sequence[bytes], first: int = 1) -> list[LogLine]:
    return [LogLine(number, content) for number, content in enumerate(contents, first)]


def fed(
    scanner: TranscriptScanner[Any], name: str, logs: Logs, documents: Sequence[Document] = ()
) -> tuple[Told, list[Resumed]]:
    """What a scanner tells of a directory, read as `inspect` does: the logs, then the documents."""
    state = scanner.start(name)
    resumed: list[Resumed] = []
    for file, contents in logs.items():
        state, more = scanner.feed(state, file, numbered(contents))
        resumed += more
    return scanner.tell(scanner.see(state, documents)), resumed


def fed_in_portions(
    scanner: TranscriptScanner[Any], name: str, file: str, contents: Sequence[bytes], cuts: Sequence[int]
) -> tuple[Told, list[Resumed]]:
    """The same log in portions that end at `cuts`, its state stored and read again after each."""
    state, begin = scanner.start(name), 0
    resumed: list[Resumed] = []
    for end in sorted({min(cut, len(contents)) for cut in (*cuts, len(contents))}):
        state, more = scanner.feed(state, file, numbered(contents[begin:end], begin + 1))
        state, begin = scanner.load(scanner.dump(state)), end
        resumed += more
    return scanner.tell(state), resumed


def recorded(directory: Path, names: Sequence[str]) -> list[Document]:
    """Documents as they lie in a directory."""
    found = []
    for name in names:
        path = directory / name
        status = path.stat()
        found.append(Document(name, signature_of(status), status.st_mtime, path.read_bytes()))
    return found


def recognised(
    directory: Path, recognises: Callable[[frozenset[str], Mapping[str, bytes]], bool], markers: Sequence[str]
) -> bool:
    """Whether a directory on disk is recognised by its names and the beginnings of its markers."""
    heads = {
        name: (directory / name).read_bytes()[: 256 << 10] for name in markers if (directory / name).is_file()
    }
    return recognises(frozenset(os.listdir(directory)), heads)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(HUGE) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _swapped(draw: st.DrawFn, line: bytes) -> bytes:
    """The record with some fields of another type: anyone who reads one must look at what it holds."""
    record = json.loads(line)
    for key in draw(st.lists(st.sampled_from(sorted(record)), min_size=1, max_size=3)):
        record[key] = draw(ANYTHING)
    return as_bytes(record)


@st.composite
def spoilt(draw: st.DrawFn, contents: Sequence[bytes]) -> bytes:
    """A line of the log as a crash, a full disk or another version may have left it."""
    line, other = draw(st.sampled_from(contents)), draw(st.sampled_from(contents))
    place = draw(st.integers(0, len(line)))
    match draw(st.sampled_from(("flip", "cut", "splice", "glue", "NULs", "swap", "bare"))):
        case "flip":
            place = min(place, len(line) - 1)
            return line[:place] + bytes([line[place] ^ draw(st.integers(1, 255))]) + line[place + 1 :]
        case "cut":
            return line[:place]
        case "splice":
            return line[:place] + other[draw(st.integers(0, len(other))) :]
        case "glue":
            return line + other
        case "NULs":
            return line[:place] + b"\0" * draw(st.integers(1, 9)) + line[place:]
        case "swap":
            return _swapped(draw, line)
    return as_bytes(draw(ANYTHING))


@st.composite
def spoilt_log(draw: st.DrawFn, contents: Sequence[bytes]) -> list[bytes]:
    """Twenty lines, most of them spoilt."""
    good = st.sampled_from(contents)
    return draw(st.lists(spoilt(contents) | spoilt(contents) | good, min_size=20, max_size=20))
