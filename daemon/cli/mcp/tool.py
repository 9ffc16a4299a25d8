"""A tool as its server lists and calls it, and what it answers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias

from runward.config.json_value import JsonValue

Schema: TypeAlias = dict[str, JsonValue]
"""A JSON Schema."""


class Answer(NamedTuple):
    """What a tool answers: a JSON object, and whether the call failed."""

    value: dict[str, JsonValue]
    is_error: bool = False


class Refused(Exception):
    """A tool can't answer; the message says why, and what to do."""


class Tool(NamedTuple):
    """A tool. `keys` are the schemas of its arguments, `needed` those without which it can't be called."""

    name: str
    description: str
    keys: Mapping[str, JsonValue]
    needed: tuple[str, ...]
    call: Callable[[dict[str, JsonValue]], Awaitable[Answer]]
    is_reading: bool = False

    def schema(self) -> Schema:
        """The schema of its arguments."""
        return {
            "type": "object",
            "properties": dict(self.keys),
            "required": [*self.needed],
            "additionalProperties": False,
        }

    def check(self, arguments: dict[str, JsonValue]) -> None:
        """Refuse unknown arguments and missing ones. The tool itself checks their values."""
        unknown = [each for each in arguments if each not in self.keys]
        if unknown:
            known = ", ".join(self.keys) or "none"
            raise Refused(f"{self.name} has no argument {unknown[0]!r}; it has: {known}")
        for each in self.needed:
            if each not in arguments:
                raise Refused(f"{self.name} needs the argument {each!r}")


def text(description: str) -> Schema:
    """The schema of a text."""
    return {"type": "string", "description": description}


def flag(description: str) -> Schema:
    """The schema of true or false."""
    return {"type": "boolean", "description": description}


def text_of(arguments: Mapping[str, JsonValue], name: str) -> str | None:
    """A text among the arguments, None if there is none. Raises `Refused`."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise Refused(f"{name} must be a text")
    return value


def flag_of(arguments: Mapping[str, JsonValue], name: str) -> bool:
    """True or false among the arguments, by default false. Raises `Refused`."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refused(f"{name} must be true or false")
    return bool(value)


def count_of(arguments: Mapping[str, JsonValue], name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most` among the arguments. Raises `Refused`."""
    value = arguments.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise Refused(f"{name} must be a whole number from 1 to {most}")
    return value
