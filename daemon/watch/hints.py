"""Hints: run directories that somebody should look into, each once, in order of their arrival.

Bounded by construction: there is at most one hint for a run directory, however often it changed.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final


class Why:
    """Where a hint came from, as bits. What only `SCAN` found is what the watch had lost.

    Plain numbers: a burst brings thousands, and an enum's `|` alone would take as long as half a look.
    """

    WATCH: Final = 1
    SCAN: Final = 2
    PROCESS: Final = 4
    START: Final = 8
    AGAIN: Final = 16


Target = tuple[str, str]
"""A root's name and the name of a directory in it."""

Hint = tuple[Target, int]
"""A target and the bits of `Why` that say who hinted at it."""


class Hints:
    """What is to be looked at. `wake` is called when there is something new."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._waiting: dict[Target, int] = {}
        self._wake = wake

    def add(self, targets: Iterable[Target], why: int) -> None:
        """Have these run directories looked at."""
        waiting = self._waiting
        for target in targets:
            waiting[target] = waiting.get(target, 0) | why
        if waiting:
            self._wake()

    def take(self, most: int) -> list[Hint]:
        """Up to `most` hints, the oldest first; they are not waiting any more."""
        waiting = self._waiting
        if len(waiting) <= most:
            taken = list(waiting.items())
            waiting.clear()
            return taken
        return [(target, waiting.pop(target)) for target in list(islice(waiting, most))]

    def give_back(self, hints: Iterable[Hint]) -> None:
        """These were taken and could not be followed: they wait again."""
        for target, why in hints:
            self.add([target], why)

    def __len__(self) -> int:
        return len(self._waiting)
