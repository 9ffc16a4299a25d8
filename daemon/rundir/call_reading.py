"""What a session's files tell of its calls, read from their beginning: of a native run the lines of its `trace.jsonl`."""

import os
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.ports import Halted
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REGULAR, opened
from runward.handlers.bundle.calls import Called, Place, Returned, Stated, Told, Unusable
from runward.handlers.bundle.canonical import NotCanonical, parse

TRACE: Final = "trace.jsonl"


def told_by(layout: str, path: str, go_on: Callable[[int], bool]) -> Iterator[Told]:
    if layout != "native":
        return
    try:
        with opened(path, DIRECTORY) as within, opened(TRACE, REGULAR, within) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            with os.fdopen(os.dup(descriptor), "rb") as file:
                start = 0
                for number, line in enumerate(file, 1):
                    if not go_on(len(line)):
                        raise Halted
                    place = Place(TRACE, number, start, len(line))
                    start += len(line)
                    yield from _told(place, line)
    except OSError as error:
        if error.errno in ABSENT or error.errno == LINK:
            return
        raise


def _told(place: Place, line: bytes) -> Iterator[Told]:
    try:
        value = parse(line)
    except NotCanonical as error:
        yield Unusable(place, error.message)
        return
    if not isinstance(value, dict):
        yield Unusable(place, "not an object")
        return
    at = _time(value.get("t"))
    match value:
        case {"event": "ToolCall", "id": str(number), "tool": str(tool)}:
            yield Called(place, at, number, tool, value.get("params"))
        case {"event": "ToolResult", "id": str(number), "output": dict(output)}:
            yield Returned(
                place,
                at,
                number,
                output.get("content"),
                output.get("error"),
                output.get("success") is not False,
            )
        case {"event": "SessionStart"}:
            issue = value.get("issue_number")
            yield Stated(place, issue if isinstance(issue, int) else None)


def _time(value: JsonValue) -> float | None:
    return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
