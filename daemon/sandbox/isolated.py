"""A process that is isolated from the machine: what every kind of sandbox provides, what the kernel reports about it, and how many were killed."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from subprocess import Popen
from typing import IO, Final, Protocol

from runward.config.json_value import JsonValue

NOBODY: Final = 65534
"""The user that code runs as if the daemon is root."""

MOST_FILES: Final = 10_000
"""The number of files that code may make. Nothing else bounds the kernel's memory for them."""

REFUSED: Final = "code of the exchange is refused: "
"""How the daemon says in its report that it can't run code, before the reason and the fix."""

END_S: Final = 2.0
"""Seconds within which a killed process must end."""


class NoSandbox(Exception):
    """This machine can't provide the sandbox: why, and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


class Isolated(Protocol):
    """The process of one worker. It must be ended in any case."""

    process: Popen[bytes]
    """The process that was started: the worker itself, or the program that isolates it."""

    outer: int
    """A handle of this process."""

    inner: int | None
    """A handle of the worker, once `find` has found it."""

    @property
    def means(self) -> str:
        """What isolates it, in the words of recorded results."""

    @property
    def fix(self) -> str:
        """What to do if it doesn't start."""

    @property
    def has_namespaces(self) -> bool:
        """Whether it sees nothing of the machine; if not, the filter of system calls must forbid more."""

    @property
    def threads(self) -> int:
        """The limit of threads that is set in the kernel."""

    @property
    def setup(self) -> Mapping[str, JsonValue]:
        """What the worker needs to know to isolate itself."""

    def find(self, deadline: float) -> int | None:
        """The worker's process id; None if it doesn't start before the deadline (monotonic seconds)."""

    def watch(self) -> None:
        """The worker has isolated itself, and `overfull` is called from now on. May raise `OSError`."""

    def is_current(self) -> bool:
        """Whether its limits still fit the machine, however long it has waited for its job."""

    def overfull(self, *, is_over: bool = False) -> str | None:
        """Which bound its files exceed; None if they are within their bounds.

        While the code runs, what was just measured isn't measured again. Once its result is there (`is_over`), it is.
        """

    def end(self) -> float:
        """Kill it with all that it started, and remove its traces; returns the CPU seconds of its whole life."""


def start(
    command: Sequence[str], inherited: int, directory: str, environment: Mapping[str, str], user: int | None
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a process as `user` (None: our own) with pipes and one more descriptor, but nothing else of ours.

    Returns its handle, too. Raises `OSError`, and then nothing is left running.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=(inherited,),
        cwd=directory,
        env=environment,
        # A session of its own: a signal to the daemon's group or terminal doesn't reach it.
        start_new_session=True,
        user=user,
        group=user,
        extra_groups=None if user is None else (),
    )
    try:
        return process, os.pidfd_open(process.pid)
    except OSError:
        # Without a handle it could not be ended for certain later, so it must not run.
        process.kill()
        cpu_and_end(process)
        raise


def pipes_of(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    """The pipes to its stdin, and from its stdout and stderr."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdin, process.stdout, process.stderr


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process so far: Linux makes the id of its clock from its own, as clock_getcpuclockid does."""
    return time.clock_gettime((~pid << 3) | 2)


def kill(pidfd: int) -> None:
    signal_to(pidfd, signal.SIGKILL)


def signal_to(pidfd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass


def ends(pidfd: int, within_s: float) -> bool:
    return readable(pidfd, time.monotonic() + within_s)


def readable(descriptor: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(milliseconds(deadline)))


def milliseconds(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic()) * 1000


def cpu_and_end(process: subprocess.Popen[bytes]) -> float:
    """Wait for the end of a process that was killed, and close its pipes; the CPU seconds of it and its children."""
    # Not `Popen.wait`, because only this tells the CPU time of the process and of its children.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    for pipe in pipes_of(process):
        pipe.close()
    return usage.ru_utime + usage.ru_stime
