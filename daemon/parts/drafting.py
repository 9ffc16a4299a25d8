"""Drafting a bundle: its replay and its summary, written under temporary names, and what its receipt will say.

It is done in a thread of the daemon, or for large sessions in a process of its own (`drafting_elsewhere.py`).
"""

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from runward.config.json_value import JsonValue
from runward.daemon.faults import point
from runward.daemon.rundir.call_reading import CannotReadNow
from runward.daemon.rundir.opening import Gone, unreadable
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.store.tables.replays import NOTHING, LastTold
from runward.daemon.world.files import Files
from runward.handlers.bundle.parts import REPLAY, SUMMARY, part_name, part_names
from runward.handlers.calls import Told, as_shown
from runward.handlers.journal.place import journal_directory
from runward.handlers.model.bundle import BundleOrder, Grown, NoDraft
from runward.handlers.model.files import Unreadable
from runward.handlers.model.part import Part as BundlePart

if TYPE_CHECKING:
    from runward.handlers.bundle.replay import Replay

CHANGED: Final = "the session's files changed after its replay had been shown: what was shown stays, and the rest follows it"

SHOWN_IS_GONE: Final = "the session's files changed after its replay had been begun, and the lines that were shown, if any, were lost"

LAST_SHOWN_IS_GONE: Final = "the session's files changed after its replay had been shown: what was shown stays, but its last lines, if they were shown, were lost"

IS_BEING_SHOWN: Final = "lines of running replays are being written, its own may be among them"

ToldActions: TypeAlias = Callable[[str, int, LastTold], Generator[Told]]
"""The first actions of a session, up to a number, as calls, without those up to the last one that is shown already.

Raises `sqlite3.Error` and `StoreUnreadable`.
"""


def no_actions(key: str, count: int, last: LastTold) -> Generator[Told]:
    """Stands in if there is no exchange."""
    yield from ()


class Made(NamedTuple):
    """A bundle under temporary names: its receipt before sealing, the other parts, the facts of its summary as JSON
    text, and what is wrong with it."""

    body: dict[str, JsonValue]
    parts: tuple[BundlePart, ...]
    summary: str
    problem: str | None


MakingAnswer: TypeAlias = "Made | NoDraft | Unreadable | Gone"


@dataclass(slots=True)
class Drafting:
    """Makes the parts of a bundle but its receipt, for the daemon of this epoch. Blocks."""

    files: Files
    epoch: int
    actions: ToldActions
    go_on: Callable[[int], bool]
    """Called while files are read, with the number of bytes read; says whether to continue."""
    is_being_shown: Callable[[], bool]
    """Whether lines that are recorded as shown may not be written yet."""

    def make(self, order: BundleOrder, *, is_again: bool = False) -> MakingAnswer:
        """The parts, or why there are none. `is_again`: they are recorded, and were lost.

        Raises `EpochPassed`, `Halted`, `OSError`, `CannotReadNow`, `sqlite3.Error` and `StoreUnreadable`.
        """
        # What makes bundles is imported with the first one.
        from runward.handlers.bundle.replay import receipt_body, summary_of
        from runward.handlers.bundle.summary import dump_summary, summary_text

        # A daemon that was replaced must not write over the parts that its successor makes.
        self.files.check_epoch(self.epoch)
        # A crash may have left some under their temporary names.
        cleared = self.files.clear_parts(order.directory, part_names(order.attempt))
        if cleared is not None:
            return cleared
        replay, written = self._replayed(order, is_again)
        if not isinstance(written, BundlePart):
            return written
        point("bundle.replay.after")
        summary = summary_of(replay)
        text = summary_text(summary).encode()
        name = part_name(SUMMARY, order.attempt)
        # A draft is synced when it is sealed, with those of its batch.
        summary_part = self.files.write_part(order.directory, name, [text], is_synced=is_again)
        if not isinstance(summary_part, BundlePart):
            return summary_part
        point("bundle.summary.after")
        parts = (written, summary_part)
        body = receipt_body(replay, parts, (REPLAY, SUMMARY))
        return Made(body, parts, dump_summary(summary), replay.problem)

    def _replayed(
        self, order: BundleOrder, is_again: bool
    ) -> tuple["Replay", BundlePart | NoDraft | Unreadable | Gone]:
        """Write the replay."""
        from runward.handlers.bundle.replay import Replay

        name, grown = part_name(REPLAY, order.attempt), order.grown
        replay = Replay(order)
        beginning = _Beginning(0 if grown is None else grown.length)
        lines = beginning.of(self._lines(replay))
        written = self.files.write_part(order.directory, name, lines, is_synced=is_again)
        # What was shown while the session ran is the beginning of the complete replay: nobody may find that a
        # line changed afterwards.
        if grown is None or not isinstance(written, BundlePart) or beginning.sha256 == grown.sha256:
            return replay, written
        if not is_again and self.is_being_shown():
            return replay, Unreadable(IS_BEING_SHOWN)
        standing = journal_directory(order.layout, order.key, order.path)
        shown, is_whole = self._shown_of(standing, name, grown)
        if isinstance(shown, Unreadable):
            return replay, shown
        if shown is None:
            replay.found_changed(SHOWN_IS_GONE)
            return replay, written
        cleared = self.files.clear_parts(order.directory, [name])
        if cleared is not None:
            return replay, cleared
        # The session's files no longer say what was shown. The shown lines stay, and the replay says that
        # they differ.
        replay = Replay(order)
        replay.found_changed(CHANGED if is_whole else LAST_SHOWN_IS_GONE)
        lines = chain(_adopted(replay, shown), self._lines(replay))
        return replay, self.files.write_part(order.directory, name, lines, is_synced=is_again)

    def _shown_of(
        self, directory: str, name: str, grown: Grown
    ) -> tuple[Iterator[bytes] | Unreadable | None, bool]:
        """The lines that were shown, and whether they are all that was recorded.

        A crash may have come between recording the last of them and writing them, or before they were synced.
        """
        shown = self.files.shown_lines(directory, name, grown.length, grown.sha256)
        if shown is not None:
            return shown, True
        for step in grown.steps[-1:]:
            if step.length:
                shown = self.files.shown_lines(directory, name, step.length, step.sha256)
        return shown, False

    def _lines(self, replay: "Replay") -> Iterator[bytes]:
        order = replay.order
        calls = self.files.told(order.layout, order.path, self.go_on)
        with closing(self.actions(order.key, order.actions, NOTHING)) as actions:
            steps = () if order.grown is None else order.grown.steps
            yield from replay.lines(as_shown(calls, actions, steps))


Asked = TypeVar("Asked")
Result = TypeVar("Result")


def tried(make: Callable[[Asked], Result], asked: Asked) -> Result | Unreadable:
    """What is made, or why that can't be done now."""
    try:
        return make(asked)
    except CannotReadNow as error:
        return Unreadable(str(error))
    except OSError as error:
        return unreadable(error)
    except (sqlite3.Error, StoreUnreadable) as error:
        return Unreadable(f"its actions in the exchange can't be read: {error}")


def _adopted(replay: "Replay", shown: Iterator[bytes]) -> Iterator[bytes]:
    for line in shown:
        replay.adopt(line)
        yield line


class _Beginning:
    """Hashes the first bytes of the lines that pass through."""

    def __init__(self, length: int) -> None:
        self._left = length
        self._digest = sha256()

    @property
    def sha256(self) -> str | None:
        """The hash; None if there were fewer bytes."""
        return None if self._left else self._digest.hexdigest()

    def of(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Pass the lines through unchanged."""
        for line in lines:
            if self._left:
                start = line[: self._left]
                self._digest.update(start)
                self._left -= len(start)
            yield line
