"""What people give to the commands of the exchange: files with text, and arguments."""

import sys
from typing import Final

from runward.config.json_document import read_json
from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import WRONG_USAGE
from runward.daemon.cli.shell import given_file
from runward.daemon.cli.terminal.output import complain

MOST_TEXT: Final = 1 << 20
"""Bytes of a file with content or code."""

_AS_JSON: Final = ":="


def text_of(path: str) -> str:
    """The text of a file, or of stdin for `-`. Exits 2 or 3 if there is none."""
    return given_file.text_of(path, MOST_TEXT)


def json_of(text: str, named: str) -> JsonValue:
    """The value of a JSON text. Exits 2 if it is invalid."""
    parsed = read_json(text, named)
    if parsed.value is None:
        complain(parsed.problems)
        sys.exit(WRONG_USAGE)
    return parsed.value.root


def argument_of(text: str) -> JsonValue:
    """An ARG: text, or JSON after `:=`."""
    return json_of(text.removeprefix(_AS_JSON), text) if text.startswith(_AS_JSON) else text
