"""The commands in the log of a CTCP run: each event that reports a command's result is a call with its result.

A verification begins with one event and ends with another. Every other command is recorded when it is over, by a
single line, so its call and its result have the same time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Place, Returned, Told, Unusable
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.call_reader import CallLayout, CallReader, PlacedLine
from runward.handlers.layouts.ctcp import EVENTS, RUN
from runward.handlers.layouts.ctcp_log import KNOWN, ahead_of_utc, time_at
from runward.handlers.layouts.foreign_values import document_object, text_in
from runward.handlers.layouts.told_values import whole_in
from runward.handlers.model.sessions import Complaint, Document

_VERIFY: Final = "verify"
_BEGINS: Final = "verify_started"
_OVER: Final = "verify_complete"
_TOOLS: Final[Mapping[str, str]] = {
    "verify_complete": _VERIFY,
    "local_exec_completed": "local_exec",
    "local_exec_failed": "local_exec",
    "patch_reverted": "patch_revert",
    "patch_revert_failed": "patch_revert",
}
"""What was called, for events whose name says how it ended."""

_NO_OUTPUT: Final = frozenset({"ts", "role", "event", "rc", "cmd"})


@dataclass(slots=True)
class State:
    """What is known so far: how far zoneless times are ahead of UTC (s), and the verification that runs."""

    ahead: int = 0
    verifying: str | None = None


class CtcpCalls:
    """Reads a run's log."""

    def __init__(self) -> None:
        self._state = State()

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """What further lines say."""
        for line in lines:
            content = line.content
            if not content or content.isspace():
                continue
            value = read_json(content)
            if isinstance(value, NotJson):
                yield Unusable(line.place(source), value.message)
            elif isinstance(value, dict):
                yield from self._event(line.place(source), value)

    def see(self, document: Document) -> Iterator[Told]:
        """The run's own file says in which zone the times are."""
        content = document_object(document) if document.name == RUN else {}
        if not isinstance(content, Complaint):
            written = text_in(content.get("updated_at"))
            if written is not None:
                self._state.ahead = ahead_of_utc(written, document.modified_at)
        return iter(())

    def _event(self, place: Place, record: dict[str, JsonValue]) -> Iterator[Told]:
        name = record.get("event")
        known = KNOWN.get(name) if isinstance(name, str) else None
        if known is None or not isinstance(name, str):
            return
        event, ts = name.lower(), record.get("ts")
        at = time_at(ts, self._state.ahead) if isinstance(ts, str) and len(ts) <= 64 else None
        if event == _BEGINS:
            self._state.verifying = f"{_VERIFY}@{place.line}"
            yield Called(place, at, self._state.verifying, _VERIFY, _command(record))
            return
        if not known.is_command:
            return
        if event == _OVER and self._state.verifying is not None:
            call, self._state.verifying = self._state.verifying, None
        else:
            tool = _TOOLS.get(event, event)
            call = f"{tool}@{place.line}"
            yield Called(place, at, call, tool, _command(record))
        exit_code = whole_in(record.get("rc"))
        output: JsonValue = {key: value for key, value in record.items() if key not in _NO_OUTPUT}
        if known.is_failure or exit_code:
            yield Returned(place, at, call, None, output, False, exit_code)
        else:
            yield Returned(place, at, call, output, exit_code=exit_code)


def _command(record: dict[str, JsonValue]) -> JsonValue:
    return {key: record[key] for key in ("cmd", "path") if key in record}


def _start(_name: str) -> CallReader:
    return CtcpCalls()


CALLS: Final = CallLayout(_start, logs=(EVENTS,), documents=(RUN,))
