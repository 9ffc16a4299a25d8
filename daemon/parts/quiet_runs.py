"""Running native runs whose replays are complete so far: until a file changes, there is nothing to read.

Nothing reports that an agent's `trace.jsonl` grows, so its state is compared with the one before the last reading.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from runward.daemon.ports.clock import Clock
from runward.daemon.ports.files import Files, Mark
from runward.daemon.watch.hints import Target
from runward.handlers.exchange.tell import RESULTS
from runward.handlers.layouts import native
from runward.handlers.layouts.native_calls import TRACE

SOURCES: Final = (TRACE, RESULTS, native.FLOW)
"""The files that a native run's further calls come from."""

SETTLED: Final = 1.0
"""Seconds after a change of a directory until its time of change tells the next one from it."""


@dataclass(slots=True)
class QuietRuns:
    """The quiet runs, each with the state of its files."""

    files: Files
    clock: Clock
    _marks: dict[Target, Mark] = field(default_factory=dict)

    def __contains__(self, target: Target) -> bool:
        return target in self._marks

    def marks(self, paths: Mapping[Target, str]) -> dict[Target, Mark]:
        """The state of runs' files, taken in a thread before they are read.

        A state that the next change might not alter is left out.
        """
        now, marks = self.clock.now(), {}
        for target, path in paths.items():
            mark = self.files.mark_of(path, SOURCES)
            if mark is not None and now - mark.directory[2] / 1e9 >= SETTLED:
                marks[target] = mark
        return marks

    def note(self, target: Target, mark: Mark | None) -> None:
        """Record that a run's files were fully read in this state."""
        if mark is not None:
            self._marks[target] = mark

    def unchanged(self, paths: Mapping[Target, str]) -> set[Target]:
        """Those of these runs whose files are as they were, compared in a thread."""
        marks = dict(self._marks)
        return {
            target
            for target, path in paths.items()
            if target in marks and self.files.is_as_marked(path, marks[target])
        }

    def disturb(self, targets: Collection[Target]) -> None:
        """Forget these runs: they changed, or they are over."""
        for target in targets:
            self._marks.pop(target, None)

    def disturb_all(self) -> None:
        """Forget all runs: everything may have to be read again."""
        self._marks.clear()
