"""The calls of a native run: REPLAY events without hashes, which the run itself writes to `trace.jsonl`.

Its `SessionStart` and `SessionEnd` only say what Runward can't know: the issue, the policy and the confidence.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.bundle.calls import Told
from runward.handlers.layouts.call_reader import CallLayout, CallReader, PlacedLine, Stateless
from runward.handlers.layouts.replay_calls import told_by_events

TRACE: Final = "trace.jsonl"


class NativeCalls(Stateless):
    """Reads a run's trace."""

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """What further lines tell."""
        return told_by_events(source, lines)


def _start(_name: str, _state: JsonValue) -> CallReader:
    return NativeCalls()


CALLS: Final = CallLayout(_start, logs=(TRACE,))
