"""The system calls that the launcher needs and Python 3.11 lacks (prctl(2), signalfd(2)), by ctypes."""

import ctypes
import os
from collections.abc import Iterable

_PR_SET_CHILD_SUBREAPER = 36
_SFD_CLOEXEC = os.O_CLOEXEC
_SFD_NONBLOCK = os.O_NONBLOCK
_SIGNAL_SET_BYTES = 128  # sigset_t of glibc and musl

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """From now on orphans below this process become its own children, however often they forked."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def open_signal_descriptor(signals: Iterable[int]) -> int:
    """A descriptor that is readable while one of `signals` (which must be blocked) is pending."""
    wanted = bytearray(_SIGNAL_SET_BYTES)
    for number in signals:
        wanted[(number - 1) // 8] |= 1 << (number - 1) % 8
    buffer = (ctypes.c_char * _SIGNAL_SET_BYTES).from_buffer(wanted)
    return _checked(_libc.signalfd(-1, buffer, _SFD_CLOEXEC | _SFD_NONBLOCK), "signalfd")


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result
