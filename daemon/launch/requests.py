"""Signals to the launcher: who sent them, and what they ask for."""

from __future__ import annotations

import os
import signal

from runward.daemon.processes.cancelling import CANCEL
from runward.daemon.processes.identity import read_stat
from runward.daemon.processes.kernel import open_signal_descriptor
from runward.daemon.processes.values import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


STOPPING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
"""Requests to end the run: passed on, and after the grace period the whole tree is killed."""

CANCELLING = frozenset({CANCEL})
"""A person's order through the daemon: the whole tree is asked to end, and killed after the grace period."""

PASSED_ON = frozenset({signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
"""Signals that only concern the command: they are just passed on."""

RESIZING = frozenset({signal.SIGWINCH, signal.SIGCONT})
"""The terminal may have another size than before: its owner was told, or was stopped while it changed."""

_SI_KERNEL = 0x80
_FROM_KEYBOARD = frozenset({signal.SIGINT, signal.SIGQUIT})


class Request(Value):
    """One signal that the launcher got from outside."""

    number: int
    from_keyboard: bool
    """The terminal sent it, to its whole foreground group at once."""
    sender: int


class SignalInbox:
    """Signals as something to wait for and to read. Signals that the caller ignored (nohup) stay ignored."""

    def __init__(self) -> None:
        # An inherited SIG_IGN would let the kernel reap the command, and its status with it.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wanted: set[int] = {
            number for number in STOPPING | PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN
        }
        wanted |= CANCELLING | RESIZING
        self._signals = wanted | {signal.SIGCHLD}
        self.caller_mask: AbstractSet[int] = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        self.descriptor = open_signal_descriptor(self._signals)

    def read(self) -> list[Request]:
        """The signals since the last call. A child's end is not reported; waiting for the child shows it."""
        requests = []
        while info := signal.sigtimedwait(self._signals, 0):
            if info.si_signo != signal.SIGCHLD:
                from_keyboard = info.si_code == _SI_KERNEL and info.si_signo in _FROM_KEYBOARD
                requests.append(Request(info.si_signo, from_keyboard, info.si_pid))
        return requests

    def close(self) -> None:
        """Stops reading; the signals stay blocked, because the launcher is about to end."""
        os.close(self.descriptor)


def is_below_us(pid: int) -> bool:
    """Whether a process is one of the launcher's own descendants.

    A command that signals its process group (`kill 0`) also hits the launcher, and asks nothing of it.
    """
    us = os.getpid()
    try:
        while pid > 1 and pid != us:
            pid = read_stat(pid).parent
    except (FileNotFoundError, ProcessLookupError):
        return False
    return pid == us
