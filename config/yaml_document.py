"""Strict YAML: the core schema of YAML 1.2, one document, no duplicate keys, and nothing but plain data.

PyYAML's parser is driven event by event, not through its constructor: what YAML 1.1 would make of `no`, `1:30` or
`2026-01-01` never comes up, the depth is bounded, and every value keeps its place.
"""

import re
from collections.abc import Iterator
from typing import Final

import yaml

from runward.config.document import Document, Lines, Mark
from runward.config.json_value import MAX_BYTES, MAX_DEPTH, MAX_INTEGER, JsonValue, is_text
from runward.config.problem import MAX_PROBLEMS, Location, Parsed, Place, Problem, has_errors, quoted

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_MAX_NUMBER = 400
_BASES: Final = {"0o": 8, "0x": 16}


def read_yaml(text: str, name: str) -> Parsed[Document]:
    """The document in `text`, which came from file `name`, or everything that is wrong with it. Never raises."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        problem = Problem(name, None, None, f"is larger than {MAX_BYTES >> 20} MiB", "split it")
        return Parsed(None, (problem,))
    reader = _Reader(text.removeprefix("\ufeff"), name)
    root = reader.read()
    if has_errors(reader.problems):
        return Parsed(None, tuple(reader.problems))
    return Parsed(Document(name, root, reader.marks), tuple(reader.problems))


class _TooManyProblemsError(Exception):
    """Enough problems were found."""


class _Reader:
    """One pass over the events of one text."""

    def __init__(self, text: str, name: str) -> None:
        self.marks: dict[Location, Mark] = {}
        self.problems: list[Problem] = []
        self._text = text
        self._name = name
        self._lines = Lines(text)
        self._loader: yaml.SafeLoader | None = None
        self._events: Iterator[yaml.Event] = iter(())

    def read(self) -> JsonValue:
        try:
            self._loader = yaml.SafeLoader(self._text)
            self._events = iter(self._loader.get_event, None)
            return self._stream()
        except yaml.MarkedYAMLError as error:
            self._syntax_error(error)
        except yaml.reader.ReaderError as error:
            message = f"character {quoted(chr(int(error.character)))} is not allowed in YAML"
            self._add(error.position, message, "write it as an escape in double quotes, or remove it")
        except _TooManyProblemsError:
            pass
        except (ValueError, OverflowError):
            # PyYAML lets Python's own errors escape: a \U escape or a %YAML directive beyond all bounds.
            offset = self._loader.index if self._loader else 0
            self._add(
                offset, "is not YAML: a number here is out of bounds", "correct the escape or the directive"
            )
        except RecursionError:
            self._add(0, "is nested too deeply to be read", "nest less")
        return None

    def _stream(self) -> JsonValue:
        root: JsonValue = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    self._complain(event, "a second document begins here", "write one document per file")
                    break
                root = self._node(next(self._events), (), None)
        if not self.marks:
            self.marks[()] = Mark((1, 1))
        return root

    def _node(self, event: yaml.Event, loc: Location, key: Place | None) -> JsonValue:
        self.marks[loc] = Mark(self._place(event), key)
        if isinstance(event, yaml.AliasEvent):
            self._complain(
                event, f"*{quoted(event.anchor)[1:-1]}: aliases are not supported", "write the value out"
            )
            return None
        assert isinstance(event, yaml.NodeEvent)
        self._refuse_anchor_and_tag(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if len(loc) >= MAX_DEPTH:
            # Reading ends here: each further level would be a further call.
            self._complain(event, f"is nested more than {MAX_DEPTH} deep", "nest less")
            raise _TooManyProblemsError
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(loc)
        return self._mapping(loc)

    def _sequence(self, loc: Location) -> JsonValue:
        items: list[JsonValue] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, (*loc, len(items)), None))
        return items

    def _mapping(self, loc: Location) -> JsonValue:
        table: dict[str, JsonValue] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._key(event, loc)
            twice = key in table
            if twice:
                line, column = self.marks[(*loc, key)].key or (0, 0)
                message = f"key {quoted(key)} is already at {line}:{column}"
                self._complain(event, message, "remove one of them")
            value = self._node(next(self._events), (*loc, key), self._place(event))
            table[key] = value
        return table

    def _key(self, event: yaml.Event, loc: Location) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._node(event, (*loc, "?"), None)
            self._complain(event, "a key must be a text", "write it as one word")
            return "?"
        self._refuse_anchor_and_tag(event)
        text = self._text_of(event)
        if event.implicit[0] and text == "<<":
            self._complain(event, "merge keys are not supported", "write the keys out")
        elif event.implicit[0] and not isinstance(self._scalar(event), str):
            self._complain(event, f"key {quoted(text)} is not text", f'put it in quotes: "{text}"')
        return text

    def _scalar(self, event: yaml.ScalarEvent) -> JsonValue:
        text = self._text_of(event)
        if not event.implicit[0]:
            return text
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if _INTEGER.fullmatch(text):
            return self._integer(event, text)
        if _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
            return self._float(event, text)
        return text

    def _text_of(self, event: yaml.ScalarEvent) -> str:
        """The scalar's text, with the two halves of an escaped character joined as JSON does."""
        text = str(event.value)
        if is_text(text):
            return text
        # JSON writes a character beyond U+FFFF as two escapes, and YAML should read what JSON writes.
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        if not is_text(joined):
            self._complain(event, "has a lone surrogate in it", "write the character itself")
        return joined

    def _integer(self, event: yaml.ScalarEvent, text: str) -> int | None:
        base = _BASES.get(text[:2], 10)
        # Reading digits takes the square of their number, and this many are too large anyway.
        number = int(text, base) if len(text) <= _MAX_NUMBER else MAX_INTEGER + 1
        if abs(number) > MAX_INTEGER:
            self._complain(event, "is a whole number of more than 64 bits", "put it in quotes")
            return None
        return number

    def _float(self, event: yaml.ScalarEvent, text: str) -> float | None:
        if _NOT_FINITE.fullmatch(text) or abs(float(text)) == float("inf"):
            self._complain(
                event, f"{quoted(text)} is not a finite number", "put it in quotes if it is a text"
            )
            return None
        return float(text)

    def _refuse_anchor_and_tag(self, event: yaml.NodeEvent) -> None:
        if event.anchor is not None:
            self._complain(
                event, f"&{quoted(event.anchor)[1:-1]}: anchors are not supported", "write the value out"
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._complain(event, f"{quoted(tag)}: tags are not supported", "remove the tag")

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        message = ": ".join(part for part in (error.context, error.problem) if part)
        fix = (
            "a tab can't indent: use spaces"
            if "'\\t'" in message
            else "check the indentation and quotes here"
        )
        self._add(mark.index if mark else 0, f"is not YAML: {message}", fix)

    def _complain(self, event: yaml.Event, message: str, fix: str) -> None:
        self._add(_offset(event), message, fix)
        if len(self.problems) >= MAX_PROBLEMS:
            raise _TooManyProblemsError

    def _add(self, offset: int, message: str, fix: str) -> None:
        line, column = self._lines.place(offset)
        self.problems.append(Problem(self._name, line, column, message, fix))

    def _place(self, event: yaml.Event) -> Place:
        return self._lines.place(_offset(event))


def _offset(event: yaml.Event) -> int:
    assert event.start_mark is not None, "PyYAML marks every event that it reads"
    return event.start_mark.index
