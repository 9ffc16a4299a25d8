"""Feeding lines to a scan, so that each boundary between two attempts has its line.

Scanners don't number what they read. Few portions have a boundary, so only those are fed again, in halves: feeding a
log in two portions says the same as feeding it in one.
"""

from collections.abc import Sequence

from runward.handlers.layouts.registry import Scan
from runward.handlers.layouts.transcript import LogLine, Resumed


def fed(scan: Scan, file: str, lines: Sequence[LogLine]) -> tuple[Scan, tuple[Resumed, ...]]:
    """The scan with further lines of a log, and the boundaries in them."""
    after, resumed = scan.feed(file, lines)
    return after, _placed(scan, file, lines, resumed)


def _placed(
    scan: Scan, file: str, lines: Sequence[LogLine], resumed: tuple[Resumed, ...]
) -> tuple[Resumed, ...]:
    """The boundaries that these lines have after what was scanned, each with its line."""
    if not resumed:
        return ()
    if len(lines) == 1:
        return tuple(each._replace(line=lines[0].number) for each in resumed)
    half = len(lines) // 2
    middle, first = scan.feed(file, lines[:half])
    rest = resumed[len(first) :]
    return _placed(scan, file, lines[:half], first) + _placed(middle, file, lines[half:], rest)
