"""The calls of a native run: REPLAY events without hashes, which the run itself writes to `trace.jsonl`.

Its `SessionStart` and `SessionEnd` only say what Runward can't know: the issue, the policy and the confidence. If
the trace names no issue, it is the `issue_number` in the metadata of `run.json`. The run's actions in the exchange are
calls, too; the store reports them (`handlers/exchange/told.py`).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from runward.handlers.calls import Called, Place, Returned, Stated, Told, Unusable
from runward.handlers.exchange.told import CALL, NAMES
from runward.handlers.layouts.call_readers import (
    CallLayout,
    CallReader,
    PlacedLine,
    WithoutDocuments,
    told_by_events,
)
from runward.handlers.layouts.foreign_values import document_object, whole_in
from runward.handlers.layouts.native import RUN
from runward.handlers.model.sessions import Complaint, Document

TRACE: Final = "trace.jsonl"


class NativeCalls(WithoutDocuments):
    """Reads a run's trace."""

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """What further lines say. These lines don't report actions in the exchange."""
        for told in told_by_events(source, lines):
            if isinstance(told, Called | Returned) and told.id.startswith(CALL):
                yield Unusable(told.place, f"an id that begins with {CALL} is one of Runward's own")
            elif isinstance(told, Called) and told.tool.startswith(NAMES):
                yield Unusable(
                    told.place,
                    f"a tool that begins with {NAMES} belongs to the exchange, and Runward reports it itself",
                )
            else:
                yield told

    def see(self, document: Document) -> Iterator[Told]:
        """The issue that the launcher kept with the run. Faults in the file are reported where it is judged."""
        run = document_object(document) if document.name == RUN else {}
        metadata = {} if isinstance(run, Complaint) else run.get("metadata")
        issue = whole_in(metadata.get("issue_number")) if isinstance(metadata, dict) else None
        if issue is not None:
            yield Stated(Place(RUN, 0, 0, 0), issue_number=issue)


def _start(_name: str) -> CallReader:
    return NativeCalls()


CALLS: Final = CallLayout(_start, logs=(TRACE,), documents=(RUN,))
