"""The system calls that the launcher needs and Python 3.11 lacks, by ctypes: clone3(2), prctl(2), signalfd(2), unshare(2),
mount(2), ioprio_get(2), sched_getattr(2), keyctl(2).
"""

from __future__ import annotations

import ctypes
import os
import signal

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Iterable


CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x2, 0x4, 0x8
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_SFD_CLOEXEC = os.O_CLOEXEC
_SFD_NONBLOCK = os.O_NONBLOCK
_SIGNAL_SET_BYTES = 128  # sigset_t of glibc and musl

_SYS_CLONE3 = 435  # on every architecture that has it
_CLONE_INTO_CGROUP = 0x200000000
_SYS_IOPRIO_GET_SCHED_GETATTR_KEYCTL = {
    "x86_64": (252, 315, 250),
    "aarch64": (31, 275, 219),
    "riscv64": (31, 275, 219),
}
_IOPRIO_WHO_PROCESS = 1
_SCHED_ATTR_BYTES = 56
_KEYCTL_GET_KEYRING_ID, _KEY_SPEC_SESSION_KEYRING = 0, -3
_CLONE_ARGUMENTS = 11  # fields of struct clone_args, 64 bits each

# The functions of the C library that is loaded anyway; no other library is looked for.
_libc = ctypes.CDLL(None, use_errno=True)
_libc_under_gil = ctypes.PyDLL(None, use_errno=True)


def fork_into(cgroup: int) -> int:
    """fork(2), with the child in a cgroup from its beginning: `cgroup` is a descriptor of its directory.

    Only for a process with one thread. Raises OSError; then nothing was forked.
    """
    arguments = (ctypes.c_uint64 * _CLONE_ARGUMENTS)(_CLONE_INTO_CGROUP)
    arguments[4], arguments[10] = signal.SIGCHLD, cgroup
    # The C library is not told of this fork. It would take and reset its own locks then; with one thread nobody else can
    # hold one. Python is told, as by os.fork(), and keeps its lock meanwhile.
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc_under_gil.syscall(_SYS_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return _checked(pid, "clone3")


def inherited_unseen() -> object:
    """What a child inherits of this process and no file of /proc shows: the priority of its input and output, all of how it
    is scheduled, its session keyring.

    Where the calls' numbers aren't known it equals no other answer.
    """
    numbers = _SYS_IOPRIO_GET_SCHED_GETATTR_KEYCTL.get(os.uname().machine)
    if numbers is None:
        return object()
    priority, scheduling, keys = numbers
    attributes = ctypes.create_string_buffer(_SCHED_ATTR_BYTES)
    return (
        _libc.syscall(priority, _IOPRIO_WHO_PROCESS, 0),
        _libc.syscall(scheduling, 0, attributes, _SCHED_ATTR_BYTES, 0),
        attributes.raw,
        # A command may give its parent another one (KEYCTL_SESSION_TO_PARENT), with keys in it.
        _libc.syscall(keys, _KEYCTL_GET_KEYRING_ID, _KEY_SPEC_SESSION_KEYRING, 0),
    )


def file_time() -> float:
    """Now, by the kernel's time for files (Unix seconds): no file that was written before is younger, and none that is written
    from now on is older.

    No clock says that. Kernels from 6.13 on give some files a finer time than others, and it is ahead of the coarse clock.
    """
    descriptor = os.memfd_create("now")
    try:
        os.write(descriptor, b".")
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


def become_subreaper() -> None:
    """From now on orphans below this process become its own children, however often they forked."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def end_with_parent(parent: int) -> None:
    """From now on the kernel kills this process when the thread that started it ends. `parent` is the process of that thread."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "prctl")
    # It may have ended before the kernel was asked, and then nobody would end us.
    if os.getppid() != parent:
        os._exit(1)


def hide_memory() -> None:
    """From now on no other process of the same user may read this one's memory or trace it; root may."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0), "prctl")


def open_signal_descriptor(signals: Iterable[int]) -> int:
    """A descriptor that is readable while one of `signals` (which must be blocked) is pending."""
    wanted = bytearray(_SIGNAL_SET_BYTES)
    for number in signals:
        wanted[(number - 1) // 8] |= 1 << (number - 1) % 8
    buffer = (ctypes.c_char * _SIGNAL_SET_BYTES).from_buffer(wanted)
    return _checked(_libc.signalfd(-1, buffer, _SFD_CLOEXEC | _SFD_NONBLOCK), "signalfd")


def unshare(namespaces: int) -> None:
    """Leaves the namespaces of these kinds (CLONE_NEW...) for new ones; that of PIDs applies to children."""
    _checked(_libc.unshare(namespaces), "unshare")


def mount_own_proc() -> None:
    """Mounts /proc again, for the PID namespace that we are in, and only for this mount namespace."""
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None), "mount /")
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _checked(_libc.mount(b"proc", b"/proc", b"proc", flags, None), "mount /proc")


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result
