"""Paths in a patch's header lines: plain, or quoted as git does, with C's escapes and octal bytes."""

import re
from typing import Final

NOWHERE: Final = "/dev/null"

_LONGEST_PATHS: Final = 16 << 10
"""Characters of two paths without quotes: Linux has none of more than 4,096. The ways to part them grow with the length."""

_ESCAPE: Final = re.compile(r"\\([abtnvfr\"\\]|[0-3][0-7]{2})")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\(?:[abtnvfr"\\]|[0-3][0-7]{2}))*)"')
_MEANINGS: Final = dict(zip('abtnvfr"\\', '\a\b\t\n\v\f\r"\\', strict=True))


def one_path(text: str) -> str | None:
    """The path in the text, quoted or not. None if its quoting is broken. A time after a tab is dropped."""
    if not text.startswith('"'):
        return text.partition("\t")[0]
    quoted = _QUOTED.match(text)
    if quoted is None or text[quoted.end() :].partition("\t")[0]:
        return None
    return _unquoted(quoted[1])


def two_paths(text: str) -> list[tuple[str, str]]:
    """Every way to read the text as two paths with a blank between them."""
    if text.startswith('"'):
        quoted = _QUOTED.match(text)
        if quoted is None or text[quoted.end() : quoted.end() + 1] != " ":
            return []
        second = one_path(text[quoted.end() + 1 :])
        return [] if second is None else [(_unquoted(quoted[1]), second)]
    if text.endswith('"'):
        at = text.find(' "')
        last = _QUOTED.fullmatch(text, at + 1) if at != -1 else None
        return [] if last is None else [(text[:at], _unquoted(last[1]))]
    if len(text) > _LONGEST_PATHS:
        return []
    return [(text[: at.start()], text[at.end() :]) for at in re.finditer(" (?=b/)", text)]


def _unquoted(inside: str) -> str:
    """The text between the quotes, which is bytes: octal escapes are bytes of UTF-8."""
    raw = _ESCAPE.sub(lambda found: _MEANINGS.get(found[1]) or chr(int(found[1], 8)), _as_bytes(inside))
    return raw.encode("latin-1").decode(errors="surrogateescape")


def _as_bytes(text: str) -> str:
    """The text's bytes, one character for each."""
    return text.encode(errors="surrogateescape").decode("latin-1")
