"""What the demo shows: in short, a line for each chapter and three screens of 80 columns; with `DEMO=all`, everything.

In short, all that its commands print goes to a file. A screen is drawn by the command itself, on a terminal of its own.
"""

import fcntl
import os
import pty
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

COLUMNS: Final = 80
_ROWS: Final = 24


class Telling:
    """Where the demo speaks to a person. `record` is the file of everything, if that isn't shown."""

    def __init__(self, place: Path) -> None:
        self.record = None if os.environ.get("DEMO") == "all" else place / "demo.log"
        # Its own copy, because what commands inherit may be the file.
        self._person: TextIO = open(os.dup(1), "w", encoding="utf-8", errors="replace")  # noqa: SIM115  # for its life
        if self.record is not None:
            sys.stdout.flush()
            file = os.open(self.record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, 1)
            os.close(file)

    @property
    def is_short(self) -> bool:
        return self.record is not None

    def has_a_reader(self) -> bool:
        """Whether somebody sits in front of it: not in a pipe, and not in CI."""
        return sys.stdin.isatty() and self._person.isatty() and not os.environ.get("CI")

    def say(self, text: str = "", end: str = "\n") -> None:
        """Print it to the person, after what has been printed before."""
        sys.stdout.flush()
        print(text, end=end, file=self._person, flush=True)

    @contextmanager
    def chapter(self, title: str) -> Iterator[None]:
        """What happens in it has this title. In short, the title and how long it took are all that is shown."""
        if not self.is_short:
            yield
            return
        self.say(f"  {title} ", end="")
        began = time.monotonic()
        yield
        self.say(f"({time.monotonic() - began:.0f} s)")

    def screen(
        self, words: Sequence[str], command: Sequence[str], environment: Mapping[str, str], host: str = ""
    ) -> None:
        """Show `$ runward WORDS` and the screen that `command` draws. `host` is where, if there are several."""
        self.say(f"\n{host}$ {' '.join(('runward', *words))}")
        plain = {} if self._person.isatty() else {"NO_COLOR": "1"}
        drawn = _drawn(command, {**environment, "LANG": "C.UTF-8", "TERM": "xterm", **plain})
        self.say(drawn.replace("\r\n", "\n").rstrip("\n"))


def _drawn(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What the command writes to a terminal of 80 columns and 24 rows, in which nobody types."""
    pid, terminal = pty.fork()
    if pid == 0:
        # The size is set before the command can ask for it.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, COLUMNS, 0, 0))
        os.execvpe(command[0], [*command], environment)
    drawn = b""
    try:
        while more := os.read(terminal, 65536):
            drawn += more
    except OSError:
        pass  # the command has ended, and with it the terminal
    os.close(terminal)
    os.waitpid(pid, 0)
    return drawn.decode(errors="replace")
