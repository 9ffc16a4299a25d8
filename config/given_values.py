"""Values that a person gives in words: `KEY=TEXT` or `KEY:=JSON`."""

import re
from collections.abc import Sequence
from typing import Final

from runward.config.json_document import read_json
from runward.config.json_value import JsonValue
from runward.config.problem import Problem
from runward.config.template import NAME

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
