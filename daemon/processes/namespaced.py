"""Processes by their numbers in PID namespaces below Runward's, such as a container's: their files have these numbers."""

import os
from typing import Final

from runward.daemon.processes.identity import read_stat

_NUMBERS: Final = b"NSpid:"
"""The line of /proc/PID/status with the process's number in each namespace, ours first."""


def number_of(inner: int, start_ticks: int, *, proc: str = "/proc") -> int | None:
    """Our number of the process that is called `inner` in a namespace below ours; None if none is visible.

    Start times are the whole machine's, so the two together identify one process.
    """
    for name in os.listdir(proc):
        if not name.isascii() or not name.isdigit():
            continue
        try:
            if read_stat(int(name), proc).start_ticks == start_ticks and inner in _inner_numbers(name, proc):
                return int(name)
        except OSError:
            continue  # it has just ended, or is hidden from us
    return None


def _inner_numbers(name: str, proc: str) -> list[int]:
    with open(f"{proc}/{name}/status", "rb") as file:
        for line in file:
            if line.startswith(_NUMBERS):
                return [int(each) for each in line.split()[2:]]
    return []
