"""The loop of `runward top`: look, draw, wait for a key or for something new."""

import time
from collections.abc import Callable
from typing import Final

import click

from runward.config.settings import Settings
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.whole_screen import WholeScreen, whole_screen
from runward.daemon.cli.top.choice import Choice
from runward.daemon.cli.top.looking import Looking, Seen
from runward.daemon.cli.top.page import Key, Shown, cells_of, key_page, page
from runward.daemon.cli.top.sheet import Sheet
from runward.daemon.views.rows import Row

_PERIOD_S: Final = 0.25
"""Seconds between two looks at whether something was committed."""

_KEYS: Final = (
    Key("↑↓", "j k", "move", "one row up or down, as k and j do"),
    Key("PgUp PgDn", "PgUp PgDn", "", "ten rows up or down; Home and End: the first, the last"),
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


def watch(settings: Settings, *, has_colour: bool) -> None:
    """Show it until a person has seen enough."""
    with whole_screen() as screen:
        top = Top(settings, screen, has_colour=has_colour)
        try:
            top.run()
        finally:
            top.close()


class Top:
    """What is on the screen, and what keys make of it."""

    def __init__(self, settings: Settings, screen: WholeScreen, *, has_colour: bool) -> None:
        self._settings, self._screen, self._has_colour = settings, screen, has_colour
        self._looking = Looking(settings)
        self._choice = Choice()
        self._is_typing = False
        self._message: str | None = None
        self._sheet: Sheet | None = None
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
                self._draw(seen, terminal)
                drawn, drawn_at = seen, now
                beat = _BEATS_S[any(terminal.now - row.at < _YOUNG_S for row in seen.rows)]
            pressed = self._screen.keys(_PERIOD_S)
            if pressed is not None:
                drawn = None
                for key in pressed:
                    self._press(key)

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
            self._sheet = self._sheet.scrolled(key, terminal_here())
        elif self._is_typing:
            self._type(key)
        elif key in _STEPS:
            self._choice = self._choice.moved(self._rows(self._looking.seen(), terminal_here()), _STEPS[key])
        elif key in _DOES:
            _DOES[key](self)

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

    def show_keys(self) -> None:
        """The page of the keys."""
        self._sheet = Sheet(lambda terminal: key_page(_KEYS, terminal))

    def end(self) -> None:
        """Seen enough."""
        self._is_over = True


_DOES: Final[dict[str, Callable[[Top], None]]] = {
    "/": Top.start_typing,
    "escape": Top.show_all,
    "?": Top.show_keys,
    "q": Top.end,
}
