"""Signals to the launcher: who sent them, and what they ask for."""

import os
import signal
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from runward.daemon.processes.identity import read_stat
from runward.daemon.processes.kernel import open_signal_descriptor

STOPPING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
"""Ask for the end of the run: passed on, and after the grace the whole tree is killed."""

PASSED_ON = frozenset({signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
"""Are the command's own business: passed on, and no more."""

_SI_KERNEL = 0x80
_FROM_KEYBOARD = frozenset({signal.SIGINT, signal.SIGQUIT})


class Request(NamedTuple):
    """One signal that the launcher got from outside."""

    number: int
    from_keyboard: bool
    """The terminal sent it, to its whole foreground group at once."""
    sender: int


class SignalInbox:
    """Signals as something to wait for and to read. What the caller ignored (nohup) stays ignored."""

    def __init__(self) -> None:
        # An inherited SIG_IGN would let the kernel reap the command, and its status with it.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wanted = {number for number in STOPPING | PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN}
        self._signals = wanted | {signal.SIGCHLD}
        self.caller_mask: AbstractSet[int] = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        self.descriptor = open_signal_descriptor(self._signals)

    def read(self) -> list[Request]:
        """What has come in since; a child's end is not reported, it is seen by waiting for it."""
        requests = []
        while info := signal.sigtimedwait(self._signals, 0):
            if info.si_signo != signal.SIGCHLD:
                from_keyboard = info.si_code == _SI_KERNEL and info.si_signo in _FROM_KEYBOARD
                requests.append(Request(info.si_signo, from_keyboard, info.si_pid))
        return requests

    def close(self) -> None:
        """Ends the reading; the signals stay blocked, for the launcher is about to end."""
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
