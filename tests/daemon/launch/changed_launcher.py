"""A process that changes one thing of itself that its commands would inherit: is that seen?

Run as `changed_launcher.py CHANGE`, it ends with 0 if `inherited` tells the change, with 1 if it doesn't, with `REFUSED` and
the reason where this machine doesn't let it make that change.
"""

import ctypes
import fcntl
import os
import platform
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Final

from runward.daemon.launch.cgroup import ContainmentUnavailable, cgroup_of
from runward.daemon.launch.detached import inherited
from runward.daemon.processes.kernel import CLONE_NEWNS, unshare

REFUSED: Final = 77
NOBODY: Final = 65534
CALLS: Final = {
    "x86_64": {"keyctl": 250, "sched_setattr": 314},
    "aarch64": {"keyctl": 219, "sched_setattr": 274},
    "riscv64": {"keyctl": 219, "sched_setattr": 274},
}.get(platform.machine(), {})
CAP_SYS_BOOT: Final = 22
"""A capability that no change here needs."""
PR_CAPBSET_DROP, PR_SET_TIMERSLACK, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 24, 29, 38, 47
PR_SET_SECCOMP = 22
SLICE: Final = struct.pack("=IIQiIQQQII", 56, 0, 0, 0, 0, 500_000, 0, 0, 0, 0)
"""An ordinary process, but with another slice of time (sched_setattr(2))."""
PTRACE_CONT, PTRACE_SEIZE, WALL = 7, 0x4206, 0x40000000

HAS_SLICES: Final = tuple(map(int, platform.release().split("-")[0].split(".")[:2])) >= (6, 12)

CHANGES: Final[dict[str, Callable[[], Iterator[None]]]] = {}
"""Each prepares what it needs, yields, and makes its one change."""

_libc = ctypes.CDLL(None, use_errno=True)


def change(function: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
    CHANGES[function.__name__.replace("_", " ")] = function
    return function


def done(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(*arguments: int) -> None:
    done(_libc.prctl(arguments[0], *map(ctypes.c_ulong, (*arguments[1:], 0, 0, 0, 0)[:4])))


def call(name: str, *arguments: object) -> None:
    if name not in CALLS:
        raise OSError(f"the number of {name}(2) is not known here")
    done(_libc.syscall(CALLS[name], *arguments))


def set_capabilities(change: Callable[[int, int, int], tuple[int, int, int]]) -> None:
    """Set the effective, permitted and inheritable ones (capset(2))."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    done(_libc.capget(header, data))
    if not data[1] & BOOT:
        raise OSError("this process lacks the capability")
    data[:3] = [*change(data[0], data[1], data[2])]
    done(_libc.capset(header, data))


BOOT: Final = 1 << CAP_SYS_BOOT


@change
def its_umask() -> Iterator[None]:
    yield
    os.umask(0o123)


@change
def who_traces_it() -> Iterator[None]:
    us = os.getpid()
    told, tells = os.pipe()
    yield
    middle = os.fork()
    if middle == 0:
        if os.fork() == 0:
            is_traced = _libc.ptrace(PTRACE_SEIZE, us, 0, 0) == 0
            os.write(tells, b"1" if is_traced else b"0")
            while is_traced and os.WIFSTOPPED(status := os.waitpid(us, WALL)[1]):
                _libc.ptrace(PTRACE_CONT, us, 0, os.WSTOPSIG(status))
        os._exit(0)
    os.waitpid(middle, 0)
    if os.read(told, 1) != b"1":
        raise OSError("it may not be traced")


@change
def its_user() -> Iterator[None]:
    yield
    os.setresuid(NOBODY, 0, 0)


@change
def its_group() -> Iterator[None]:
    yield
    os.setresgid(NOBODY, 0, 0)


@change
def its_further_groups() -> Iterator[None]:
    yield
    os.setgroups([NOBODY])


@change
def its_process_group() -> Iterator[None]:
    yield
    os.setpgid(0, 0)


@change
def its_terminal() -> Iterator[None]:
    os.setsid()
    _, terminal = os.openpty()
    name = os.ttyname(terminal)
    yield
    os.close(os.open(name, os.O_RDWR))


@change
def its_threads() -> Iterator[None]:
    first = threading.Thread(target=int)  # with it the C library installs a handler
    first.start()
    first.join()
    while len(os.listdir("/proc/self/task")) > 1:  # joined, it may still be about to end
        time.sleep(0.001)
    yield
    threading.Thread(target=threading.Event().wait, daemon=True).start()


@change
def a_signal_that_waits_for_its_thread() -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)


@change
def a_signal_that_waits_for_it() -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    os.kill(os.getpid(), signal.SIGUSR1)


@change
def a_blocked_signal() -> Iterator[None]:
    yield
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})


@change
def an_ignored_signal() -> Iterator[None]:
    yield
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


@change
def a_handler() -> Iterator[None]:
    yield
    signal.signal(signal.SIGUSR1, lambda *_: None)


@change
def an_inheritable_capability() -> Iterator[None]:
    yield
    set_capabilities(lambda effective, permitted, inheritable: (effective, permitted, inheritable ^ BOOT))


@change
def a_permitted_capability() -> Iterator[None]:
    set_capabilities(lambda effective, permitted, inheritable: (effective & ~BOOT, permitted, inheritable))
    yield
    set_capabilities(lambda effective, permitted, inheritable: (effective, permitted & ~BOOT, inheritable))


@change
def an_effective_capability() -> Iterator[None]:
    yield
    set_capabilities(lambda effective, permitted, inheritable: (effective & ~BOOT, permitted, inheritable))


@change
def a_bound_of_its_capabilities() -> Iterator[None]:
    yield
    prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT)


@change
def an_ambient_capability() -> Iterator[None]:
    set_capabilities(lambda effective, permitted, inheritable: (effective, permitted, inheritable | BOOT))
    yield
    prctl(PR_CAP_AMBIENT, 2, CAP_SYS_BOOT)


@change
def that_it_gets_no_new_privileges() -> Iterator[None]:
    yield
    prctl(PR_SET_NO_NEW_PRIVS, 1)


@change
def a_filter_of_its_system_calls() -> Iterator[None]:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000), 8)  # return ALLOW
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(allow)))
    yield
    prctl(PR_SET_SECCOMP, 2, ctypes.addressof(program))


@change
def its_processors() -> Iterator[None]:
    if len(os.sched_getaffinity(0)) < 2:
        raise OSError("there is only one processor")
    yield
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@change
def a_limit() -> Iterator[None]:
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@change
def its_cgroup() -> Iterator[None]:
    ours = cgroup_of(os.getpid())
    other = f"{ours}/test-{os.getpid()}"
    os.mkdir(other)
    if os.fork():  # who removes it
        _, status = os.wait()
        os.rmdir(other)
        os._exit(os.waitstatus_to_exitcode(status))
    yield
    with open(f"{other}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))


@change
def its_badness() -> Iterator[None]:
    yield
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("500")


@change
def what_a_dump_of_it_has() -> Iterator[None]:
    yield
    with open("/proc/self/coredump_filter", "w", encoding="ascii") as file:
        file.write("0x7f")


@change
def its_timer_slack() -> Iterator[None]:
    yield
    prctl(PR_SET_TIMERSLACK, 1234567)


@change
def the_nice_value_of_its_session() -> Iterator[None]:
    with open("/proc/self/autogroup", encoding="ascii") as file:
        if not file.read():
            raise OSError("this kernel has no autogroups")
    yield
    with open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write("5")


@change
def its_nice_value() -> Iterator[None]:
    yield
    os.nice(3)


@change
def its_scheduler() -> Iterator[None]:
    yield
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@change
def its_priority_among_real_time_processes() -> Iterator[None]:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    yield
    os.sched_setparam(0, os.sched_param(2))


@change
def that_its_children_get_the_usual_scheduler() -> Iterator[None]:
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))


@change
def its_slice_of_time() -> Iterator[None]:
    if not HAS_SLICES:
        raise OSError("this kernel has no slices of one process")
    yield
    call("sched_setattr", 0, SLICE, 0)


@change
def its_priority_for_the_disk() -> Iterator[None]:
    yield
    subprocess.run(["ionice", "-c", "3", "-p", str(os.getpid())], check=True)


@change
def its_session_keyring() -> Iterator[None]:
    yield
    call("keyctl", 1, None)  # KEYCTL_JOIN_SESSION_KEYRING


@change
def another_descriptor() -> Iterator[None]:
    yield
    os.open(os.devnull, os.O_RDONLY)


@change
def another_file_behind_a_descriptor() -> Iterator[None]:
    zero = os.open("/dev/zero", os.O_RDWR)
    changed = os.open(os.devnull, os.O_RDWR)
    yield
    os.dup2(zero, changed)


@change
def how_its_input_is_open() -> Iterator[None]:
    yield
    fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)


@change
def its_directory() -> Iterator[None]:
    yield
    os.chdir("/proc")


@change
def its_root() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as root:
        unshare(CLONE_NEWNS)
        done(_libc.mount(b"none", b"/", None, ctypes.c_ulong(0x44000), None))  # MS_REC | MS_PRIVATE
        done(_libc.mount(b"none", root.encode(), b"tmpfs", ctypes.c_ulong(0), None))
        os.mkdir(f"{root}/proc")
        done(
            _libc.mount(b"/proc", f"{root}/proc".encode(), None, ctypes.c_ulong(0x5000), None)
        )  # with all below it
        yield
        os.chroot(root)


@change
def a_variable_of_its_environment() -> Iterator[None]:
    yield
    os.environ["PATH"] += ":/of/another/run"


@change
def a_further_variable() -> Iterator[None]:
    yield
    os.environ["OF_ANOTHER_RUN"] = "1"


@change
def a_child() -> Iterator[None]:
    yield
    us = os.getpid()
    if os.fork() == 0:
        while os.getppid() == us:
            signal.sigtimedwait({signal.SIGUSR1}, 0.01)
        os._exit(0)


def main(name: str) -> int:
    made = CHANGES[name]()
    try:
        next(made)
        born = inherited()
        assert inherited() == born, "it changes by itself"
        next(made, None)
    except (OSError, ContainmentUnavailable, subprocess.CalledProcessError) as error:
        print(error)
        return REFUSED
    return 0 if inherited() != born else 1


if __name__ == "__main__":
    # As a launcher: in a session of its own, which it doesn't lead.
    os.setsid()
    if child := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    code = 1
    try:
        code = main(sys.argv[1])
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)
