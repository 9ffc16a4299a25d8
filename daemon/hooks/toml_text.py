"""An agent's settings in TOML: what is in them, and where it is in the text."""

import tomllib
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.document import Mark
from runward.config.json_value import JsonValue
from runward.config.problem import Location, Place, Problem
from runward.config.toml_document import line_of_deep_key, read_toml, toml_positions
from runward.daemon.hooks.settings_file import Refused

BOM: Final = "\ufeff"


class TomlText(NamedTuple):
    """A text, the document in it, and a mark for everything in the document."""

    text: str
    document: dict[str, JsonValue]
    marks: Mapping[Location, Mark]

    def offset(self, place: Place) -> int:
        """Where a place is in the text."""
        line, column = place
        start = len(BOM) if self.text.startswith(BOM) else 0
        for _ in range(line - 1):
            start = self.text.index("\n", start) + 1
        return start + column - 1


def read_toml_text(text: str, name: str) -> TomlText:
    """Read it as the agent does. Raises `Refused`."""
    plain = text.removeprefix(BOM)
    line = line_of_deep_key(plain)
    if line is not None:
        raise Refused(Problem(name, line, None, "is nested too deeply", "nest less"))
    try:
        return TomlText(text, tomllib.loads(plain), toml_positions(plain))
    except RecursionError as error:
        raise Refused(Problem(name, None, None, "is nested too deeply", "nest less")) from error
    except ValueError as error:
        problems = read_toml(text, name).errors
        raise Refused(problems[0]) from error


def line_break_of(text: str) -> str:
    """How its lines end."""
    return "\r\n" if "\r\n" in text else "\n"


def quoted_in_toml(word: str) -> str:
    """A text in TOML syntax."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'
