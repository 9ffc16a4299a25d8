"""What the kernel reports about a worker and does to it: its start, its CPU time, its signals, its end and its pipes."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence


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
        start_new_session=True,
        user=user,
        group=user,
        extra_groups=None if user is None else (),
    )
    try:
        return process, os.pidfd_open(process.pid)
    except OSError:
        process.kill()
        cpu_and_end(process)
        raise


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
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return usage.ru_utime + usage.ru_stime
