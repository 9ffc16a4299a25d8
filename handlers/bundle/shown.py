"""What a replay shows of a value: no secrets, and long texts cut. JSON Pointers name what is missing.

Hashes cover the original values. Only what is written is redacted or cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.secrets import REDACTED, is_argument_of_secret, names_secret, secrets_with

_SHORTEST: Final = 4
"""Length of the shortest text that may look like a secret: `pw=x`. An operator's own pattern may match shorter ones."""
_KEYS_KEPT: Final = 1024


class Redaction:
    """Redacts values. `patterns` are the operator's, in RE2's syntax. Raises `BadPattern`."""

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._secrets = secrets_with(patterns)
        self._shortest = 1 if patterns else _SHORTEST
        self._keys: dict[str, bool] = {}

    def text(self, text: str) -> str:
        """The text without what looks like a secret. It is unchanged if nothing does."""
        return text if len(text) < self._shortest else self._secrets.without(text)

    def is_secret(self, key: str) -> bool:
        """Whether a key is itself a secret. Cached, because most keys occur again and again."""
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= _KEYS_KEPT:
                self._keys.clear()
            known = self._keys[key] = self.text(key) != key
        return known

    def key(self, key: str, value: JsonValue) -> bool:
        """Whether a key names a secret, and its value is one."""
        return names_secret(key, value) and value not in ("", [], {})


def pointer(parent: str, key: str | int) -> str:
    """The JSON Pointer (RFC 6901) of what is under this key or index."""
    if isinstance(key, int):
        return f"{parent}/{key}"
    return f"{parent}/{key.replace('~', '~0').replace('/', '~1')}"


def free_keys(taken: dict[str, JsonValue]) -> Iterator[str]:
    """Names for the keys of an object that were secrets themselves: each is free when it is asked for."""
    # No name becomes free again, so none is tried twice: an object may have a hundred thousand such keys.
    for number in count(1):
        name = REDACTED if number == 1 else f"{REDACTED} {number}"
        if name not in taken:
            yield name


ELLIPSIS: Final = "…"


def cut(text: str, longest: int) -> str:
    """The text, or its first and last halves of `longest` characters if it is longer."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}{ELLIPSIS}{text[len(text) - half :]}"


FREE: Final = frozenset({"params", "output", "step_id", "status"})
"""The fields of a line in which an agent may have written anything."""

_OF_ID: Final = 12
"""Hexadecimal digits of the hash of an id that was redacted, so that two calls don't become one."""

DEEPEST: Final = 62
"""Nesting levels of a shown value. The line and the output around it add two more, and readers accept 64."""

_NO_CHARACTER: Final = "\ufffd"


@dataclass(slots=True)
class Missing:
    """What isn't shown: pointers to redacted values, and the original length (characters) of each text that was cut."""

    redacted: list[str] = field(default_factory=list)
    cut: dict[str, int] = field(default_factory=dict)

    def named(self) -> dict[str, JsonValue]:
        """The keys of a line that name what is missing."""
        named: dict[str, JsonValue] = {}
        if self.redacted:
            named["redacted"] = list(self.redacted)
        if self.cut:
            named["cut"] = dict(self.cut)
        return named


class Showing:
    """Shows values: texts of at most `longest` characters, without what `redaction` removes."""

    def __init__(self, redaction: Redaction, longest: int) -> None:
        self._redaction = redaction
        self._longest = longest

    def fields(self, fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The fields of a line with what is shown of those in `FREE`, and the keys that name what isn't."""
        missing = Missing()
        shown = {key: self._value(fields[key], f"/{key}", missing) for key in fields if key in FREE}
        for key, named in (("id", self.id), ("tool", self.name)):
            written = fields.get(key)
            if isinstance(written, str):
                shown[key] = named(written)
                if shown[key] != written:
                    missing.redacted.append(f"/{key}")
        return {**fields, **shown, **missing.named()}

    def name(self, name: str) -> str:
        """A name that an agent chose, such as a tool's."""
        return self._redaction.text(name)

    def id(self, written: str) -> str:
        """The id of a call. One that was redacted still differs from others."""
        clean = self._redaction.text(written)
        if clean == written:
            return written
        # Two ids that are redacted to the same text are still two calls.
        return f"{clean} {sha256(written.encode(errors='replace')).hexdigest()[:_OF_ID]}"

    def _value(self, value: JsonValue, at: str, missing: Missing) -> JsonValue:
        if isinstance(value, str):
            return self._text(value, at, missing)
        if isinstance(value, dict):
            return self._object(value, at, missing)
        if isinstance(value, list):
            return self._list(value, at, missing)
        return value

    def _list(self, value: list[JsonValue], at: str, missing: Missing) -> list[JsonValue]:
        kept: list[JsonValue] = []
        before: JsonValue = None
        for index, each in enumerate(value):
            if is_argument_of_secret(before, each):
                kept.append(REDACTED)
                missing.redacted.append(pointer(at, index))
            elif isinstance(each, str | dict | list):
                kept.append(self._value(each, pointer(at, index), missing))
            else:
                kept.append(each)
            before = each
        return kept

    def _text(self, text: str, at: str, missing: Missing) -> str:
        whole = _whole(text)
        # Secrets go before the text is cut. The two halves of a secret that was cut would no longer look like one.
        clean = self._redaction.text(whole)
        if clean is not whole and clean != whole:
            missing.redacted.append(at)
        short = cut(clean, self._longest)
        if short is not clean:
            missing.cut[at] = len(text)
            if REDACTED in clean and REDACTED not in short and missing.redacted[-1:] == [at]:
                missing.redacted.pop()  # it is in the part that was cut out
        return short

    def _is_shown_whole(self, key: str, text: str) -> bool:
        """Whether nothing is missing of a text under this key: so it is with most, and then its place needs no name."""
        redaction = self._redaction
        return (
            len(text) <= self._longest
            and not redaction.is_secret(key)
            and not redaction.key(key, text)
            and redaction.text(text) is text
        )

    def _object(self, value: dict[str, JsonValue], at: str, missing: Missing) -> dict[str, JsonValue]:
        kept: dict[str, JsonValue] = {}
        names = free_keys(kept)
        for written, each in value.items():
            key = _whole(written)
            if isinstance(each, str) and each.isascii() and self._is_shown_whole(key, each):
                kept[key] = each
            elif self._redaction.is_secret(key):
                name = next(names)
                kept[name] = REDACTED
                missing.redacted.append(pointer(at, name))
            elif not isinstance(each, str | dict | list):
                kept[key] = each
            elif self._redaction.key(key, each):
                kept[key] = REDACTED
                missing.redacted.append(pointer(at, key))
            else:
                kept[key] = self._value(each, pointer(at, key), missing)
        return kept


def is_deeper(value: JsonValue, levels: int) -> bool:
    """Whether objects and lists are nested more deeply than this."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            each
            for one in level
            for each in (one.values() if isinstance(one, dict) else one)
            if isinstance(each, dict | list)
        ]
        if not level:
            return False
    return bool(level)


def _whole(text: str) -> str:
    """The text with a replacement for each lone surrogate, which UTF-8 can't hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(_NO_CHARACTER if "\ud800" <= each <= "\udfff" else each for each in text)
    return text


def is_redacted(event: dict[str, JsonValue], key: str) -> bool:
    """Whether the line names something below `key` as redacted, and it really is."""
    # A pointer counts only if it leads to a text with the mark. Otherwise a line could exempt its values from the check
    # by naming them.
    named = event.get("redacted")
    return isinstance(named, list) and any(_stands(event, key, pointer, REDACTED) for pointer in named)


def is_cut(event: dict[str, JsonValue], key: str) -> bool:
    """Whether the line names a text below `key` as cut, and it really is."""
    named = event.get("cut")
    return isinstance(named, dict) and any(_stands(event, key, pointer, ELLIPSIS) for pointer in named)


def _stands(event: dict[str, JsonValue], key: str, pointer: JsonValue, mark: str) -> bool:
    """Whether a JSON Pointer leads from `key` to a text that contains the mark."""
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        return False
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    if parts[0] != key:
        return False
    value: JsonValue = event
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        # The pointer comes from a file of others, so its parts are bounded before they become numbers.
        elif isinstance(value, list) and part.isdecimal() and len(part) < 10 and int(part) < len(value):
            value = value[int(part)]
        else:
            return False
    return isinstance(value, str) and mark in value
