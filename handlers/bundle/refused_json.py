"""What a strict reader of JSON refuses, and where in the text it is.

The text is read a second time, token by token, only when something in it is suspect.
"""

import re
from typing import Final, NamedTuple

from runward.config.problem import quoted

MAX_DEPTH: Final = 127
"""How deeply objects and lists may be nested; serde_json reads no deeper."""
TOO_DEEP: Final = "nested too deeply"
HALF_A_PAIR: Final = "half of a surrogate pair is not a character"
BEYOND_FLOATS: Final = "a number beyond the largest float"
_MOST_DIGITS: Final = 309
"""A whole number with more digits is beyond the largest float."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+("?)|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
"""A string that is never closed is one token, too. Otherwise each quote in it would be tried as the beginning of one."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class Refused(Exception):
    """Something in the text is refused; `first_fault` finds where."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class Fault(NamedTuple):
    """What is wrong, and the index of its first character."""

    at: int
    message: str


def integer_text(text: str) -> int | float:
    """A whole number as serde_json reads it: `-0` is a float, because no whole number is both zero and negative."""
    if text == "-0":
        return -0.0
    if len(text) > _MOST_DIGITS + 1:
        raise Refused(BEYOND_FLOATS)
    number = int(text)
    if len(text) >= _MOST_DIGITS:
        _refuse_beyond_floats(number)
    return number


def _refuse_beyond_floats(number: int) -> None:
    try:
        float(number)
    except OverflowError:
        raise Refused(BEYOND_FLOATS) from None


def first_fault(text: str, max_depth: int = MAX_DEPTH) -> Fault | None:
    """The first thing in a JSON text that a strict reader refuses."""
    keys: list[set[str] | None] = []  # one for each open object (its keys) or list (None)
    awaits_key = False
    for token in _TOKEN.finditer(text):
        word, at = token.group(), token.start()
        match word:
            case "{" | "[":
                keys.append(set() if word == "{" else None)
                if len(keys) > max_depth:
                    return Fault(at, f"nested deeper than {max_depth} levels")
                awaits_key = word == "{"
            case "}" | "]":
                if not keys:
                    return None
                keys.pop()
                awaits_key = False
            case ",":
                awaits_key = bool(keys) and keys[-1] is not None
            case ":":
                awaits_key = False
            case _ if word[0] == '"' and not token.group(1):
                return None
            case _ if word[0] == '"':
                content = _content(word)
                if isinstance(content, Fault):
                    return content._replace(at=at + content.at)
                if awaits_key and keys[-1] is not None:
                    if content in keys[-1]:
                        return Fault(at, f"the key {quoted(content)} appears twice in one object")
                    keys[-1].add(content)
            case _ if (message := _fault_of_word(word)) is not None:
                return Fault(at, message)
    return None


def _content(literal: str) -> str | Fault:
    """The text of a string literal, or half of a surrogate pair in it."""
    parts: list[str] = []
    end = 1
    high: tuple[int, str] | None = None  # the first half of a pair, and where it began
    for escape in _ESCAPE.finditer(literal):
        if high is not None and (escape.start() != end or not _is_low(escape.group(1))):
            return _half(*high)
        parts.append(literal[end : escape.start()])
        end = escape.end()
        code = escape.group(1)
        if high is not None:
            parts.append(chr(0x10000 + ((int(high[1], 16) - 0xD800) << 10) + int(code, 16) - 0xDC00))
            high = None
        elif code is None:
            parts.append(_SHORT.get(escape.group()[1], escape.group()[1]))
        elif 0xD800 <= int(code, 16) <= 0xDBFF:
            high = (escape.start(), code)
        elif _is_low(code):
            return _half(escape.start(), code)
        else:
            parts.append(chr(int(code, 16)))
    if high is not None:
        return _half(*high)
    parts.append(literal[end:-1])
    return "".join(parts)


_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _is_low(code: str | None) -> bool:
    return code is not None and 0xDC00 <= int(code, 16) <= 0xDFFF


def _half(at: int, code: str) -> Fault:
    return Fault(at, f"half of a surrogate pair (U+{code.upper()}) is not a character")


def _fault_of_word(word: str) -> str | None:
    if word in ("NaN", "Infinity", "-Infinity"):
        return f"{word} is not a JSON number"
    if word in ("true", "false", "null"):
        return None
    try:
        if word.lstrip("-").isdecimal():
            integer_text(word)
        elif abs(float(word)) == float("inf"):
            return BEYOND_FLOATS
    except Refused:
        return BEYOND_FLOATS
    except ValueError:
        return None  # not a number at all: the JSON reader reports it
    return None
