"""The whole screen of a terminal, taken for a while and given back as it was, whatever ends the program.

A shell that gets a terminal back without echo, or in the alternate screen, is useless to a person. So nothing here is left
to the end of the program alone:

- Signals that end it (SIGINT, SIGTERM, SIGHUP) raise, and raise once: the second of two must not interrupt the way back.
- SIGTSTP, SIGCONT and SIGWINCH only leave a note, and wake the wait for keys: what they ask for takes several steps.
- The way back sets the modes first, which never waits. What is written after that waits a second at most for a terminal that
  takes nothing.
- Ctrl-S doesn't stop the output: a person could not see why nothing reacts.
"""

import errno
import os
import select
import signal
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, Self

from runward.daemon.cli.exits import INTERRUPTED, READER_GONE, TERMINATED
from runward.daemon.cli.terminal.keys import LATE_S, Keys
from runward.daemon.cli.terminal.output import terminal_size, width
from runward.daemon.cli.terminal.pager import Pager

_TAKE: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The alternate screen, no cursor, no line that breaks by itself, and nothing on it."""

_GIVE_BACK: Final = "\x1b[H\x1b[2J\x1b[?7h\x1b[?25h\x1b[?1049l"
"""Emptied before: a terminal without an alternate screen would keep the last page below the prompt."""

_AT: Final = "\x1b[{};1H"
_REST_OF_LINE: Final = "\x1b[K"
_CLEAR: Final = "\x1b[2J"
_PATIENCE_S: Final = 1.0

_ENDS: Final[Mapping[signal.Signals, int]] = {
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: READER_GONE,
}
"""The signals that end it, with the exit code of each."""


def is_there() -> bool:
    """Whether there is a terminal to take: one that shows, and one that has keys."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class WholeScreen:
    """The screen while it is taken."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._encoding = sys.stdout.encoding
        self._before = termios.tcgetattr(self._in)
        self._is_taken = False
        self._is_ending = False
        self._is_to_stop = False
        self._was_away = False
        self._drawn: list[str] = []
        self._size = os.terminal_size((0, 0))
        self._keys = Keys()
        # Python restarts a system call after a signal, so without a pipe a signal would wait for the next key.
        self._woken, self._wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, one for each row; only those that differ from what is shown are written."""
        size = terminal_size()
        parts = []
        if size != self._size:
            self._size, self._drawn = size, []
            parts.append(_CLEAR)
        shown = list(lines[: size.lines])
        for number in range(max(len(shown), len(self._drawn))):
            line = shown[number] if number < len(shown) else ""
            if number >= len(self._drawn) or line != self._drawn[number]:
                # At the last column the cursor stands on what was just written, and would erase it.
                rest = _REST_OF_LINE if width(line) < size.columns else ""
                parts.append(f"{_AT.format(number + 1)}{line}{rest}")
        if parts:
            self._write("".join(parts))
        self._drawn = shown

    def send(self, sequence: str) -> None:
        """Send the terminal what moves nothing on it."""
        self._write(sequence)

    def keys(self, patience: float) -> list[str] | None:
        """The keys that are pressed within so many seconds. None if nothing happens, and no key if a signal does."""
        if self._keys.is_pending:
            patience = min(patience, LATE_S)
        ready, _, _ = select.select([self._in, self._woken], [], [], patience)
        if self._woken in ready:
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self._is_to_stop:
            self._stop()
        elif self._was_away:
            self._take()
        if self._in in ready:
            content = os.read(self._in, 4096)
            if not content:
                raise SystemExit(READER_GONE)
            return self._keys.of(content)
        return [] if self._woken in ready else self._keys.late() or None

    def forget_keys(self) -> None:
        """Drop what was typed up to now: it was no answer to what is shown next."""
        self._keys.forget()
        termios.tcflush(self._in, termios.TCIFLUSH)

    def page(self, words: Sequence[str], text: str) -> None:
        """Give the terminal to a pager, with this text, until it ends. Raises `OSError` if it can't be started."""
        # If the pager stops, so must this: the shell waits for it, and not for the pager.
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            self._give_back()
            with Pager(words, self._encoding) as pager:
                pager.write(text)
        finally:
            signal.signal(signal.SIGTSTP, handler)
            self._take()

    def _stop(self) -> None:
        """Stop as a program without a handler would, with the terminal as it was, until the shell continues this."""
        self._give_back()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self._is_to_stop = False
        self._take()

    def _take(self) -> None:
        """The terminal is this program's. Also where it was this program's and somebody else has used it."""
        self._was_away = False
        if not self._is_taken:
            self._before = termios.tcgetattr(self._in)
        self._is_taken = True
        modes = termios.tcgetattr(self._in)
        modes[0] &= ~termios.IXON
        modes[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._in, termios.TCSANOW, modes)
        self._drawn, self._size = [], os.terminal_size((0, 0))
        self._write(_TAKE)

    def _give_back(self) -> None:
        """The terminal as it was, if it is still there."""
        if not self._is_taken:
            return
        with suppress(OSError, termios.error):
            termios.tcsetattr(self._in, termios.TCSANOW, self._before)
            if select.select([], [self._out], [], _PATIENCE_S)[1]:
                os.write(self._out, _GIVE_BACK.encode())
        self._is_taken = False

    def _write(self, text: str) -> None:
        content = text.encode(self._encoding, "backslashreplace")
        while content:
            content = content[os.write(self._out, content) :]

    def _end(self, number: int, frame: FrameType | None) -> None:
        if not self._is_ending:
            self._is_ending = True
            raise SystemExit(_ENDS[signal.Signals(number)])

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Being called ends the wait; the rest is done there."""
        if number == signal.SIGTSTP:
            self._is_to_stop = True
        elif number == signal.SIGCONT:
            self._was_away = True

    def __enter__(self) -> Self:
        handlers = dict.fromkeys(_ENDS, self._end)
        handlers |= dict.fromkeys((signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH), self._note)
        self._wakeup = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def __exit__(self, *why: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._woken)
        os.close(self._wakes)


@contextmanager
def whole_screen() -> Iterator[WholeScreen]:
    """The whole screen, until the block ends. `SystemExit` ends it if a signal does, or if the terminal is gone."""
    with WholeScreen() as screen:
        try:
            try:
                screen._take()
                yield screen
            finally:
                screen._give_back()
        except (OSError, termios.error) as error:
            if error.args[0] != errno.EIO:
                raise
            raise SystemExit(READER_GONE) from None  # the terminal is gone
        finally:
            # A signal may have come at the very moment in which the first one began. It comes once.
            screen._give_back()
