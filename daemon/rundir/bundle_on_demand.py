"""A bundle that is made on demand, from the session's current files, if the daemon writes none.

It isn't part of a chain: its receipt names no earlier receipt.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runward.daemon.ports.files import Gone
from runward.daemon.rundir.bundle_parts import clear_parts, write_part
from runward.daemon.rundir.call_reading import told_by
from runward.handlers.bundle.parts import PARTS, RECEIPT, REPLAY, SUMMARY
from runward.handlers.bundle.receipt import sealed
from runward.handlers.bundle.replay import Replay, receipt_body, summary_of
from runward.handlers.bundle.summary import summary_text
from runward.handlers.calls import Told, by_time
from runward.handlers.model.bundle import BundleOrder, NoDraft, Part
from runward.handlers.model.unreadable import Unreadable


class MadeBundle(NamedTuple):
    """The parts under temporary names, and what is wrong with the session's files."""

    parts: tuple[Part, ...]
    problem: str | None


class CannotMake(Exception):
    """No bundle can be made; the message says why."""


def lines_on_demand(
    order: BundleOrder, actions: Iterable[Told], *, is_over: bool = True
) -> tuple[Replay, Iterator[bytes]]:
    """The replay according to the session's current files and its `actions`, and its lines."""
    replay = Replay(order)
    told = by_time(told_by(order.layout, order.path, _always), actions)
    return replay, replay.lines(told, is_over=is_over)


def make_on_demand(order: BundleOrder, actions: Iterable[Told], directory: str) -> MadeBundle:
    """Write the three parts into a directory, under temporary names. Raises `CannotMake`."""
    clear_parts(directory, PARTS)
    replay, lines = lines_on_demand(order, actions)
    replayed = _part(write_part(directory, REPLAY, lines))
    summary = _part(write_part(directory, SUMMARY, [summary_text(summary_of(replay)).encode()]))
    body = receipt_body(replay, (replayed, summary), (REPLAY, SUMMARY))
    text = sealed(body, None, order.rules.form).text
    receipt = _part(write_part(directory, RECEIPT, [text]))
    return MadeBundle((replayed, summary, receipt), replay.problem)


def _part(written: Part | Unreadable | NoDraft | Gone) -> Part:
    if isinstance(written, Part):
        return written
    raise CannotMake("the directory is gone" if isinstance(written, Gone) else written.why)


def _always(count: int) -> bool:
    return True
