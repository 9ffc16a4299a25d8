"""Key lines: `Key: value`, as the contracts' Markdown files have them.

A key's case and leading blanks are ignored. Lines that begin with `#` are not key lines, and neither are bullets.
The last repetition wins. A key without a value has the bullets below it as its value.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_KEY: Final = re.compile(r"[ \t]*([^\s:#*+-][^:]*):(.*)")
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|)$")
_SEPARATOR: Final = re.compile(r"[,;|]")
_LONGEST_KEY: Final = 200


class KeyLine(NamedTuple):
    """The text after a key, and the line of the key."""

    value: str
    bullets: tuple[str, ...]
    line: int

    @property
    def items(self) -> tuple[str, ...]:
        """The value as a list: split at `,` `;` `|`, with or without `[ ]`. `none` is an empty list."""
        parts = [self.value] if self.value else list(self.bullets)
        return tuple(item for part in parts for item in _items(part))


def key_lines(content: bytes | bytearray) -> Mapping[str, KeyLine]:
    """The key lines of a text, by their keys in lower case."""
    found: dict[str, KeyLine] = {}
    open_key, bullets = "", list[str]()

    def close() -> None:
        if open_key:
            found[open_key] = found[open_key]._replace(bullets=tuple(bullets))

    for number, line in enumerate(content.decode(errors="replace").split("\n"), 1):
        bullet = _BULLET.match(line)
        if bullet is not None:
            if open_key:
                bullets.append((bullet[1] or "").strip())
            continue
        key = _KEY.match(line) if len(line) < 1 << 20 else None
        name = "" if key is None else key[1].rstrip(" \t").lower()
        if key is None or len(name) > _LONGEST_KEY:
            if line.strip():
                close()
                open_key = ""
            continue
        close()
        value = key[2].strip()
        found[name] = KeyLine(value, (), number)
        open_key, bullets = ("" if value else name), []
    close()
    return found


def _items(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    items = [each.strip() for each in _SEPARATOR.split(text)]
    return [each for each in items if each and each.lower() != "none"]
