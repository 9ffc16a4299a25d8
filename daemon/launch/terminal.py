"""The command's output if the launcher's own is a terminal: through a pseudo-terminal, so that it can be logged.

Only the output goes that way. The command keeps the caller's terminal as its input and its controlling terminal. Keys,
job control and the size reach it as they would without a launcher, and nothing is forwarded. A launcher that is killed
leaves the terminal as it found it. What is written to the pseudo-terminal goes to the caller's terminal unchanged, and
has the same effect there.

A program that sets its terminal through its output (ncurses does) sets the pseudo-terminal. The kernel reports that to
the near end, and the caller's terminal is set alike.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import termios

from runward.daemon.launch.output import PassedStream

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from runward.daemon.launch.output import RunLog, Sink

    Modes: TypeAlias = list[Any]
    """What `termios.tcgetattr` returns: a list of numbers, but for its last item, a list of bytes."""


_IN, _OUT, _CONTROL, _LOCAL, _CHARACTERS = 0, 1, 2, 3, 6
_TELL_OF_MODES = 0o200000
"""EXTPROC of termbits.h: with it the near end, in packet mode, is told of every change of modes."""
_MODES_CHANGED = 0x40
"""TIOCPKT_IOCTL: the packet says just that."""


class TerminalStream(PassedStream):
    """An output stream of a command that writes to a terminal of its own, and so to the caller's, `outer`."""

    def __init__(self, near: int, outer: int, log: RunLog, sink: Sink | None, low_disk: int | None) -> None:
        super().__init__(near, log, sink, low_disk)
        self._outer = outer
        self._modes = termios.tcgetattr(near)
        self._before = termios.tcgetattr(outer)
        self._has_set_outer = False

    def resize(self) -> None:
        """Gives the command's terminal the caller's size, and signals it to programs that read the size too early."""
        try:
            size = termios.tcgetwinsize(self._outer)
            if not self.is_open or size == termios.tcgetwinsize(self.source):
                return
            termios.tcsetwinsize(self.source, size)
            os.killpg(os.tcgetpgrp(self._outer), signal.SIGWINCH)
        except (OSError, termios.error):
            pass  # the terminal went away, or belongs to somebody else by now

    def restore(self, *, is_cut_off: bool) -> None:
        """Restores the caller's terminal, if the command was `is_cut_off` and could not do that itself."""
        if not (is_cut_off or self._has_set_outer):
            return
        try:
            if os.tcgetpgrp(self._outer) == os.getpgrp():  # from the background it would stop us
                termios.tcsetattr(self._outer, termios.TCSANOW, self._before)
        except (OSError, termios.error):
            pass  # it went away

    def _read(self) -> bytes:
        while True:
            try:
                packet = super()._read()
            except OSError as error:
                if error.errno == errno.EIO:
                    return b""  # no process has the far end open now
                raise
            if not packet or packet[0] == 0:
                return packet[1:]
            if packet[0] & _MODES_CHANGED:
                self._set_outer()

    def _set_outer(self) -> None:
        """Applies to the caller's terminal what the command changed on its own."""
        try:
            now, outer = termios.tcgetattr(self.source), termios.tcgetattr(self._outer)
            if os.tcgetpgrp(self._outer) != os.getpgrp() and not self._has_set_outer:
                return
            # Only what the command changed: the two terminals differ from the beginning.
            for field in (_IN, _OUT, _CONTROL, _LOCAL):
                changed = self._modes[field] ^ now[field]
                outer[field] = (outer[field] & ~changed) | (now[field] & changed)
            outer[_LOCAL] &= ~_TELL_OF_MODES
            for place, character in enumerate(now[_CHARACTERS]):
                if character != self._modes[_CHARACTERS][place]:
                    outer[_CHARACTERS][place] = character
            self._modes = now
            termios.tcsetattr(self._outer, termios.TCSANOW, outer)
            self._has_set_outer = True
        except (OSError, termios.error):
            pass  # it went away


def open_terminal(outer: int) -> tuple[int, int]:
    """The near end, non-blocking and in packet mode, and the far end, like `outer` but without output processing.

    Raises OSError.
    """
    near, far = os.openpty()
    try:
        modes = termios.tcgetattr(outer)
        # Written to the caller's terminal unchanged, so only that one may process it: else each newline would get
        # two carriage returns.
        modes[_OUT] &= ~termios.OPOST
        modes[_LOCAL] |= _TELL_OF_MODES
        termios.tcsetattr(far, termios.TCSANOW, modes)
        termios.tcsetwinsize(far, termios.tcgetwinsize(outer))
        fcntl.ioctl(near, termios.TIOCPKT, b"\1\0\0\0")
        os.set_blocking(near, False)
    except (OSError, termios.error) as error:
        os.close(near)
        os.close(far)
        raise OSError(*error.args) from None
    return near, far
