"""Following a growing file until there is no reason to: the loop behind `-f`."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from runward.daemon.rundir.tailing import Line, Tail

T = TypeVar("T")

_PERIOD: Final = 0.2
"""Seconds between two looks at a file: what a person calls at once."""


def newest(items: Iterable[T], count: int | None) -> Iterable[T]:
    """The last `count` of the items; all of them for None."""
    return items if count is None else deque(items, maxlen=count)


def follow(tail: Tail, is_over: Callable[[], bool]) -> Iterator[Line]:
    """The lines as they are added, until `is_over`; then what is left, the unfinished last one too."""
    while True:
        over = is_over()
        yield from tail.lines()
        if over:
            break
        if not tail.moved_on():
            time.sleep(_PERIOD)
    last = tail.unfinished()
    if last is not None:
        yield last
