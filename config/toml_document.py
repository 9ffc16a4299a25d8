"""Strict TOML: `tomllib` reads it, and what it reads must be plain data with known places."""

import re
import tomllib
from itertools import islice
from typing import Final

from runward.config.document import Document, Lines, Mark, refused
from runward.config.json_value import MAX_BYTES, MAX_DEPTH, not_plain
from runward.config.problem import MAX_PROBLEMS, Location, Parsed, Problem

_PLACE_IN_MESSAGE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


_PART: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY: Final = re.compile(
    rf"(?:^|[\[{{,])[ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{MAX_DEPTH}}}", re.MULTILINE
)
"""A key that is nested too deeply to be read. The same characters inside a text match, too, and are refused with it."""

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
# The text before three closing quotes may itself end with one or two of them.
_STRING: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}'''
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")


def line_of_deep_key(text: str) -> int | None:
    """The line of a key with so many parts that `tomllib`, which takes the square of their number, could take minutes."""
    match = _DEEP_KEY.search(text)
    return None if match is None else text.count("\n", 0, match.end()) + 1


def read_toml(text: str, name: str) -> Parsed[Document]:
    """The document in `text`, which came from file `name`, or everything that is wrong with it. Never raises."""
    text = text.removeprefix("\ufeff")
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        return refused(name, f"is larger than {MAX_BYTES >> 20} MiB", "split it")
    # Refused before `tomllib` sees it, which could take minutes for such a key.
    line = line_of_deep_key(text)
    if line is not None:
        return Parsed(
            None, (Problem(name, line, None, f"a key is nested more than {MAX_DEPTH} deep", "nest less"),)
        )
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Parsed(None, (_syntax_problem(text, name, str(error)),))
    except ValueError:
        return refused(name, "a number here is out of bounds", "put it in quotes")
    except RecursionError:
        return refused(name, "is nested too deeply to be read", "nest less")
    faults = list(islice(not_plain(root), MAX_PROBLEMS))
    too_deep = any("nested" in fault.message for fault in faults)
    # The scan for positions calls itself for each level.
    document = Document(name, root, {} if too_deep else toml_positions(text))
    return Parsed(None, document.problems(faults)) if faults else Parsed(document)


def _syntax_problem(text: str, name: str, message: str) -> Problem:
    match = _PLACE_IN_MESSAGE.search(message)
    line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    if match and match[1]:
        line, column = int(match[1]), int(match[2])
    message = message[: match.start()] if match else message
    fix = "correct it; texts and durations need quotes"
    return Problem(name, line, column, f"is not TOML: {message[:1].lower()}{message[1:]}", fix)


def toml_positions(text: str) -> dict[Location, Mark]:
    """A mark for every key, value, table and list item of a valid TOML text."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.marks


def toml_texts(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """The offsets of the items in an array of texts at the offset `start`, and where the array ends."""
    scanner = _Scanner(text)
    return scanner.texts(start)


class _Scanner:
    """One pass over one text that `tomllib` has accepted, so it looks for ends, not for mistakes.

    `_at` is the current offset.
    """

    def __init__(self, text: str) -> None:
        self.marks: dict[Location, Mark] = {(): Mark((1, 1))}
        self._text = text
        self._lines = Lines(text)
        self._at = 0
        self._lengths: dict[Location, int] = {}

    def scan(self) -> None:
        table: Location = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._key_and_value(table)
            self._skip(_BLANK)

    def texts(self, start: int) -> tuple[list[tuple[int, int]], int]:
        self._at = start + 1
        items = []
        while self._next_item("]"):
            item = self._at
            self._skip(_STRING)
            items.append((item, self._at))
        return items, self._at

    def _header(self) -> Location:
        """`[a.b]` or `[[a.b]]`: the location of the table that begins there."""
        start = self._at
        is_item = self._text.startswith("[[", start)
        self._at += 2 if is_item else 1
        keys = self._dotted_key()
        self._at = self._text.index("]", self._at) + (2 if is_item else 1)
        loc: Location = ()
        for key, offset in keys:
            if loc in self._lengths:
                loc = (*loc, self._lengths[loc] - 1)
            loc = (*loc, key)
            self.marks.setdefault(loc, self._mark(offset, offset))
        if is_item:
            index = self._lengths.get(loc, 0)
            self._lengths[loc] = index + 1
            loc = (*loc, index)
            self.marks[loc] = self._mark(start, start)
        return loc

    def _key_and_value(self, table: Location) -> None:
        loc, offset = table, self._at
        for key, offset in self._dotted_key():
            loc = (*loc, key)
            self.marks.setdefault(loc, self._mark(offset, offset))
        self._at = self._text.index("=", self._at) + 1
        self._skip(_BLANK)
        self.marks[loc] = self._mark(self._at, offset)
        self._value(loc)

    def _dotted_key(self) -> list[tuple[str, int]]:
        """Each part of the key here, with its offset."""
        keys: list[tuple[str, int]] = []
        while True:
            self._skip(_BLANK)
            start = self._at
            if self._text[start] in "\"'":
                keys.append((self._unquoted(self._skip(_STRING)), start))
            else:
                keys.append((self._skip(_BARE_KEY), start))
            self._skip(_BLANK)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _value(self, loc: Location) -> None:
        match self._text[self._at]:
            case "[":
                self._list(loc)
            case "{":
                self._inline_table(loc)
            case '"' | "'":
                self._skip(_STRING)
            case _:
                self._skip(_SCALAR)

    def _list(self, loc: Location) -> None:
        self._at += 1
        index = 0
        while self._next_item("]"):
            self.marks[(*loc, index)] = self._mark(self._at, None)
            self._value((*loc, index))
            index += 1

    def _inline_table(self, loc: Location) -> None:
        self._at += 1
        while self._next_item("}"):
            self._key_and_value(loc)

    def _next_item(self, end: str) -> bool:
        """Skip what separates two items. False past the end of the list or table."""
        self._skip(_BLANK)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_BLANK)
        if self._text[self._at] != end:
            return True
        self._at += 1
        return False

    def _unquoted(self, key: str) -> str:
        if key[0] == "'":
            return key[1:-1]
        return str(tomllib.loads(f"key = {key}")["key"])  # `tomllib` knows all escapes

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        assert match is not None, f"tomllib accepted what the scan can't follow at {self._at}"
        self._at = match.end()
        return match[0]

    def _mark(self, value: int, key: int | None) -> Mark:
        return Mark(self._lines.place(value), self._lines.place(key) if key is not None else None)
