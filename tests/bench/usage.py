"""What a process and its descendants take, read from /proc: memory and processor time."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED = 2


@dataclass(frozen=True, slots=True)
class Usage:
    """Resident and proportional memory in MB, processor time in seconds since the start (ended children included)."""

    rss_mb: float
    pss_mb: float
    cpu_s: float


def usage(pid: int, family: bool = True) -> Usage:
    """Sum over the process and, with `family`, all its living descendants; one that ends meanwhile counts nothing."""
    rss = pss = ticks = 0
    for member in _family(pid) if family else [pid]:
        try:
            memory = _smaps(member)
            ticks += sum(int(field) for field in _stat(member)[11:15])  # utime, stime, cutime, cstime
        except (FileNotFoundError, ProcessLookupError):
            continue
        rss += memory["Rss"]
        pss += memory["Pss"]
    return Usage(rss / 1024, pss / 1024, ticks / _TICKS)


def cpu_s(pid: int) -> float:
    """Only the processor time: cheap enough to ask often."""
    return sum(int(field) for field in _stat(pid)[11:15]) / _TICKS


def exact_cpu_s(pid: int) -> float:
    """The processor time of the process alone, to the nanosecond, from its own clock (clock_getcpuclockid(3))."""
    return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED) / 1e9


def peak_mb(pid: int) -> float:
    """The most memory that was ever resident."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def peak_of_family_mb(pid: int) -> float:
    """The most memory that it and its living descendants ever had, each at its own moment."""
    peak = 0.0
    for member in _family(pid):
        try:
            peak += peak_mb(member)
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue  # it ended
    return peak


def _family(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(_stat(int(entry))[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


def _stat(pid: int) -> list[str]:
    """The fields after the command's name, which may hold anything: state, ppid, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _smaps(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.partition(":")[0]: int(line.split()[1]) for line in lines}
