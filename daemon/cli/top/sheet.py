"""A text over the list of `runward top`: read to its end, and if it is a question, answered after that."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from runward.daemon.cli.terminal.signs import Terminal
from runward.daemon.cli.terminal.tables import cut_to

if TYPE_CHECKING:
    from runward.daemon.cli.top.acting import Asked

_BY: Final = {"up": -1, "k": -1, "down": 1, "j": 1, " ": 10, "page down": 10, "page up": -10}

_ANSWERS: Final = " y/N"


class Sheet(NamedTuple):
    """A text. `asks` is the question below it, `then` what a yes does.

    Nobody says yes to what they have not seen: a yes counts from when the last line was shown.
    """

    lines: Callable[[Terminal], list[str]]
    asks: str | None = None
    then: "Callable[[], Asked] | None" = None
    first: int = 0
    was_read: bool = False

    def page(self, terminal: Terminal) -> list[str]:
        """What of it is shown, and what can be done."""
        lines = self.lines(terminal)
        room = max(1, terminal.rows - 2)
        sheet = self.placed(terminal)
        shown = lines[sheet.first : sheet.first + room]
        more = len(lines) - sheet.first - room
        if more > 0:
            last = f"{more} more below: Space or j"
        else:
            asks = cut_to(self.asks or "", terminal.columns - len(_ANSWERS), terminal.ellipsis)
            last = "q back" if self.asks is None else f"{asks}{_ANSWERS}"
        return [
            *shown,
            *[""] * (terminal.rows - 1 - len(shown)),
            cut_to(last, terminal.columns, terminal.ellipsis),
        ]

    def placed(self, terminal: Terminal) -> Self:
        """With a first line that there is on this terminal."""
        count, room = len(self.lines(terminal)), max(1, terminal.rows - 2)
        first = max(0, min(self.first, count - room))
        return self._replace(first=first, was_read=self.was_read or first + room >= count)

    def scrolled(self, key: str, terminal: Terminal) -> Self | None:
        """After this key; None if it closes the sheet."""
        if key in _BY:
            return self._replace(first=max(0, self.placed(terminal).first + _BY[key])).placed(terminal)
        return None
