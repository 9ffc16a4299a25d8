"""The identity of a process beyond its number: numbers are reused, start times within one boot are not.

It is written to `process.json` (the native layout), and checked again after any restart of daemon or launcher. Nothing
here needs more than /proc, and nothing costs the launcher start-up time: so the values are named tuples (dataclasses
import `inspect`, 10 ms).
"""

from __future__ import annotations

import os
import time

from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from runward.handlers.model.processes import ProcessState


_PROC = "/proc"
_DEAD_STATES = "ZXx"


class ProcessIdentity(Value):
    """A unique process: its number, its start (clock ticks since the boot), and the boot."""

    pid: int
    start_ticks: int
    boot_id: str


class ProcessStat(Value):
    """What /proc/PID/stat says, as far as anybody here needs it (proc(5))."""

    pid: int
    state: str
    parent: int
    terminal: int
    """The device number of the controlling terminal, 0 without one."""
    threads: int
    start_ticks: int

    @property
    def is_dead(self) -> bool:
        """A zombie is dead; but a leader that ended before its other threads looks like one and is not."""
        return self.state in _DEAD_STATES and self.threads <= 1


def identity_of(pid: int) -> ProcessIdentity:
    """The identity of a process that runs now. Raises ProcessLookupError if no process has this number."""
    try:
        stat = read_stat(pid)
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
    if stat.is_dead:
        raise ProcessLookupError(f"process {pid} has ended")
    return ProcessIdentity(pid, stat.start_ticks, current_boot_id())


def state_of(identity: ProcessIdentity, *, proc: str = _PROC) -> ProcessState:
    """Whether exactly that process still runs. `unknown` if our rights don't suffice to tell."""
    try:
        if identity.boot_id != current_boot_id(proc):
            return "gone"
        stat = read_stat(identity.pid, proc)
    except (FileNotFoundError, ProcessLookupError):
        return _state_by_signal(identity.pid)
    except OSError:
        return "unknown"
    if stat.start_ticks != identity.start_ticks or stat.is_dead:
        return "gone"
    return "alive"


def seconds_since_start(identity: ProcessIdentity) -> float:
    """How long ago a process of this boot started, suspends included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - identity.start_ticks / os.sysconf("SC_CLK_TCK")


def pid_namespace() -> int | None:
    """Which PID namespace this process is in, by its inode: process numbers are only valid within a namespace."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def read_stat(pid: int, proc: str = _PROC) -> ProcessStat:
    """The fields of /proc/PID/stat. Raises FileNotFoundError or ProcessLookupError if it has ended."""
    with open(f"{proc}/{pid}/stat", "rb") as file:
        return parse_stat(file.read())


def parse_stat(line: bytes) -> ProcessStat:
    """One line of /proc/PID/stat. The name, field 2, may hold anything: the last `)` ends it."""
    pid = int(line[: line.index(b" ")])
    fields = line[line.rindex(b")") + 2 :].split()  # from field 3 on
    return ProcessStat(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        terminal=int(fields[4]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def current_boot_id(proc: str = _PROC) -> str:
    """The kernel's random name for this boot."""
    with open(f"{proc}/sys/kernel/random/boot_id", "rb") as file:
        return file.read().strip().decode()


def descriptor_of(process: ProcessIdentity) -> int | None:
    """A descriptor of exactly this process, readable when it ends; None if it has ended, or if there can be none."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (OSError, OverflowError, ValueError):
        return None
    if (
        state_of(process) != "alive"
    ):  # checked with the descriptor in hand, so the number can't be another's meanwhile
        os.close(descriptor)
        return None
    return descriptor


def booted_at(proc: str = _PROC) -> float | None:
    """When this machine started (Unix seconds), by its current clock; None if this user may not know."""
    try:
        with open(f"{proc}/stat", "rb") as file:
            times = [line.split()[1] for line in file if line.startswith(b"btime ")]
    except OSError:
        return None
    return float(times[0]) if times else None


def _state_by_signal(pid: int) -> ProcessState:
    """What can be said without /proc/PID: it is also missing where hidepid hides other people's processes."""
    if pid <= 0:
        return "gone"
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return "gone"
    except PermissionError:
        pass
    return "unknown"
