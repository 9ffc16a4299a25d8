"""Reading the lines of a log that somebody else writes: one JSON record per line, and what goes wrong with that.

Real logs hold torn lines, records glued together, runs of NUL bytes, broken UTF-8 and lines of any length. What can be
read of them is read, the rest is counted, and nothing raises. What a record means is up to its layout.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.layouts.transcript import MOST_COMPLAINTS, LogLine
from runward.handlers.model.sessions import Complaint

MOST_GLUED: Final = 1000
"""Records that are searched for in one line; anything after them in that line is given up."""

MOST_TORN: Final = 20
"""Pieces of one line that are not records. After that many the line is given up: each costs time proportional to it."""

OPENING: Final = 1 << 16
"""Bytes of a cut line that are examined: a record's short fields come before its long ones, or they are lost."""

DEEPEST: Final = 64
"""Levels of a cut line that are kept open: anything deeper is lost with the rest of it."""

_PLACE: Final = re.compile(r"\(byte (\d+)\)")
_BETWEEN_RECORDS: Final = '}{"'
_DECODER: Final = json.JSONDecoder()
_FAST_DECODER: Final = msgspec.json.Decoder()
_PLAIN_DECODER: Final = msgspec.json.Decoder(msgspec.Raw)
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_CLOSERS: Final = {b"{": b"}", b"[": b"]"}
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}:,"]|[^][{}:,"\s]+', re.DOTALL)


def decode(content: bytes | memoryview | str) -> JsonValue:
    """The JSON value that somebody wrote, without a byte order mark before it. Raises `ValueError`."""
    try:
        value: JsonValue = _FAST_DECODER.decode(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        if isinstance(content, bytes) and content.startswith(BOM_UTF8):
            return decode(content[len(BOM_UTF8) :])
        raise
    return value


def is_plain(content: bytes) -> bool:
    """Whether this is one whole JSON value. Nothing is made of it, so this takes a fraction of what reading it takes."""
    try:
        _PLAIN_DECODER.decode(content)
    except (ValueError, RecursionError):
        return False
    return True


def is_object(content: bytes) -> bool:
    """Whether this is one whole JSON object, so that nothing of it can be missing."""
    if not content.endswith(b"}"):
        return False
    try:
        return isinstance(decode(content), dict)
    except ValueError:
        return False


def why_not(error: ValueError) -> str:
    """What is wrong with invalid JSON, without quoting it."""
    if isinstance(error, UnicodeDecodeError):
        return f"not JSON: not UTF-8 (byte {error.start})"
    return f"not JSON: {str(error).removeprefix('JSON is malformed: ')}"


def error_line(content: bytes, error: ValueError) -> int | None:
    """The line of `content` at which it stops being JSON: the last one if it breaks off, None if that is not known."""
    place = _PLACE.search(str(error))
    if place is None:
        return content.count(b"\n") + 1 if "truncated" in str(error) else None
    return content.count(b"\n", 0, int(place[1])) + 1


class Unreadable:
    """The lines that could not be read while a scanner is fed: all are counted, the first are named."""

    __slots__ = ("complaints", "count")

    def __init__(self, count: int, complaints: Sequence[Complaint]) -> None:
        self.count = count
        self.complaints = list(complaints)

    def add(
        self, file: str, line: int, message: str, fix: str = "ignored: the lines around it count"
    ) -> None:
        """Count a line; `message` says what is wrong with it, without quoting it, `fix` what happens to it."""
        self.count += 1
        if len(self.complaints) < MOST_COMPLAINTS:
            self.complaints.append(Complaint(file, line, message, fix))


def records(file: str, lines: Sequence[LogLine], unreadable: Unreadable) -> Iterator[JsonValue]:
    """The JSON values that the lines hold, in order: usually one a line, and usually an object.

    A glued line gives several. Of a cut line there is the part before the cut. Lines that hold nothing readable, or
    also something unreadable, go to `unreadable`. Blank lines are ignored.
    """
    loads = decode
    for number, content, is_cut in lines:
        if is_cut:
            opening = _opening(content)
            if opening is None:
                unreadable.add(file, number, "too long, and its beginning is not a JSON object")
            else:
                yield opening
            continue
        value: JsonValue
        try:
            value = loads(content)
        except ValueError as error:
            if content and not content.isspace():
                yield from _fixed(file, number, content, why_not(error), unreadable)
        else:
            yield value


def _fixed(file: str, number: int, content: bytes, why: str, unreadable: Unreadable) -> Iterator[JsonValue]:
    """The objects in a line that is not JSON: without its NULs, and one by one where some are glued."""
    text = content.replace(b"\0", b"").decode(errors="replace")
    place, objects, torn = 0, 0, 0
    while (place := _skip_blank(text, place)) < len(text):
        if objects == MOST_GLUED:
            torn += 1
            break
        try:
            value, place = _object_at(text, place)
        except (ValueError, RecursionError):
            torn += 1
            border = text.find(_BETWEEN_RECORDS, place)
            if border < 0 or torn == MOST_TORN:
                break
            place = border + 1
        else:
            objects += 1
            yield value
    if torn or not objects:
        unreadable.add(file, number, why)


def _skip_blank(text: str, place: int) -> int:
    blank = _BLANK.match(text, place)
    return place if blank is None else blank.end()


def _object_at(text: str, place: int) -> tuple[JsonValue, int]:
    """The object that begins at `place`, and where it ends, as `decode` would have read it.

    Lone surrogates (half a character) are replaced: they can't be stored. Raises `ValueError` if there is no object.
    """
    if text[place] != "{":
        raise ValueError("no object")
    decoded, end = _DECODER.raw_decode(text, place)
    return decode(json.dumps(decoded, ensure_ascii=False).encode(errors="replace")), end


def _opening(content: bytes) -> JsonValue | None:
    """The complete part at the beginning of a cut line, its objects and lists closed. None if no field is complete."""
    content = content[:OPENING]
    closers: list[bytes] = []
    end, closing, previous = 0, b"", b""
    for token in _TOKEN.finditer(content):
        text, before, previous = token[0], previous, token[0]
        if text in _CLOSERS:
            closers.append(_CLOSERS[text])
        elif text == b"}" or text == b"]":
            if not closers or closers.pop() != text:
                return None
        elif text == b"," or text == b":":
            continue
        elif text == b'"' or token.end() == len(content):
            break
        elif not closers or (closers[-1] == b"}" and before != b":"):
            continue
        if len(closers) > DEEPEST:
            break
        end, closing = token.end(), b"".join(reversed(closers))
    try:
        value = decode(content[:end].decode(errors="replace") + closing.decode())
    except ValueError:
        return None
    return value if isinstance(value, dict) and value else None
