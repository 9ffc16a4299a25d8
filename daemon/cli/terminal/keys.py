"""Keys that a person presses, from the bytes that a terminal sends for them."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

_SEQUENCE: Final = re.compile(rb"\x1b(?:\[[0-9;?]*[@-~]|O[@-~])")
_BEGUN: Final = re.compile(rb"\x1b(?:\[[0-9;?]*|O)?\Z")
"""What may still become a sequence."""

_LONGEST: Final = 32
"""Bytes that a sequence has at most: what is longer is none."""

_NAMES: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
}
_CONTROLS: Final = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}

LATE_S: Final = 0.05
"""Seconds after which an escape is a key of its own, and not the begin of a sequence."""


class Keys:
    """Turns bytes into keys: a printable character is itself, others have a name. What is not known is left out."""

    def __init__(self) -> None:
        self._pending = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_pending(self) -> bool:
        """Whether the last bytes may be the begin of a key."""
        return bool(self._pending)

    def of(self, content: bytes) -> list[str]:
        """The keys that these bytes complete."""
        self._pending += content
        return list(self._complete())

    def late(self) -> list[str]:
        """Nothing followed: what looked like the begin of a sequence was the escape key."""
        rest, self._pending = self._pending, b""
        return ["escape", *self._characters(rest[1:])] if rest else []

    def forget(self) -> None:
        """Drop what has begun."""
        self._pending = b""
        self._decoder.reset()

    def _complete(self) -> Iterator[str]:
        while self._pending:
            before, escape, _ = self._pending.partition(b"\x1b")
            if before or not escape:
                self._pending = self._pending[len(before) :]
                yield from self._characters(before)
            elif sequence := _SEQUENCE.match(self._pending):
                self._pending = self._pending[sequence.end() :]
                if sequence[0] in _NAMES:
                    yield _NAMES[sequence[0]]
            elif _BEGUN.match(self._pending) and len(self._pending) < _LONGEST:
                return
            else:
                self._pending = self._pending[1:]
                yield "escape"

    def _characters(self, content: bytes) -> Iterator[str]:
        for character in self._decoder.decode(content):
            if character in _CONTROLS:
                yield _CONTROLS[character]
            elif character.isprintable():
                yield character
