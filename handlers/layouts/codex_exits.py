"""How a command ended by the output that Codex records for it, in the forms of all versions."""

import re
from typing import Final

from runward.config.json_value import JsonValue

_HEADER: Final = 200
"""Characters at an output's beginning, or its end, in which Codex says how the command ended."""

_AT_THE_BEGINNING: Final = re.compile(r"Exit code: (-?\d{1,10})(?:\n|$)")
_IN_THE_HEADER: Final = re.compile(r"(?:^|\n)Process exited with code (-?\d{1,10})(?:\n|$)")
_IN_JSON: Final = re.compile(r'"exit_code":\s*(-?\d{1,10})[^"]*(?:"duration_seconds":[^"]*)?$')


def exit_code_in(output: JsonValue) -> int | None:
    """The exit code that an output names, or None."""
    if not isinstance(output, str):
        return None
    if output.startswith("{"):
        found = _IN_JSON.search(output[-_HEADER:])
    else:
        found = _AT_THE_BEGINNING.match(output) or _IN_THE_HEADER.search(output, 0, _HEADER + 40)
    return None if found is None else int(found[1])
