"""The fields of a contract's JSON document: read once, and each fault named with its place."""

from collections.abc import Iterator
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.problem import kind, quoted
from runward.handlers.ctcp.documents import Documents, content_of
from runward.handlers.ctcp.report import Report
from runward.handlers.json_places import line_of
from runward.handlers.layouts.foreign_json import NotJson, read_json

_LARGEST_WITH_LINES: Final = 256 << 10
"""The largest document, in bytes, in which lines are looked up: each look-up walks through the document."""


class Fields:
    """One object of a document. A field that is asked for and missing, or of another type, is reported."""

    def __init__(
        self, value: dict[str, JsonValue], report: Report, text: str, place: tuple[str | int, ...] = ()
    ) -> None:
        self._value, self._report, self._text, self._place = value, report, text, place

    def text(self, key: str) -> str | None:
        found = self._value.get(key)
        if isinstance(found, str):
            return found
        self._wrong(key, "a text")
        return None

    def whole(self, key: str) -> int | None:
        found = self._value.get(key)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        self._wrong(key, "a whole number")
        return None

    def number(self, key: str) -> float | None:
        found = self._value.get(key)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return found
        self._wrong(key, "a number")
        return None

    def items(self, key: str) -> list[JsonValue] | None:
        found = self._value.get(key)
        if isinstance(found, list):
            return found
        self._wrong(key, "a list")
        return None

    def table(self, key: str) -> "Fields | None":
        found = self._value.get(key)
        if isinstance(found, dict):
            return self._below(found, key)
        self._wrong(key, "an object")
        return None

    def texts(self, key: str) -> list[str] | None:
        """A list of texts, without items that are not texts."""
        found = self.items(key)
        if found is None:
            return None
        for index, each in enumerate(found):
            if not isinstance(each, str):
                self.report("field", f"must be a text, not {kind(each)}", key, index)
        return [each for each in found if isinstance(each, str)]

    def tables(self, key: str) -> "Iterator[Fields]":
        """The objects of a list; anything else in it is reported."""
        for index, each in enumerate(self.items(key) or ()):
            if isinstance(each, dict):
                yield self._below(each, key, index)
            else:
                self.report("field", f"must be an object, not {kind(each)}", key, index)

    def optional(self, key: str) -> JsonValue:
        """The value there, None if there is none."""
        return self._value.get(key)

    def report(self, rule: str, message: str, *below: str | int) -> None:
        """A finding about the value at `below`, relative to this object."""
        place = (*self._place, *below)
        self._report.add(rule, f"{_named(place)} {message}" if place else message, self._line(place))

    def _below(self, value: dict[str, JsonValue], *below: str | int) -> "Fields":
        return Fields(value, self._report, self._text, (*self._place, *below))

    def _wrong(self, key: str, wanted: str) -> None:
        if key in self._value:
            self.report("field", f"must be {wanted}, not {kind(self._value[key])}", key)
            return
        of = f" of {_named(self._place)}" if self._place else ""
        self._report.add("field", f"{quoted(key)}{of} is missing", self._line(self._place))

    def _line(self, place: tuple[str | int, ...]) -> int | None:
        return line_of(self._text, place) if len(self._text) <= _LARGEST_WITH_LINES else None


def fields_of(documents: Documents, path: str, schema: str | None, report: Report) -> Fields | None:
    """The document at `path`, whose `schema_version` must be `schema`. None, with a finding, if it is not an object."""
    content = content_of(documents, path, report)
    if content is None:
        return None
    value = read_json(bytes(content))
    if isinstance(value, NotJson):
        report.add("not_json", value.message, value.line)
        return None
    if not isinstance(value, dict):
        report.add("not_object", f"must be an object, not {kind(value)}", 1)
        return None
    text = (
        bytes(content).decode("utf-8-sig")
        if len(content) <= _LARGEST_WITH_LINES
        else " " * (_LARGEST_WITH_LINES + 1)
    )
    fields = Fields(value, report, text)
    if schema is not None and value.get("schema_version") != schema:
        found = f"is {quoted(value['schema_version'])}" if "schema_version" in value else "is missing"
        fields.report("schema_version", f"{found}; write {quoted(schema)}", "schema_version")
    return fields


def _named(place: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
