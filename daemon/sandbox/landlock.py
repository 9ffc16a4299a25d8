"""Landlock, a feature of the kernel: it limits a process to the files that it still needs.

A ruleset is made here, because the worker has no packages. The worker enforces it on itself with one system call. The
numbers are those of linux/landlock.h; the three system calls have the same number on every architecture.
"""

import ctypes
import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from runward.daemon.sandbox.isolated import NoSandbox

_CREATE_RULESET, _ADD_RULE = 444, 445
_TELL_VERSION, _PATH_BENEATH = 1, 1

_WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14
READ: Final = READ_FILE | READ_DIR
CHANGE: Final = (
    READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
)
"""Everything in a directory but devices, sockets, FIFOs and starting programs."""

_FILES: Final = ((1, (1 << 13) - 1), (2, _REFER), (3, _TRUNCATE), (5, 1 << 15))
"""The rights on files, with the version that brought them."""

_NETWORK_SINCE, _TCP = 4, 0b11
_SCOPE_SINCE, _SOCKETS_AND_SIGNALS = 6, 0b11

FIX: Final = (
    "use Linux 5.13 or later with `landlock` among the kernel's parameters lsm=; a container must allow the "
    'Landlock system calls. Where user namespaces are allowed, sandbox = "bubblewrap" is stronger'
)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scope", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@cache
def version() -> int:
    """The kernel's version of the interface. Raises `NoSandbox` where it has none."""
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _TELL_VERSION)
    except OSError as error:
        why = {
            errno.ENOSYS: "this kernel has no Landlock",
            errno.EOPNOTSUPP: "Landlock is switched off in this kernel",
        }.get(error.errno or 0, f"Landlock can't be used: {error.strerror}")
        raise NoSandbox(why, FIX) from error


@contextmanager
def ruleset(allowed: Iterable[tuple[str, int]]) -> Iterator[int]:
    """A descriptor of the rule that only these files and directories may be reached, with these rights.

    Everything else that the kernel's version can refuse is refused, such as TCP and signals to processes outside.
    """
    known = version()
    handled = 0
    for since, rights in _FILES:
        handled |= rights if known >= since else 0
    described = _Ruleset(
        handled,
        _TCP if known >= _NETWORK_SINCE else 0,
        _SOCKETS_AND_SIGNALS if known >= _SCOPE_SINCE else 0,
    )
    made = _call(_CREATE_RULESET, ctypes.byref(described), ctypes.c_size_t(ctypes.sizeof(described)), 0)
    try:
        for path, rights in allowed:
            _allow(made, path, rights & handled)
        yield made
    finally:
        os.close(made)


def _allow(ruleset: int, path: str, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Beneath(rights, parent)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)


def _call(*words: object) -> int:
    got: int = ctypes.CDLL(None, use_errno=True).syscall(*words)
    if got < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return got
