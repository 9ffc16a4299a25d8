"""The parts of a SARIF log that matter, read from a stream of JSON. Everything else is passed over without being kept.

The log may be hostile: its depth, its number of values and what is kept of it are bounded.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

import ijson

from runward.config.json_value import JsonValue
from runward.handlers.outcomes.findings import DEEPEST, NotAReport, Pieces

MOST_VALUES: Final = 16 << 20
"""Values, keys and brackets of a log that are passed over at most: a quarter of the bytes of the largest one."""

MOST_KEPT: Final = 96 << 20
"""Bytes that rules and files of a log, or one of its results, may take; each value counts for its text and 64 more."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of which the first `most` items are kept."""

    item: "Shape"
    most: int = MOST_VALUES


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with any keys."""

    value: "Shape"


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of this kind."""

    kind: str


TEXT, NUMBER, BOOLEAN = Scalar("string"), Scalar("number"), Scalar("boolean")
A_LIST: Final = Scalar("list")
"""A list whose items are not kept: true if there is one."""

Shape: TypeAlias = Scalar | Word | ListOf | MapOf | Mapping[str, "Shape"]
"""What is kept of a value. `null` is as good as nothing, whatever is expected."""

_NAMES: Final = {"string": "a text", "number": "a number", "boolean": "true or false", "list": "a list"}
_OPENING: Final = frozenset({"start_map", "start_array"})
_CLOSING: Final = frozenset({"end_map", "end_array"})

Event: TypeAlias = tuple[str, "str | int | float | bool | None"]


class SarifStream:
    """The events of a log from its beginning. Raises `NotAReport`."""

    def __init__(self, pieces: Pieces) -> None:
        self._events = _bounded(_parsed(pieces))
        self._left = MOST_KEPT

    def members(self, first: Event, place: str, *wanted: str) -> Iterator[tuple[str, Event]]:
        """The key and the first event of each `wanted` member of the object that begins with `first`.

        The value must be read before the next is asked for.
        """
        self.opened(first, place)
        seen: set[str] = set()
        for event, key in self._events:
            if event == "end_map":
                return
            assert isinstance(key, str)
            following = next(self._events)
            if key not in wanted:
                self._pass(following[0])
                continue
            # Readers disagree about a key that appears twice, so the log has no single meaning.
            if key in seen:
                raise NotAReport(f"is not a SARIF log: {place}.{key} appears twice".replace(" .", " "))
            seen.add(key)
            yield key, following

    def items(self, first: Event, place: str) -> Iterator[tuple[int, Event]]:
        """The number and the first event of each item of the list that begins with `first`.

        Each item must be read before the next is asked for.
        """
        if first[0] != "start_array":
            raise NotAReport(f"is not a SARIF log: {place} must be a list")
        for number, each in enumerate(self._events):
            if each[0] == "end_array":
                return
            yield number, each

    def opened(self, first: Event, place: str) -> None:
        """Check that an object begins here."""
        if first[0] != "start_map":
            raise NotAReport(f"is not a SARIF log: {place or 'it'} must be an object")

    def rest(self) -> None:
        """Read to the end."""
        for _ in self._events:
            pass

    def begin(self) -> Event:
        """The first event."""
        return next(self._events)

    def pass_over(self, first: Event) -> None:
        """Pass over the value that begins with `first`."""
        self._pass(first[0])

    @property
    def left(self) -> int:
        """Bytes that may still be kept."""
        return self._left

    def renew(self) -> None:
        """What is kept from here on counts anew."""
        self._left = MOST_KEPT

    def kept(self, first: Event, shape: Shape, place: str) -> JsonValue:
        """What the shape keeps of the value that begins with the event `first`. `place` is its place in the log."""
        event, value = first
        if event == "null":
            return None
        if isinstance(shape, ListOf):
            return self._list(first, shape, place)
        if isinstance(shape, MapOf | Mapping):
            self.opened(first, place)
            return self._object(shape, place)
        if shape is A_LIST and event == "start_array":
            self._pass(event)
            return True
        if isinstance(shape, Word):
            if event != "string" or value not in shape.words:
                raise NotAReport(f"is not a SARIF log: {place} must be one of {', '.join(shape.words)}")
        elif shape is A_LIST or event != shape.kind:
            raise NotAReport(f"is not a SARIF log: {place} must be {_NAMES[shape.kind]}")
        # The fast part of the library reads every number as a float.
        if isinstance(value, float) and value.is_integer():
            return int(value)
        self._count(len(value) if isinstance(value, str) else 0)
        return value

    def _list(self, first: Event, shape: ListOf, place: str) -> JsonValue:
        values: list[JsonValue] = []
        for number, each in self.items(first, place):
            if number >= shape.most:
                self._pass(each[0])
                continue
            self._count(0)
            values.append(self.kept(each, shape.item, f"{place}[{number}]"))
        return values

    def _object(self, shape: MapOf | Mapping[str, Shape], place: str) -> JsonValue:
        table: dict[str, JsonValue] = {}
        for event, key in self._events:
            if event == "end_map":
                break
            assert isinstance(key, str)
            following = next(self._events)
            inner = shape.value if isinstance(shape, MapOf) else shape.get(key)
            if inner is None:
                self._pass(following[0])
                continue
            if key in table:
                raise NotAReport(f"is not a SARIF log: {place}.{key[:80]} appears twice")
            self._count(len(key) if isinstance(shape, MapOf) else 0)
            table[key] = self.kept(following, inner, f"{place}.{key[:80]}")
        return table

    def _pass(self, event: str) -> None:
        """Pass over the rest of a value that begins with this event."""
        if event not in _OPENING:
            return
        depth = 1
        for each, _ in self._events:
            if each in _OPENING:
                depth += 1
            elif each in _CLOSING:
                depth -= 1
                if not depth:
                    return

    def _count(self, size: int) -> None:
        # Each value costs memory beyond its text.
        self._left -= size + 64
        if self._left < 0:
            raise NotAReport(f"is a SARIF log whose rules and files take more than {MOST_KEPT >> 20} MiB")


def _without_mark(pieces: Pieces) -> Iterator[bytes]:
    """The pieces without a byte order mark at their beginning. None is empty: the library would take it for the end."""
    head: bytes | None = b""
    for piece in pieces():
        if head is not None:
            head += piece
            if len(head) < len(BOM_UTF8):
                continue
            piece, head = head.removeprefix(BOM_UTF8), None
        if piece:
            yield piece
    if head:
        yield head


def _parsed(pieces: Pieces) -> Iterator[Event]:
    """The events of the library, by its fast part as far as that goes.

    That part knows no whole number of more than 64 bits. With `use_float=False` it does, but there a number that Python
    can't read leaves an error that surfaces somewhere later, so the slow part reads on.
    """
    number = 0
    try:
        for each in ijson.basic_parse(ijson.from_iter(_without_mark(pieces)), use_float=True):
            yield each
            number += 1
    except ijson.JSONError as error:
        if "overflow" not in _said(error):
            raise
    else:
        return
    slow = ijson.get_backend("python")
    # The slow part reads from the beginning, and what was given already is left out.
    yield from islice(slow.basic_parse(ijson.from_iter(_without_mark(pieces))), number, None)


def _bounded(events: Iterator[Event]) -> Iterator[Event]:
    depth = 0
    try:
        for number, each in enumerate(events):
            if each[0] in _OPENING:
                depth += 1
                if depth > DEEPEST:
                    raise NotAReport(f"is not a SARIF log: it is nested more than {DEEPEST} levels deep")
            elif each[0] in _CLOSING:
                depth -= 1
            if number >= MOST_VALUES:
                raise NotAReport(f"is a SARIF log with more than {MOST_VALUES >> 20} million values")
            yield each
    except (ijson.JSONError, ValueError, ArithmeticError) as error:
        raise NotAReport(f"is not JSON: {_said(error)}") from None


def _said(error: Exception) -> str:
    """The library's words in one line; it quotes the text around the fault, as bytes if that is not UTF-8."""
    text = error.args[0] if error.args else ""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return str(text).partition("\n")[0].strip()[:200] or type(error).__name__
