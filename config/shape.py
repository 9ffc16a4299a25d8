"""The shapes of settings: each checks one value, describes itself as JSON Schema, and knows its form in stored JSON.

Plain Python, while outcomes are pydantic models: every command reads the settings first, the launcher within its
start-up budget, and importing pydantic alone would exceed that (decision 157).
"""

import math
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from runward.config.duration import (
    DURATION_PATTERN,
    MAX_DURATION_S,
    DurationError,
    parse_duration,
    render_duration,
)
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, quoted, wrong_kind

_CONTROL = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"

_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,9}) ?(B|KB|MB|GB|TB)")

Complain: TypeAlias = Callable[[Complaint], None]


class UnknownForm(Exception):
    """A stored value has a form that this version doesn't write."""


class Start(NamedTuple):
    """Where relative paths start, and the home that `~` means; both absolute."""

    base: str
    home: str

    def absolute(self, path: str, loc: Location, complain: Complain) -> str | None:
        """The intended absolute path, or None after a complaint."""
        try:
            return resolve_path(path, self.base, self.home)
        except ValueError as error:
            complain(Complaint(loc, f"{quoted(path)} {error}", "write the whole path"))
            return None


def resolve_path(path: str, base: str, home: str) -> str:
    """The intended absolute path, by its text alone. Raises ValueError for another user's home."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    elif path.startswith("~"):
        raise ValueError("names the home of another user")
    return normal_path(path, base)


def normal_path(path: str, base: str) -> str:
    """The path, absolute and without `.` and `..`, by its text alone. A relative one starts from `base`."""
    # normpath keeps two leading slashes, which POSIX permits to mean something else. Paths of files never have them.
    return "/" + posixpath.normpath(posixpath.join(base, path)).lstrip("/")


class Shape(ABC):
    """What a value may look like. `description` is what it is for, for those who write it."""

    kinds: tuple[type, ...] = (str,)
    """What a checked value is."""

    or_never = False
    """Whether the value may be `never`."""

    def __init__(self, description: str) -> None:
        self.description = description

    @abstractmethod
    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        """The value in its intended form (a duration in seconds), or None after a complaint."""

    @abstractmethod
    def json_schema(self) -> dict[str, JsonValue]:
        """The shape as JSON Schema, without its description."""

    def with_whole_paths(
        self, value: JsonValue, loc: Location, start: Start, complain: Complain
    ) -> JsonValue:
        """A checked value, with each path in it made absolute, or None after a complaint."""
        return value

    def as_written(self, value: JsonValue) -> JsonValue:
        """A checked value, as people write it: durations and sizes with their units, absent keys left out."""
        return value

    def from_json(self, value: JsonValue) -> object:
        """The value of a setting in its checked or stored form. Raises `UnknownForm`."""
        if not isinstance(value, self.kinds):
            raise UnknownForm
        return value

    def to_json(self, value: object) -> JsonValue:
        """The stored form of a setting's value."""
        assert isinstance(value, str | bool | int | float)
        return value


class Text(Shape):
    """A text of 1 to `longest` characters without any of `forbidden` and without control characters."""

    def __init__(self, description: str, longest: int, forbidden: str = "") -> None:
        super().__init__(description)
        self.longest, self.forbidden = longest, forbidden

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        text = self.text(value, loc, complain)
        return None if text is None else self.meant(text, loc, complain)

    def text(self, value: JsonValue, loc: Location, complain: Complain) -> str | None:
        """The value if it is such a text, or None after a complaint."""
        if not isinstance(value, str):
            complain(wrong_kind(loc, value, "a text", "put it in quotes"))
            return None
        present = [char for char in self.forbidden if char in value]
        if not value:
            complain(Complaint(loc, "is empty", "leave it out for the default"))
        elif len(value) > self.longest:
            complain(Complaint(loc, f"is longer than {self.longest} characters", "shorten it"))
        elif present:
            complain(
                Complaint(
                    loc, f"{quoted(value)} has '{present[0]}' in it", f"write it without {self.forbidden}"
                )
            )
        elif re.search(_CONTROL, value):
            complain(Complaint(loc, f"{quoted(value)} has a control character in it", "remove it"))
        else:
            return value
        return None

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        """What such a text means; kinds of texts with further rules have their own. None after a complaint."""
        return text

    def json_schema(self) -> dict[str, JsonValue]:
        schema: dict[str, JsonValue] = {"type": "string", "minLength": 1, "maxLength": self.longest}
        if self.forbidden:
            schema["pattern"] = f"^[^{self.forbidden}]*$"
        return schema


class Path(Text):
    """A path: absolute, from `~`, or relative to the directory of its file; read as an absolute one."""

    def __init__(self, description: str) -> None:
        super().__init__(description, 4096)

    def with_whole_paths(
        self, value: JsonValue, loc: Location, start: Start, complain: Complain
    ) -> JsonValue:
        return start.absolute(value, loc, complain) if isinstance(value, str) else None


class Glob(Text):
    """A glob of a text of 1 to `longest` characters."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        from runward.config.glob_rule import check_text_glob

        return self._checked(check_text_glob, text, loc, complain)

    def _checked(
        self, check_glob: Callable[[str], None], text: str, loc: Location, complain: Complain
    ) -> str | None:
        from runward.config.glob_rule import GlobError

        try:
            check_glob(text)
        except GlobError as error:
            complain(error.complaint(loc, text))
            return None
        return text


class PathGlob(Glob):
    """A glob of a path; read as one of absolute paths."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        from runward.config.glob_rule import check_path_glob

        return self._checked(check_path_glob, text, loc, complain)

    def with_whole_paths(
        self, value: JsonValue, loc: Location, start: Start, complain: Complain
    ) -> JsonValue:
        from runward.config.glob_rule import ANY_DEPTH, escaped

        if not isinstance(value, str):
            return None
        if value.split("/")[0] == ANY_DEPTH:
            return f"/{value}"
        # What is put before the glob is not a glob, whatever characters are in it.
        return Start(escaped(start.base), escaped(start.home)).absolute(value, loc, complain)


class Choice(Shape):
    """One of a few words."""

    def __init__(self, description: str, options: tuple[str, ...]) -> None:
        super().__init__(description)
        self.options = options

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, str) and value in self.options:
            return value
        complain(Complaint(loc, f"{quoted(value)} is not known", f"one of: {', '.join(self.options)}"))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"enum": list(self.options)}

    def from_json(self, value: JsonValue) -> object:
        if value not in self.options:
            raise UnknownForm
        return value


class TrueOrFalse(Shape):
    """True or false."""

    kinds = (bool,)

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, bool):
            return value
        complain(wrong_kind(loc, value, "true or false", "write it without quotes"))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "boolean"}


class WholeNumber(Shape):
    """A whole number from `low` to `high`."""

    kinds = (int,)

    def __init__(self, description: str, low: int, high: int) -> None:
        super().__init__(description)
        self.low, self.high = low, high

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value
        wanted = f"must be a whole number from {self.low} to {self.high}, not {quoted(value)}"
        complain(Complaint(loc, wanted, _without_quotes(value)))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


class Share(Shape):
    """A number above 0 and at most 1."""

    kinds = (int, float)

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
            return float(value)
        complain(
            Complaint(loc, f"must be above 0 and at most 1, not {quoted(value)}", _without_quotes(value))
        )
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "number", "exclusiveMinimum": 0, "maximum": 1}


NEVER = "never"
"""The word for no duration at all, where that is allowed."""


class DurationText(Shape):
    """A duration with its unit, from `shortest` to `longest` seconds; read as seconds.

    With `or_never` also the word `never`, which is None; with `or_seconds`, for a key whose name gives the unit, also a
    number.
    """

    kinds = (int, float)

    def __init__(
        self,
        description: str,
        shortest: float,
        *,
        or_never: bool = False,
        longest: float = MAX_DURATION_S,
        or_seconds: bool = False,
    ) -> None:
        super().__init__(description)
        self.shortest, self.longest = shortest, longest
        self.or_never, self.or_seconds = or_never, or_seconds

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if self.or_seconds and isinstance(value, int | float) and not isinstance(value, bool):
            value = f"{value:f}s" if math.isfinite(value) else str(value)
        if not isinstance(value, str):
            complain(wrong_kind(loc, value, "a duration", 'write it with its unit and in quotes: "30s"'))
            return None
        if self.or_never and value == NEVER:
            return NEVER
        try:
            seconds = parse_duration(value, self.longest)
        except DurationError as error:
            complain(Complaint(loc, str(error), error.fix))
            return None
        if seconds < self.shortest:
            least = render_duration(self.shortest)
            complain(
                Complaint(loc, f"must be at least {least}, not {quoted(value)}", f'write "{least}" or more')
            )
            return None
        return seconds

    def json_schema(self) -> dict[str, JsonValue]:
        pattern = f"{DURATION_PATTERN}|^{NEVER}$" if self.or_never else DURATION_PATTERN
        text: dict[str, JsonValue] = {"type": "string", "pattern": pattern}
        if not self.or_seconds:
            return text
        return {"anyOf": [text, {"type": "number", "minimum": self.shortest}]}

    def as_written(self, value: JsonValue) -> JsonValue:
        return render_duration(value) if isinstance(value, int | float) else NEVER

    def from_json(self, value: JsonValue) -> object:
        # A checked value says `never`, because None there means a complaint; a stored one says null.
        if self.or_never and value in (NEVER, None):
            return None
        return super().from_json(value)


def size_of(text: str) -> int | None:
    """The number of bytes of a size with its unit. None if it is not a size."""
    match = _SIZE.fullmatch(text)
    return None if match is None else int(match[1]) * _BYTES[match[2]]


def _size_text(size: int) -> str:
    unit = next(unit for unit in reversed(_BYTES) if size % _BYTES[unit] == 0) if size else "B"
    return f"{size // _BYTES[unit]}{unit}"


class SizeText(Shape):
    """A size with its unit, as in 256MB; read as bytes, from `least` to `most`. 1 KB is 1024 B, as in ADR-0029."""

    kinds = (int,)

    def __init__(self, description: str, least: int = 0, most: int | None = None) -> None:
        super().__init__(description)
        self.least, self.most = least, most

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if not isinstance(value, str):
            complain(wrong_kind(loc, value, "a size", 'write it with its unit and in quotes: "256MB"'))
            return None
        size = size_of(value)
        if size is None:
            fix = "write a whole number with its unit, as in 512KB, 256MB or 2GB"
            complain(Complaint(loc, f"is not a size: {quoted(value)}", fix))
        elif self.most is not None and not self.least <= size <= self.most:
            least, most = _size_text(self.least), _size_text(self.most)
            complain(Complaint(loc, f"must be {least} to {most}", f"write a size from {least} to {most}"))
            return None
        return size

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "pattern": "^[0-9]{1,9} ?(B|KB|MB|GB|TB)$"}

    def as_written(self, value: JsonValue) -> JsonValue:
        return _size_text(value) if isinstance(value, int) else value


class ListOf(Shape):
    """A list of one shape, at most `longest` long."""

    def __init__(self, description: str, item: Shape, longest: int) -> None:
        super().__init__(description)
        self.item, self.longest = item, longest

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if not isinstance(value, list):
            complain(wrong_kind(loc, value, "a list", "put it in square brackets"))
            return None
        if len(value) > self.longest:
            complain(Complaint(loc, f"has more than {self.longest} entries", "list fewer"))
            return None
        return [self.item.check(item, (*loc, index), complain) for index, item in enumerate(value)]

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "array", "maxItems": self.longest, "items": described(self.item)}

    def with_whole_paths(
        self, value: JsonValue, loc: Location, start: Start, complain: Complain
    ) -> JsonValue:
        if not isinstance(value, list):
            return None
        return [
            self.item.with_whole_paths(each, (*loc, index), start, complain)
            for index, each in enumerate(value)
        ]

    def as_written(self, value: JsonValue) -> JsonValue:
        return [self.item.as_written(each) for each in value] if isinstance(value, list) else value

    def from_json(self, value: JsonValue) -> object:
        if not isinstance(value, list):
            raise UnknownForm
        return tuple(self.item.from_json(each) for each in value)

    def to_json(self, value: object) -> JsonValue:
        assert isinstance(value, tuple)
        return [self.item.to_json(each) for each in value]


def described(shape: Shape) -> dict[str, JsonValue]:
    """The shape's JSON Schema with its description."""
    return {"description": shape.description, **shape.json_schema()}


def _without_quotes(value: JsonValue) -> str:
    return (
        "write the number without quotes" if isinstance(value, str) else "write a number within these bounds"
    )
