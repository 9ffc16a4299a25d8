"""The files of a run directory as the contracts get them: already read, within bounds. And how they are read further."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.config.problem import kind, quoted
from runward.handlers.ctcp.rules import Report
from runward.handlers.foreign_json import NotJson, line_of, read_json

MOST_BYTES: Final = 16 << 20
"""Bytes of any file except the patch and the journal, and of one line of those."""

MOST_OF_LINES: Final = 256 << 20
"""Bytes of the patch and of the journal."""

MOST_LINES: Final = 10_000_000
"""Lines of the patch and of the journal."""

State: TypeAlias = Literal["file", "absent", "not_regular", "denied", "too_large"]


class Document(NamedTuple):
    """One file. If its state is `file`, its content is there, unless only its existence was asked for."""

    state: State
    content: bytes | bytearray = b""


ABSENT: Final = Document("absent")


class Entry(NamedTuple):
    """A name in a zip file's directory, and its unpacked size as the directory states it."""

    name: str
    size: int


class ZipDirectory(NamedTuple):
    """The directory of a zip file. `problem` says why it can't be read; `is_too_large` that nobody should read it."""

    entries: tuple[Entry, ...] = ()
    problem: str | None = None
    is_too_large: bool = False


class Documents(NamedTuple):
    """The files that a contract needs, by their paths, and the failure bundle's directory if there is one."""

    files: Mapping[str, Document]
    bundle: ZipDirectory | None = None

    def document(self, path: str) -> Document:
        return self.files.get(path, ABSENT)

    def is_there(self, path: str) -> bool:
        return self.document(path).state == "file"


def content_of(documents: Documents, path: str, report: Report) -> bytes | bytearray | None:
    """The file's content. None, with a finding, if there is none."""
    document = documents.document(path)
    why = why_unread(document)
    if why is None:
        return document.content
    if document.state == "absent" and report.allows_missing:
        return None
    report.add("too_large" if document.state == "too_large" else "missing", why, path=path)
    return None


def lined_content_of(documents: Documents, path: str, report: Report) -> bytes | bytearray | None:
    """Like `content_of`, for a file that is read line by line."""
    content = content_of(documents, path, report)
    if content is not None and content.count(b"\n") > MOST_LINES:
        report.add("too_large", f"has more than {MOST_LINES:,} lines", path=path)
        return None
    return content


def why_unread(document: Document) -> str | None:
    """Why a file has no content here."""
    match document.state:
        case "file":
            return None
        case "absent":
            return "the file does not exist"
        case "not_regular":
            return "is not a regular file; links are not followed"
        case "denied":
            return "can't be read; check its permissions"
        case "too_large":
            return "is too large"


_LARGEST_WITH_LINES: Final = 256 << 10
"""The largest document, in bytes, in which lines are looked up: each look-up walks through the document."""


class Fields:
    """One object of a document. A field that is asked for and missing, or of another type, is reported."""

    def __init__(
        self, value: dict[str, JsonValue], report: Report, text: str | None, place: tuple[str | int, ...] = ()
    ) -> None:
        self._value, self._report, self._text, self._place = value, report, text, place

    def text(self, key: str) -> str | None:
        value = self._value.get(key)
        if isinstance(value, str):
            return value
        self._wrong(key, "a text")
        return None

    def whole(self, key: str) -> int | None:
        value = self._value.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        self._wrong(key, "a whole number")
        return None

    def number(self, key: str) -> float | None:
        value = self._value.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        self._wrong(key, "a number")
        return None

    def items(self, key: str) -> list[JsonValue] | None:
        value = self._value.get(key)
        if isinstance(value, list):
            return value
        self._wrong(key, "a list")
        return None

    def table(self, key: str) -> "Fields | None":
        value = self._value.get(key)
        if isinstance(value, dict):
            return self._below(value, key)
        self._wrong(key, "an object")
        return None

    def texts(self, key: str) -> list[str] | None:
        """A list of texts, without items that are not texts."""
        items = self.items(key)
        if items is None:
            return None
        for index, each in enumerate(items):
            if not isinstance(each, str):
                self.report("field", f"must be a text, not {kind(each)}", key, index)
        return [each for each in items if isinstance(each, str)]

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
        return None if self._text is None else line_of(self._text, place)


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
    text = bytes(content).decode("utf-8-sig") if len(content) <= _LARGEST_WITH_LINES else None
    fields = Fields(value, report, text)
    if schema is not None and value.get("schema_version") != schema:
        version = f"is {quoted(value['schema_version'])}" if "schema_version" in value else "is missing"
        fields.report("schema_version", f"{version}; write {quoted(schema)}", "schema_version")
    return fields


def _named(place: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")


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
    lines: dict[str, KeyLine] = {}
    open_key, bullets = "", list[str]()

    def close() -> None:
        if open_key:
            lines[open_key] = lines[open_key]._replace(bullets=tuple(bullets))

    for number, line in enumerate(content.decode(errors="replace").split("\n"), 1):
        bullet = _BULLET.match(line)
        if bullet is not None:
            if open_key:
                bullets.append((bullet[1] or "").strip())
            continue
        # An agent may write one line of many megabytes: that is not a key, and not worth an expression's time.
        key = _KEY.match(line) if len(line) < 1 << 20 else None
        name = "" if key is None else key[1].rstrip(" \t").lower()
        if key is None or len(name) > _LONGEST_KEY:
            if line.strip():
                close()
                open_key = ""
            continue
        close()
        value = key[2].strip()
        lines[name] = KeyLine(value, (), number)
        open_key, bullets = ("" if value else name), []
    close()
    return lines


def _items(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    items = [each.strip() for each in _SEPARATOR.split(text)]
    return [each for each in items if each and each.lower() != "none"]
