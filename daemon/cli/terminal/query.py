"""`--jq`: what an expression of jq makes of the JSON that a command prints."""

import sys
from collections.abc import Iterator
from typing import Final

import jq

from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import WRONG_USAGE
from runward.daemon.cli.terminal.output import fail, safe_line
from runward.daemon.views.text import json_text


class Query:
    """An expression that was read. Raises `ValueError` if it is wrong."""

    def __init__(self, expression: str) -> None:
        try:
            self._program = jq.compile(expression)
        except ValueError as error:
            raise ValueError(_in_short(error)) from None

    def lines(self, value: JsonValue) -> Iterator[str]:
        """Each result on a line; a text as it is, without quotes. Exits 2 if the expression doesn't fit the value."""
        try:
            for result in self._program.input_text(json_text(value)):
                yield _shown(result) if isinstance(result, str) else json_text(result)
        except ValueError as error:
            fail(f"--jq: {_in_short(error)}", WRONG_USAGE)


def _shown(text: str) -> str:
    """A program gets the text itself; a terminal nothing that it would obey."""
    return "\n".join(map(safe_line, text.split("\n"))) if sys.stdout.isatty() else text


def _in_short(error: ValueError) -> str:
    """What jq says of a wrong expression, in a line: it also repeats the expression, and counts its errors."""
    first, *others = str(error).splitlines()
    further = [each for each in others if each.startswith(_ERROR)]
    return "; ".join(each.removeprefix(_ERROR).rstrip(":") for each in (first, *further))


_ERROR: Final = "jq: error: "
