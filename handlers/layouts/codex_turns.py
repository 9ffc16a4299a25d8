"""When a Codex turn is open and how it ended, followed record by record as Codex's own turn lifecycle does.

Since 0.104 turns have ids, and their start and end are recorded. Before, only interrupts were. There a prompt
begins a turn, and its end has to be guessed from a reply that is complete and calls no tool.
"""

from dataclasses import dataclass
from typing import Final

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.transcript import Close, Resumed, Turn

MOST_FINISHED: Final = 16
"""Ended turns whose ids are remembered, so that late records about them change nothing."""

UNNUMBERED: Final = ""
"""The id of a turn that has none."""

ROLLED_BACK: Final = Close("aborted", "run.aborted.user", "the open turn was rolled back")


def completed(at: float | None) -> Close:
    """The end of a turn that went well."""
    return Close("completed", "run.completed.ok", "the turn is complete", at)


@dataclass(slots=True)
class Turns:
    """The turns of a thread so far. It is a part of a scanner's state: only a copy of it is ever changed.

    `current` is the id of the last turn until it is finished: an interrupted turn stays current, as in Codex.
    `guessed` marks an end that was not recorded. `prompted` says that the turn was asked for something, `owes` that
    the model has yet to answer a prompt or a tool's output, `answered` and `replied` that it answered in words and
    that a reply of it is complete. `attempt` counts the headless stretches, `started_at` is when a later one began,
    `begun` counts the turns. `asked` says that a prompt came after an end, and that its second record, which begins
    the turn, is yet to come. A time `at` is a record's, as written."""

    turn: Turn = "none"
    current: str | None = None
    finished: tuple[str, ...] = ()
    close: Close | None = None
    guessed: bool = False
    attempt: int = 1
    begun: int = 0
    started_at: float | None = None
    prompted: bool = False
    owes: bool = False
    answered: bool = False
    replied: bool = False
    asked: bool = False

    @property
    def is_open(self) -> bool:
        """Whether an end is still to be recorded. A guessed end gives way to it."""
        return self.turn == "open" or self.guessed

    def start(self, turn: str, at: str | None, headless: bool | None) -> Resumed | None:
        """The record of a start came. A turn that was still open is over, without an end of its own."""
        self._finish()
        self.current = turn
        return self._begin(at, headless)

    def prompt(self, turn: str | None, at: str | None, headless: bool | None) -> Resumed | None:
        """A prompt was given, in the turn with that id if it names one. Outside of numbered turns it begins one."""
        resumed = None
        if turn is None:
            if not self.current:
                resumed = self.start(UNNUMBERED, at, headless)
        elif turn != self.current and turn not in self.finished:
            resumed = self.start(turn, at, headless)
        self.owes = self.prompted = True
        return resumed

    def complete(
        self, turn: str | None, close: Close, at: str | None, headless: bool | None
    ) -> Resumed | None:
        """The record of an end came: like `abort`, but the turn is finished."""
        is_late = self._is_late(turn)
        resumed = self.abort(turn, close, at, headless)
        if not is_late:
            self._finish()
        return resumed

    def abort(self, turn: str | None, close: Close, at: str | None, headless: bool | None) -> Resumed | None:
        """The record of an interrupt came. One of a finished turn is late; a turn whose start was lost began and ended.

        The turn stays current: later records about it open nothing.
        """
        if self._is_late(turn):
            return None
        resumed = self._begin_lost(turn, at, headless)
        if self.is_open:
            self._end(close)
        if self.current is None:
            self.current = turn
        return resumed

    def fail(self, close: Close) -> None:
        """An error that ends the current turn came."""
        if self.is_open:
            self._end(close)

    def roll_back(self, count: int, at: float | None) -> None:
        """The last `count` turns were taken back. Records about them from now on count again."""
        if self.is_open:
            self._end(ROLLED_BACK._replace(at=at))
        self._finish()
        self.finished = self.finished[: max(0, len(self.finished) - count)]

    def request(self) -> None:
        """The model is about to be asked."""
        if self.turn == "open":
            self.answered = self.replied = False

    def ask(self) -> None:
        """The first record of a prompt came, in a version without turn ids: the end before it no longer counts."""
        self.asked = self.turn == "closed" and self.current == UNNUMBERED

    def batch(self) -> None:
        """What follows was recorded at once: words in it that no tool's output precedes belong to a complete reply."""
        if self.turn == "open":
            self.answered, self.replied = False, True

    def compact(self) -> None:
        """The history was summed up, which cost a reply. If the turn was asked for something, that is not an
        answer."""
        self.asked = False
        if self.turn == "open":
            self.owes = self.prompted
            self.answered = self.replied = False

    def call(self) -> None:
        """The model called a tool: what it said before was not its last word. The turn's start record may be lost."""
        self.owes = self.answered = False
        if self.guessed:
            self._reopen()
        elif self.turn == "none":
            self._begin(None, None)

    def output(self) -> None:
        """A tool's output came: the model will be asked again."""
        if self.guessed:
            self._reopen()
        if self.turn == "open":
            self.owes = True
            self.answered = self.replied = False

    def answer(self, at: str | None) -> None:
        """The model said something."""
        self.owes = False
        self.answered = True
        if self.current == UNNUMBERED:
            self._guess(at)

    def reply(self, at: str | None) -> None:
        """A reply is complete: its tokens were counted, or it is known otherwise."""
        self.owes = False
        self.replied = True
        if self.current == UNNUMBERED:
            self._guess(at)

    def _is_late(self, turn: str | None) -> bool:
        return turn in self.finished and turn != self.current

    def _begin(self, at: str | None, headless: bool | None) -> Resumed | None:
        resumed = None
        if headless and self.turn == "closed" and self.close is not None:
            self.attempt += 1
            began_at, self.started_at = self.started_at, parse_time(at)
            resumed = Resumed(self.attempt, self.close, self.started_at, self.begun, began_at)
        self.begun += 1
        self.turn, self.close, self.guessed, self.asked = "open", None, False, False
        self.prompted = self.owes = self.answered = self.replied = False
        return resumed

    def _begin_lost(self, turn: str | None, at: str | None, headless: bool | None) -> Resumed | None:
        if self.turn == "none" or (self.turn == "closed" and turn is not None and turn != self.current):
            self._finish()
            return self._begin(at, headless)
        return None

    def _guess(self, at: str | None) -> None:
        if self.turn == "open" and self.answered and self.replied:
            self._end(completed(parse_time(at)))
            self.guessed = True

    def _reopen(self) -> None:
        self.turn, self.close, self.guessed, self.asked = "open", None, False, False

    def _end(self, close: Close) -> None:
        self.turn, self.close, self.guessed, self.asked = "closed", close, False, False

    def _finish(self) -> None:
        if self.current is not None:
            self.finished = (*self.finished, self.current)[-MOST_FINISHED:]
            self.current = None
