"""The program in which a person reads what is longer than the screen."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from types import FrameType
from typing import Final, Self, TextIO

from runward.daemon.cli.exits import READER_GONE, TERMINATED
from runward.daemon.cli.terminal.live import Page
from runward.daemon.cli.terminal.output import Failed, printing, terminal_size, width

_DEFAULT: Final = "less"
_NONE: Final = "cat"
_LESS: Final = "FRX"
"""Ends where all fits, shows colours, leaves the text on the screen; chops no line."""

_GRACE_S: Final = 1.0


def pager_of(environment: Mapping[str, str]) -> list[str] | None:
    """The words of the pager: `$RUNWARD_PAGER`, `$PAGER`, else less. None if there is none, or none is wanted."""
    named = environment.get("RUNWARD_PAGER", environment.get("PAGER", _DEFAULT))
    try:
        words = shlex.split(named)
    except ValueError:
        return None  # a quote without its end names no program
    if not words or words[0] == _NONE or shutil.which(words[0], path=environment.get("PATH")) is None:
        return None
    return words


@contextmanager
def paged() -> Iterator[None]:
    """What is printed in the block is shown in the pager, as soon as it is longer than the screen.

    The block must not hold a transaction: a person may read for hours. It ends early if the pager does.
    """
    words = pager_of(os.environ) if _is_possible() else None
    if words is None:
        yield
        return
    terminal = sys.stdout
    with ExitStack() as stack:
        held = _Held(terminal, words, stack)
        try:
            with redirect_stdout(held):
                yield
        finally:
            terminal.write(held.not_shown())


def _is_possible() -> bool:
    """Whether there is a terminal that a pager can use. A page that is drawn again can't use it."""
    is_terminal = sys.stdout.isatty() and not isinstance(sys.stdout, Page)
    return is_terminal and os.environ.get("TERM", "dumb") != "dumb" and not printing("no_pager")


class _Held(Page):
    """What was printed, until it is more than the screen has room for; from then on, the pager has it."""

    def __init__(self, terminal: TextIO, words: Sequence[str], stack: ExitStack) -> None:
        super().__init__(terminal)
        self._terminal, self._words, self._stack = terminal, words, stack
        self._size = terminal_size(terminal)
        self._rows = 0
        self._show: Callable[[str], object] | None = None

    def write(self, text: str) -> int:
        more = text
        if self._show is None:
            super().write(text)
            # The prompt needs a row, too.
            self._rows += sum(max(1, -(-width(line) // self._size.columns)) for line in text.splitlines())
            if self._rows < self._size.lines:
                return len(text)
            more, self._show = self.getvalue(), self._started()
        self._show(more)
        return len(text)

    def not_shown(self) -> str:
        """What is left for the terminal itself."""
        return self.getvalue() if self._show is None else ""

    def _started(self) -> Callable[[str], object]:
        try:
            return self._stack.enter_context(Pager(self._words, self.encoding)).write
        except OSError:
            return self._terminal.write  # a pager is a convenience: without one, all is printed


class _PagerGone(BrokenPipeError):
    """Nobody reads any more."""


class Pager:
    """A pager that has the terminal until the block ends, or until it ends itself, which ends the block.

    No shell sees its words, nor what it is given. Ctrl-C is one of its keys. A signal that ends this program ends the pager
    first, and the terminal gets its modes back: a pager that is killed leaves it without echo.
    Raises `OSError` if it can't be started.
    """

    def __init__(self, words: Sequence[str], encoding: str) -> None:
        self._encoding = encoding
        self._was_ended = False
        self._is_begun = self._is_ending = False
        self._pending: int | None = None
        self._modes = termios.tcgetattr(sys.stdout.fileno())
        # Handlers, and not SIG_IGN: the pager would inherit that. Who has handlers for the signals of an end keeps them.
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], object]] = {
            signal.SIGINT: _do_nothing
        }
        for number in _ENDS:
            if signal.getsignal(number) == signal.SIG_DFL:
                handlers[number] = self._end
        self._handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            environment = {"LESS": _LESS, **os.environ}
            self._program = subprocess.Popen(list(words), stdin=subprocess.PIPE, env=environment)
        except OSError:
            self._restore_handlers()
            raise

    def write(self, text: str) -> None:
        """Give it more to show."""
        assert self._program.stdin is not None
        self._is_begun = True
        if self._pending is not None:
            self._is_ending = True
            raise SystemExit(_ENDS[signal.Signals(self._pending)])
        try:
            self._program.stdin.write(text.encode(self._encoding, "backslashreplace"))
            self._program.stdin.flush()
        except BrokenPipeError:
            raise _PagerGone from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *why: object) -> bool:
        assert self._program.stdin is not None
        try:
            if kind is not None and not issubclass(kind, Exception | Failed):
                self._end_it()
            with suppress(BrokenPipeError):
                self._program.stdin.close()
            try:
                self._program.wait()
            except BaseException:
                self._end_it()
                raise
        finally:
            # One that ended by itself has put them back, and may have left the terminal to somebody else.
            if self._program.returncode != 0 or self._was_ended:
                with suppress(termios.error):  # the terminal may be gone
                    termios.tcsetattr(sys.stdout.fileno(), termios.TCSANOW, self._modes)
            self._restore_handlers()
        return kind is not None and issubclass(kind, _PagerGone)

    def _end(self, number: int, frame: FrameType | None) -> None:
        # Once: a second signal must not interrupt the way back. And not while the pager is being started: nobody would end it.
        if not self._is_begun:
            self._pending = number
        elif not self._is_ending:
            self._is_ending = True
            raise SystemExit(_ENDS[signal.Signals(number)])

    def _end_it(self) -> None:
        self._was_ended = True
        self._program.terminate()
        try:
            self._program.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


_ENDS: Final = {signal.SIGTERM: TERMINATED, signal.SIGHUP: READER_GONE}


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The pager has the terminal, and decides."""
