"""The system calls that code in the sandbox may make; libseccomp knows their numbers."""

import errno
import fcntl
import os
from functools import lru_cache
from typing import Final

from runward.daemon.sandbox.isolated import NoSandbox

_CLONE_THREAD: Final = 0x00010000
"""linux/sched.h: what is made is a thread of this process, not a process."""

_ALLOWED: Final = (
    # memory
    *("brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "membarrier"),
    # open files, those of the interpreter and those in /tmp
    *("read", "pread64", "readv", "preadv", "write", "pwrite64", "writev", "pwritev", "lseek", "close", "close_range"),
    *("dup", "dup2", "dup3", "pipe", "pipe2", "flock", "fsync", "fdatasync", "ftruncate"),
    *("fallocate", "sendfile", "copy_file_range"),
    # names
    *("stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2"),
    *("getdents64", "getcwd", "chdir", "fchdir", "mkdir", "mkdirat", "rmdir", "unlink"),
    *("unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "umask"),
    # waiting and time
    *("poll", "ppoll", "select", "pselect6", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2"),
    *("nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times", "alarm"),
    *("setitimer", "getitimer", "sched_yield", "sched_getaffinity", "futex", "restart_syscall"),
    # itself
    *("getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getgroups", "getrusage", "getrandom"),
    *("uname", "sysinfo", "getpgrp", "getpgid", "getsid", "getcpu", "arch_prctl", "set_tid_address", "rseq"),
    *("set_robust_list", "get_robust_list", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending"),
    *("sigaltstack", "exit", "exit_group"),
)  # fmt: skip  # one group of calls a line
"""Everything else is refused with EPERM: processes, programs, signals, sockets, namespaces, mounts, keys, tracing, …"""

_AMONG_OWN_FILES: Final = ("chmod", "fchmod", "fchmodat", "readlink", "readlinkat", "truncate", "utimensat")
"""What Landlock doesn't bound: these reach every file that the user may, so they need a mount namespace."""

_OF_DESCRIPTORS: Final = (
    *(fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL),
    *(fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW, fcntl.F_OFD_GETLK, fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW),
    *(fcntl.F_GETPIPE_SZ,),
)  # fmt: skip  # one group of commands a line
"""The commands allowed for `fcntl`. F_SETOWN is not: with it, code could have any process signalled."""

_OPENING: Final = ((os.O_TRUNC, 0), (os.O_ACCMODE, os.O_WRONLY), (os.O_ACCMODE, os.O_RDWR))
"""Flags of `open`, each with its mask: emptying a file needs the right to write it, which older Landlock doesn't ask for."""

_ABSENT: Final = ("clone3", "openat2")
"""Calls that the C library tries first, and replaces by older ones if the kernel lacks them."""

ARCHITECTURES: Final = ("x86_64", "aarch64")


@lru_cache(maxsize=4)
def program(machine: str, has_namespaces: bool = True) -> bytes:
    """The filter as the kernel takes it, for a machine of `ARCHITECTURES`. Raises `NoSandbox`.

    If the process has no namespaces, more is forbidden.
    """
    if machine not in ARCHITECTURES:
        why = f"no system call filter is available for {machine}"
        raise NoSandbox(why, f"use a machine of: {', '.join(ARCHITECTURES)}")
    try:
        import pyseccomp as seccomp  # imported late, because the import looks for libseccomp
    except (RuntimeError, OSError, AttributeError) as error:
        raise NoSandbox(f"libseccomp can't be used: {error}", "install the package libseccomp2") from error
    architecture = {"x86_64": seccomp.Arch.X86_64, "aarch64": seccomp.Arch.AARCH64}[machine]
    allow_list = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    if architecture != seccomp.system_arch():
        allow_list.add_arch(architecture)
        allow_list.remove_arch(seccomp.system_arch())
    try:
        allow_list.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    except OSError as error:  # libseccomp asks the kernel whether it knows this action
        why = f"libseccomp can't make the filter: {error.strerror}"
        raise NoSandbox(why, "allow the system call seccomp, in a unit with SystemCallFilter=") from error
    for name in (*_ALLOWED, *(_AMONG_OWN_FILES if has_namespaces else ())):
        if seccomp.resolve_syscall(architecture, name) >= 0:  # negative: this architecture never had the call
            allow_list.add_rule(seccomp.ALLOW, name)
    for command in _OF_DESCRIPTORS:
        allow_list.add_rule(seccomp.ALLOW, "fcntl", seccomp.Arg(1, seccomp.EQ, command))
    for name, at in (("open", 1), ("openat", 2)):
        if seccomp.resolve_syscall(architecture, name) >= 0:
            for mask, flags in _OPENING:
                allow_list.add_rule(seccomp.ALLOW, name, seccomp.Arg(at, seccomp.MASKED_EQ, mask, flags))
    for name in _ABSENT:
        allow_list.add_rule(seccomp.ERRNO(errno.ENOSYS), name)
    is_thread = seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD)
    allow_list.add_rule(seccomp.ALLOW, "clone", is_thread)
    only_asks = seccomp.Arg(2, seccomp.EQ, 0)
    allow_list.add_rule(seccomp.ALLOW, "prlimit64", only_asks)
    with os.fdopen(os.memfd_create("filter", os.MFD_CLOEXEC), "w+b", buffering=0) as file:
        allow_list.export_bpf(file)
        file.seek(0)
        return file.read()
