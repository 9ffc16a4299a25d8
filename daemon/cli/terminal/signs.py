"""The terminal that a screen is drawn for: its size, its characters, and how states, ids and paths look on it."""

import os
import sys
import time
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

import click

from runward.daemon.cli.terminal.output import columns_there, home_here, safe, terminal_size, with_tildes
from runward.daemon.views.text import SIGNS, short_id

State: TypeAlias = Literal[
    "working",
    "idle",
    "waiting",
    "unknown",
    "completed",
    "failed",
    "timed_out",
    "aborted",
    "cancelled",
    "skipped",
    "pending",
]

_COLOURS: Final = {
    "working": "cyan",
    "waiting": "yellow",
    "unknown": "yellow",
    "completed": "green",
    "failed": "red",
    "timed_out": "red",
    "aborted": "red",
}
"""The colours of signs, which only repeat them."""

_PLAIN_TERMINALS: Final = ("dumb", "linux")
"""Values of `TERM` for which only ASCII is certain to be shown."""

_WITHOUT_LOCALE: Final = ("", "C", "POSIX")


class Terminal(NamedTuple):
    """What a screen has to know of the terminal, and of the moment. `home` has no slash at its end.

    Where it is a pipe, a program reads the screen, which it asked for.
    """

    columns: int
    rows: int
    has_utf8: bool
    home: str
    now: float
    is_pipe: bool = False

    @property
    def ellipsis(self) -> str:
        return "…" if self.has_utf8 else "..."

    @property
    def between(self) -> str:
        """What stands between commands that are named in one line."""
        return " · " if self.has_utf8 else "; "

    def text(self, foreign: str) -> str:
        """A text in one line with short paths, without anything that the terminal would obey or can't show."""
        shown = foreign if self.is_pipe else with_tildes(foreign, self.home)
        return self.command(shown.replace("…", self.ellipsis))

    def command(self, text: str) -> str:
        """A command to copy, word by word: what is escaped in the name of a session can be typed as it stands there."""
        shown = safe(text)
        if self.has_utf8 or shown.isascii():
            return shown
        return shown.encode("ascii", "backslashreplace").decode()

    def sign(self, state: str) -> str:
        """The sign of a state, in its colour."""
        pretty, plain = SIGNS[state]
        sign, colour = pretty if self.has_utf8 else plain, _COLOURS.get(state)
        return sign if colour is None else click.style(sign, fg=colour)

    def state(self, state: str) -> str:
        """A state as its sign and its word."""
        return f"{self.sign(state)} {state}"

    def id(self, identifier: str) -> str:
        """An id as it is shown: of a UUID the last eight characters, which every command takes, too."""
        return self.text(short_id(identifier, self.ellipsis))

    def path(self, path: str) -> str:
        """A path; the person's own directory is `~`."""
        if self.home and (path == self.home or path.startswith(f"{self.home}/")):
            path = f"~{path[len(self.home) :]}"
        return self.text(path)


def terminal_here() -> Terminal:
    """The terminal that stdout is; a pipe or a file has room for everything."""
    return Terminal(
        columns=columns_there(),
        rows=terminal_size().lines if sys.stdout.isatty() else sys.maxsize,
        has_utf8=shows_utf8(os.environ, sys.stdout.encoding),
        home=home_here(),
        now=time.time(),
        is_pipe=not sys.stdout.isatty(),
    )


def shows_utf8(environment: Mapping[str, str], encoding: str) -> bool:
    """Whether a terminal with these variables shows more than ASCII, as far as they tell."""
    if environment.get("TERM", "") in _PLAIN_TERMINALS or encoding.lower().replace("-", "") != "utf8":
        return False
    if environment.get("LC_ALL"):
        return environment["LC_ALL"] not in _WITHOUT_LOCALE
    named = environment.get("LC_CTYPE", "")
    # Python sets this one itself where no locale is set. What it writes is UTF-8 then, whatever the terminal shows.
    is_pythons_own = named in ("C.UTF-8", "C.utf8", "UTF-8")
    if named and not is_pythons_own:
        return named not in _WITHOUT_LOCALE
    return environment.get("LANG", "") not in _WITHOUT_LOCALE
