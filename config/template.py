"""Templates: texts in which `{{ with.NAME }}` is replaced by a value that is given at the start; and such values.

They only have look-ups, also into tables (`{{ with.pull.number }}`): no expressions, no defaults, no shell.
A value stays inside the text that it was put into, whatever it contains.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from runward.config.document import read_json
from runward.config.json_value import JsonValue
from runward.config.problem import Problem, TextError, kind, nearest, quoted

NAME: Final = "[A-Za-z_][A-Za-z0-9_-]*"
"""The valid names of values."""

_LONGEST: Final = 1 << 20
"""Characters of a filled-in text: the values come from events, and each may be used many times."""

_LOOK_UP: Final = re.compile(rf"with((?:\.{NAME})+)")

LookUp: TypeAlias = tuple[str, ...]
"""The names from the given values down to one of them."""


class TemplateError(TextError):
    """A text that is not a template, or can't be filled in."""


class Template(NamedTuple):
    """A text taken apart: plain pieces, and look-ups between them."""

    parts: tuple[str | LookUp, ...]

    def names(self) -> tuple[str, ...]:
        """The given values that it uses, in order and with repetitions."""
        return tuple(part[0] for part in self.parts if not isinstance(part, str))

    def fill(self, given: Mapping[str, JsonValue]) -> str:
        """The text with the given values in it. Raises `TemplateError`."""
        texts: list[str] = []
        length = 0
        for part in self.parts:
            texts.append(part if isinstance(part, str) else _text(part, given))
            # Counted before the texts are joined: one value can be used many times.
            length += len(texts[-1])
            if length > _LONGEST:
                raise TemplateError(f"becomes longer than {_LONGEST >> 20} MiB", "give large values as files")
        return "".join(texts)


def parse_template(text: str) -> Template:
    """The template in `text`. Raises `TemplateError`."""
    parts: list[str | LookUp] = []
    position = 0
    while (begin := text.find("{{", position)) >= 0:
        end = text.find("}}", begin)
        if end < 0:
            raise TemplateError("has a '{{' without its '}}'", "write {{ with.NAME }}")
        inside = text[begin + 2 : end].strip()
        match = _LOOK_UP.fullmatch(inside)
        if match is None:
            fix = "write {{ with.NAME }}; give a text that has braces of its own as a value"
            raise TemplateError(f"{quoted(inside)} between braces is not a look-up", fix)
        if begin > position:
            parts.append(text[position:begin])
        parts.append(tuple(match[1][1:].split(".")))
        position = end + 2
    if position < len(text) or not parts:
        parts.append(text[position:])
    return Template(tuple(parts))


def names_used(templates: Sequence[Template]) -> tuple[str, ...]:
    """The given values that they use together, each once, in the order of their first use."""
    return tuple(dict.fromkeys(name for template in templates for name in template.names()))


def _text(look_up: LookUp, given: Mapping[str, JsonValue]) -> str:
    value: JsonValue = dict(given)
    for depth, name in enumerate(look_up):
        if not isinstance(value, dict):
            raise TemplateError(
                f"{_called(look_up[:depth])} is {kind(value)}, not a table", "look no further"
            )
        if name not in value:
            raise _not_given(look_up[: depth + 1], value)
        value = value[name]
    if isinstance(value, str):
        return _without_nul(value, look_up)
    if isinstance(value, list | dict):
        inner = f"look up one of its values, as in {{{{ {_called(look_up)}.NAME }}}}"
        fix = inner if isinstance(value, dict) else "give it as a text"
        raise TemplateError(f"{_called(look_up)} is {kind(value)}, which is not part of a text", fix)
    return json.dumps(value)


def _without_nul(value: str, look_up: LookUp) -> str:
    # The text becomes an argument of a program, which would end there.
    if "\0" in value:
        raise TemplateError(f"{_called(look_up)} has a NUL character in it", "remove it")
    return value


def _not_given(look_up: LookUp, known: Mapping[str, JsonValue]) -> TemplateError:
    name = look_up[-1]
    guess = nearest(name, known)
    if len(look_up) > 1:
        fix = f"did you mean {guess!r}?" if guess else f"give it, or look up one of {', '.join(known) or '-'}"
    else:
        fix = f"give it as {name}=VALUE" + (f"; did you mean {name!r} by {guess!r}?" if guess else "")
    return TemplateError(f"{_called(look_up)} is not given", fix)


def _called(look_up: LookUp) -> str:
    return ".".join(("with", *look_up))


_VALUE: Final = re.compile(rf"({NAME})(:?=)(.*)", re.DOTALL)


class WrongValue(Exception):
    """A word is not a value, or its JSON has `problems`."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = problems


def given_values(words: Sequence[str]) -> dict[str, JsonValue]:
    """`KEY=VALUE` as text, `KEY:=JSON` as JSON. Raises `WrongValue`."""
    given: dict[str, JsonValue] = {}
    for word in words:
        match = _VALUE.fullmatch(word)
        if match is None:
            raise WrongValue(f"{word!r} is not a value: write KEY=TEXT or KEY:=JSON")
        key, sign, text = match.groups()
        if key in given:
            raise WrongValue(f"{key!r} is given twice")
        given[key] = text if sign == "=" else _json(key, text)
    return given


def _json(key: str, text: str) -> JsonValue:
    parsed = read_json(text, f"{key}:=")
    if parsed.value is None:
        raise WrongValue("; ".join(each.render() for each in parsed.problems), parsed.problems)
    return parsed.value.root
