"""The lines of a growing file: once, or followed until there is no reason to (the loop behind `-f`)."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from runward.daemon.rundir.tailing import Line, Tail

PERIOD: Final = 0.2
"""Seconds between two looks at a file: what a person calls at once."""


def once(tail: Tail, count: int | None) -> Iterator[Line]:
    """The current lines, including an unfinished last one; only the last `count` of them, unless None."""
    yield from _newest(_to_the_end(tail), count)


def follow(tail: Tail, count: int | None, is_over: Callable[[], bool]) -> Iterator[Line]:
    """The lines as `once`, and then those that are added, until `is_over`."""
    yield from _newest(tail.lines(), count)
    while not is_over():
        yield from tail.lines()
        if not tail.moved_on():
            time.sleep(PERIOD)
    yield from _to_the_end(tail)


def _to_the_end(tail: Tail) -> Iterator[Line]:
    yield from tail.lines()
    last = tail.unfinished()
    if last is not None:
        yield last


def _newest(lines: Iterator[Line], count: int | None) -> Iterator[Line]:
    return lines if count is None else iter(deque(lines, maxlen=count))
