"""Hints: places to look at, each once, in order of their arrival; and how many of them the watch or only a scan gave.

Bounded by construction: there is at most one hint for a place, however often it changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final


class Why:
    """Where a hint came from, as bits. What only `SCAN` found, the watch had missed.

    Plain numbers: a burst brings thousands, and an enum's `|` alone would take as long as half a look.
    """

    WATCH: Final = 1
    SCAN: Final = 2
    PROCESS: Final = 4
    START: Final = 8
    AGAIN: Final = 16


Target = tuple[str, str]
"""A root's name and a place in it: the name of a run directory, or the path of a foreign session."""

ITSELF: Final = ""
"""Used in place of a place if the sessions of the whole root may have changed."""

Hint = tuple[Target, int]
"""A target, and where the hint came from, as bits of `Why`."""


LATER_AT_ONCE: Final = 16
"""Hints of the backlog that are taken at once: each may be a transcript that was never read, and others wait."""


PATIENT_TURNS: Final = 32
"""How many times in a row the backlog waits for other work: under constant load it must get its turn, too."""


class Hints:
    """The places to look at. `wake` is called when there is something new.

    What can wait, such as the transcripts of a home that is seen for the first time, is taken last.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._waiting: dict[Target, int] = {}
        self._backlog: dict[Target, int] = {}
        self._wake = wake
        self._passed_over = 0

    def add(self, targets: Iterable[Target], why: int) -> None:
        """Request a look at these places."""
        waiting, backlog = self._waiting, self._backlog
        for target in targets:
            # It moves to the front and keeps its reasons, so a place is never looked at twice.
            known = backlog.pop(target, 0) if backlog else 0
            waiting[target] = waiting.get(target, known) | why
        if waiting:
            self._wake()

    def add_to_backlog(self, targets: Iterable[Target], why: int) -> None:
        """Request a look at these places when nothing else is waiting."""
        waiting, backlog = self._waiting, self._backlog
        for target in targets:
            # It is urgent already, and stays so.
            if target in waiting:
                waiting[target] |= why
            else:
                backlog[target] = backlog.get(target, 0) | why
        if backlog:
            self._wake()

    def take(self, most: int) -> list[Hint]:
        """Take up to `most` hints, the oldest first; they are no longer waiting."""
        waiting = self._waiting
        if len(waiting) <= most:
            taken = list(waiting.items())
            waiting.clear()
            # The backlog waits for a turn without other work, but not forever: constant load would starve it.
            if self._backlog and taken and self._passed_over < PATIENT_TURNS:
                self._passed_over += 1
                return taken
            self._passed_over = 0
            return taken + _oldest(self._backlog, min(LATER_AT_ONCE, most - len(taken)))
        return _oldest(waiting, most)

    def give_back(self, hints: Iterable[Hint]) -> None:
        """These were taken but not processed: they wait again."""
        for target, why in hints:
            self.add([target], why)

    @property
    def backlog(self) -> int:
        """How many places wait to be looked at when nothing else is waiting."""
        return len(self._backlog)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._backlog)


def _oldest(waiting: dict[Target, int], most: int) -> list[Hint]:
    return [(target, waiting.pop(target)) for target in list(islice(waiting, most))]


@dataclass(slots=True)
class Coverage:
    """Counts since the daemon started. Times are Unix seconds, costs are seconds."""

    watched: int = 0
    flat: int = 0
    overflows: int = 0
    found_by_scan: int = 0
    last_scan_at: float | None = None
    last_scan_s: float = 0.0
    unread: int = 0
    """Places that are still to be looked at, after everything else: a home that is seen for the first time has thousands."""
