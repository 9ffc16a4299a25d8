"""The calls of an Adjutant session: those of its own `REPLAY.jsonl`.

Adjutant writes the hash of an output and not the output, so most results have none to show.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from runward.handlers.calls import Told
from runward.handlers.layouts.adjutant import REPLAY
from runward.handlers.layouts.call_reader import CallLayout, CallReader, PlacedLine, WithoutDocuments
from runward.handlers.layouts.replay_calls import told_by_events

_HASHES_ALONE: Final = "the session's own replay has only the output's hash"


class AdjutantCalls(WithoutDocuments):
    """Reads a session's replay."""

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """What further lines tell."""
        return told_by_events(source, lines, hashes_alone=_HASHES_ALONE, verifies=True)


def _start(_name: str) -> CallReader:
    return AdjutantCalls()


CALLS: Final = CallLayout(_start, logs=(REPLAY,))
