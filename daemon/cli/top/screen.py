"""The loop of `runward top`: look, draw, wait for a key or for something new."""

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from runward.config.settings import Settings
from runward.daemon.cli.session.table import what_of
from runward.daemon.cli.terminal.notices import notice
from runward.daemon.cli.terminal.output import width
from runward.daemon.cli.terminal.pager import pager_of
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import flowed
from runward.daemon.cli.terminal.whole_screen import WholeScreen, whole_screen
from runward.daemon.cli.top.choice import Choice
from runward.daemon.cli.top.looking import Looking, Seen
from runward.daemon.cli.top.page import Key, Shown, cells_of, key_page, page
from runward.daemon.cli.top.sheet import Sheet
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.views.rows import Row

if TYPE_CHECKING:
    from runward.daemon.cli.top.acting import Asked, Question

_PERIOD_S: Final = 0.25
"""Seconds between two looks at whether something was committed."""

_KEYS: Final = (
    Key("↑↓", "j k", "move", "one row, as k and j do; PgUp and PgDn: ten; Home and End: the first, the last"),
    Key("⏎", "Enter", "all of why", "all of why the row is as it is, in the pager"),
    Key("a", "a", "approve", "approve what the row waits for: shows all of it, and asks"),
    Key("d", "d", "deny", "deny it: shows all of it, and asks"),
    Key("x", "x", "cancel", "cancel a run that was launched, or a chain run: asks"),
    Key("s", "s", "seen", "mark a failure as seen"),
    Key("/", "/", "filter", "show only rows with these words; Enter keeps them, Esc shows all"),
    Key("?", "?", "keys", "this page"),
    Key("q", "q", "", "end"),
)

_STEPS: Final = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page up": -10,
    "page down": 10,
    "home": -1 << 30,
    "end": 1 << 30,
}
_YOUNG_S: Final = 60.0
"""Seconds of an age that is told in seconds."""

_BEATS_S: Final = {True: 1.0, False: 5.0}
"""Seconds after which ages are told anew, by whether one of them is young."""


def watch(settings: Settings, *, has_colour: bool, is_quiet: bool) -> None:
    """Show it until a person has seen enough."""
    with whole_screen() as screen:
        top = Top(settings, screen, has_colour=has_colour, is_quiet=is_quiet)
        try:
            top.run()
        finally:
            top.close()


class Waiting:
    """What begins to wait for a person while the list is open: tells of each wait once. What waits at the first look is on the screen already."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str | None]] | None = None

    def began(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that wait now and did not at the last look. A chain run that asks for another step waits anew."""
        waiting = [row for row in rows if row.state == "waiting"]
        known, self._known = self._known, {(row.key, row.approval) for row in waiting}
        return [] if known is None else [row for row in waiting if (row.key, row.approval) not in known]


class Top:
    """What is on the screen, and what keys make of it."""

    def __init__(self, settings: Settings, screen: WholeScreen, *, has_colour: bool, is_quiet: bool) -> None:
        self._settings, self._screen, self._has_colour = settings, screen, has_colour
        self._looking = Looking(settings)
        self._waiting = None if is_quiet else Waiting()
        self._choice = Choice()
        self._is_typing = False
        self._message: str | None = None
        self._sheet: Sheet | None = None
        self._asked: Asked | None = None
        self._is_over = False

    def close(self) -> None:
        """Let go of the store."""
        self._looking.close()

    def run(self) -> None:
        """Until a key ends it."""
        drawn: Seen | None = None
        drawn_at, beat = 0.0, 0.0
        while not self._is_over:
            seen, now = self._looking.seen(), time.monotonic()
            if seen is not drawn or now - drawn_at >= beat:
                terminal = terminal_here()
                if seen is not drawn:
                    self._ask_again()
                    self._tell(seen, terminal)
                self._draw(seen, terminal)
                drawn, drawn_at = seen, now
                beat = _BEATS_S[any(terminal.now - row.at < _YOUNG_S for row in seen.rows)]
            pressed = self._screen.keys(_PERIOD_S)
            if pressed is not None:
                drawn = None
                for key in pressed:
                    was_asked = self._is_asked
                    self._press(key)
                    if self._is_asked and not was_asked:
                        break  # what was typed before the question doesn't answer it

    @property
    def _is_asked(self) -> bool:
        """Whether a question is on the screen."""
        return self._sheet is not None and self._sheet.asks is not None

    def _draw(self, seen: Seen, terminal: Terminal) -> None:
        if self._sheet is not None:
            self._sheet = self._sheet.placed(terminal)
            lines = self._sheet.page(terminal)
        else:
            rows = self._rows(seen, terminal)
            self._choice = self._choice.settled(rows)
            shown = Shown(seen, rows, self._choice, self._line(terminal))
            lines = page(shown, self._looking.why, self._cleaned, _KEYS, terminal)
        self._screen.draw(lines if self._has_colour else list(map(click.unstyle, lines)))

    def _line(self, terminal: Terminal) -> str | None:
        """What stands in the last line instead of the keys."""
        if self._message is not None:
            return terminal.text(self._message)
        if self._is_typing:
            return terminal.text(f"/{self._choice.filter}")
        if self._choice.filter:
            return terminal.text(f"/{self._choice.filter}   Esc shows all")
        return None

    def _tell(self, seen: Seen, terminal: Terminal) -> None:
        """Have the terminal show a notice of what has begun to wait."""
        began = [] if self._waiting is None or seen.trouble is not None else self._waiting.began(seen.rows)
        if not began:
            return
        more = f" (and {len(began) - 1} more)" if len(began) > 1 else ""
        what = what_of(began[0], terminal, has_directory=False)
        self._screen.send(
            notice(f"{began[0].purpose or terminal.id(began[0].id)} waits{more}: {what}", os.environ)
        )

    def _rows(self, seen: Seen, terminal: Terminal) -> list[Row]:
        rows = [
            row._replace(took=max(0.0, terminal.now - row.at)) if row.is_open else row for row in seen.rows
        ]
        return self._choice.shown(rows, lambda row: cells_of(row, terminal))

    def _cleaned(self, text: str) -> str:
        from runward.handlers.secrets import text_without_secrets  # the list is there before

        return text_without_secrets(text, self._settings.bundle.rules.redact)

    def _press(self, key: str) -> None:
        self._message = None
        if self._sheet is not None:
            self._press_in(self._sheet, key)
        elif self._is_typing:
            self._type(key)
        elif key in _STEPS:
            self._choice = self._choice.moved(self._rows(self._looking.seen(), terminal_here()), _STEPS[key])
        elif key in _DOES:
            _DOES[key](self)
        elif key in _ACTS:
            self._act(key)

    def _press_in(self, sheet: Sheet, key: str) -> None:
        if sheet.then is None or key not in _YES:
            self._sheet = sheet.scrolled(key, terminal_here())
        elif sheet.was_read:
            self._sheet = None
            self._carry_out(sheet.then)

    def _selected(self) -> Row | None:
        rows = self._rows(self._looking.seen(), terminal_here())
        return next((row for row in rows if row.key == self._choice.key), None)

    def _act(self, key: str) -> None:
        """Do what this key does about the selected row, or ask before."""
        row = self._selected()
        if row is None:
            return
        from runward.daemon.cli.top.acting import ACTS  # most only look

        self._carry_out(lambda: ACTS[key](self._settings, row))

    def _carry_out(self, begin: "Callable[[], Question | Asked | str]") -> None:
        try:
            done = begin()
        except StoreUnreadable as error:
            done = str(error)
        except OSError as error:
            done = f"the request could not be left: {error}"
        from runward.daemon.cli.top.acting import Question

        if isinstance(done, str):
            self._message = done
        elif isinstance(done, Question):
            self._sheet = Sheet(done.lines, done.asks, done.then)
            self._screen.forget_keys()
        else:
            self._asked, self._message = done, done.said

    def _ask_again(self) -> None:
        """Say what became of the last request, once that is known."""
        answer = None if self._asked is None else self._looking.answered(self._asked.answer)
        if answer is not None:
            self._asked, self._message = None, answer

    def _type(self, key: str) -> None:
        text = self._choice.filter
        if key in ("enter", "escape"):
            self._is_typing = False
        if key == "escape":
            text = ""
        elif key == "backspace":
            text = text[:-1]
        elif len(key) == 1:
            text += key
        self._choice = self._choice._replace(filter=text)

    def start_typing(self) -> None:
        """The next keys are the filter."""
        self._is_typing = True

    def show_all(self) -> None:
        """Without a filter."""
        self._choice = self._choice._replace(filter="")

    def show_whole(self) -> None:
        """All of why, in the pager if that is longer than the screen."""
        row = self._selected()
        if row is None:
            return
        try:
            text = self._cleaned("\n".join(self._looking.whole(row)))
        except StoreUnreadable as error:
            self._message = str(error)
            return
        sheet = Sheet(lambda terminal: _broken(text, terminal)).placed(terminal_here())
        words = pager_of(os.environ)
        if sheet.was_read or words is None:
            self._sheet = sheet
            return
        shown = text if self._has_colour else click.unstyle(text)
        try:
            self._screen.page(words, f"{shown}\n")
        except OSError as error:
            self._message = f"{words[0]} can't be started: {error.strerror}"

    def show_keys(self) -> None:
        """The page of the keys."""
        self._sheet = Sheet(lambda terminal: key_page(_KEYS, terminal))

    def end(self) -> None:
        """Seen enough."""
        self._is_over = True


def _broken(text: str, terminal: Terminal) -> list[str]:
    """A text in lines that fit; what it has of colours is lost where it is broken."""
    lines: list[str] = []
    for line in text.split("\n"):
        plain = terminal.text(click.unstyle(line))
        is_short = width(plain) <= terminal.columns
        indent = " " * min(len(plain) - len(plain.lstrip()) + 2, terminal.columns // 2)
        lines += [plain] if is_short else flowed(plain.rstrip(), "", indent, terminal.columns)
    return lines


_YES: Final = ("y", "Y")
_ACTS: Final = ("a", "d", "x", "s")
_DOES: Final[dict[str, Callable[[Top], None]]] = {
    "/": Top.start_typing,
    "escape": Top.show_all,
    "enter": Top.show_whole,
    "?": Top.show_keys,
    "q": Top.end,
}
