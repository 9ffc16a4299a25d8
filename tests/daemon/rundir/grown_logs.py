"""Reading one growing log by its path, for tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from runward.daemon.rundir.opening import open_in_run
from runward.daemon.rundir.session_logs import MOST_BYTES, Cursor, Growing, Portion
from runward.handlers.layouts.places import PACKED


@contextmanager
def growing(path: str, cursor: Cursor) -> Iterator[Growing]:
    """The log at `path`, opened without following a link or blocking. Raises `OSError`, `NotRegular`, `CannotUnpack`.

    One that ends in `.zst` is unpacked.
    """
    directory, name = os.path.split(path)
    descriptor = open_in_run(directory, name)
    try:
        yield Growing(descriptor, cursor, is_packed=name.endswith(PACKED))
    finally:
        os.close(descriptor)


def read(path: str, cursor: Cursor, most_bytes: int = MOST_BYTES) -> Portion:
    """One portion of the log at `path`; a line that is longer than `most_bytes` is read to its end, or to its cut.

    Raises as `growing` does.
    """
    with growing(path, cursor) as log:
        portion = log.portion(most_bytes)
        happened = portion.happened
        while portion.more and not portion.lines:
            portion = log.portion(most_bytes)
            happened = portion.happened if happened == "same" else happened
    return portion._replace(happened=happened)
