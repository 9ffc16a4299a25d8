"""Processes by their numbers in PID namespaces below Runward's, such as a container's: their files have these numbers."""

import os
from typing import Final, NamedTuple

from runward.daemon.processes.identity import read_stat

_NUMBERS: Final = b"NSpid:"
"""The line of /proc/PID/status with the process's number in each namespace, ours first."""


class NotThere(NamedTuple):
    """No process has this number and start. `is_certain`: all processes of this namespace and those below were seen."""

    is_certain: bool


def number_of(inner: int, start_ticks: int | None, *, proc: str = "/proc") -> int | NotThere:
    """Our number of the process that is called `inner` in a namespace below ours.

    Start times are the whole machine's, so the two together identify one process. Without a start, `inner` alone is
    looked for.
    """
    names = [name for name in os.listdir(proc) if name.isascii() and name.isdigit()]
    # Where /proc hides other people's processes, the first one is hidden, too, or can't be read.
    is_certain = "1" in names
    for name in names:
        try:
            is_it = start_ticks is None or read_stat(int(name), proc).start_ticks == start_ticks
            if is_it and inner in _inner_numbers(name, proc):
                return int(name)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        except OSError:
            is_certain = False
    return NotThere(is_certain)


def _inner_numbers(name: str, proc: str) -> list[int]:
    with open(f"{proc}/{name}/status", "rb") as file:
        for line in file:
            if line.startswith(_NUMBERS):
                return [int(each) for each in line.split()[2:]]
    return []
