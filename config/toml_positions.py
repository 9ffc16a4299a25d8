"""Where the keys and values of a TOML document are: `tomllib` reads them but doesn't say.

It scans a text that `tomllib` has already accepted, so it looks for ends, not for mistakes.
"""

import re
from typing import Final

from runward.config.document import Lines, Mark
from runward.config.problem import Location

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}'''
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")


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
    """One pass over one text; `_at` is the current offset."""

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
        found = []
        while self._next_item("]"):
            item = self._at
            self._skip(_STRING)
            found.append((item, self._at))
        return found, self._at

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
        import tomllib

        return str(tomllib.loads(f"key = {key}")["key"])  # `tomllib` knows all escapes

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        assert match is not None, f"tomllib accepted what the scan can't follow at {self._at}"
        self._at = match.end()
        return match[0]

    def _mark(self, value: int, key: int | None) -> Mark:
        return Mark(self._lines.place(value), self._lines.place(key) if key is not None else None)
