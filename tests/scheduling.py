"""Which tests targets collect, and which is begun when: the long ones first, so that no worker ends long after the others.

`--dist worksteal` deals the tests out in equal pieces, the first worker's first; who is done early takes from the
end of another's piece. So each piece begins with its share of what takes long and ends with what takes little.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

Test = TypeVar("Test")


@cache
def is_found(mark: str, file: Path) -> bool:
    """Whether the Makefile's targets for tests with this mark collect this file."""
    if mark == "agents":
        return file.parent == Path(__file__).parent / "agents"
    return f"mark.{mark}" in file.read_text()


def dealt(longest: Sequence[Test], slow: Sequence[Test], quick: Sequence[Test], workers: int) -> list[Test]:
    """All of them in the order in which they are to be dealt out; neighbours stay together but for the longest."""
    rest = [iter(slow), iter(quick)]
    sizes = list(_pieces(len(slow), workers)), list(_pieces(len(quick), workers))
    order: list[Test] = []
    # The pieces of all workers but the last are rounded down, so who gets one more comes last.
    for worker in range(workers):
        order += longest[workers - 1 - worker :: workers]
        end = sum(_pieces(len(longest) + len(slow) + len(quick), workers, upto=worker + 1))
        order += [test for _, test in zip(range(sizes[0][worker]), rest[0], strict=False)]
        order += [test for _, test in zip(range(end - len(order)), rest[1], strict=False)]
    return order + [test for left in rest for test in left]


def _pieces(tests: int, workers: int, upto: int | None = None) -> Iterator[int]:
    """How many tests each worker gets at first."""
    for left in range(workers, workers - (workers if upto is None else upto), -1):
        yield tests // left
        tests -= tests // left
