"""Whether others use the machine: a neighbour costs the daemon's threads more than a baseline's one."""

import os
import time
from pathlib import Path
from typing import Final

LOADED: Final = 0.25
"""Processors that others keep busy from which on a figure says little."""
_SAMPLE_S: Final = 1.0
_PATIENCE_S: Final = 15.0
"""What was measured before may still be written out by the kernel."""
_STAT: Final = Path("/proc/stat")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


def busy_processors() -> float:
    """How many processors others keep busy, as soon as that is little; otherwise what it is after a while."""
    give_up = time.monotonic() + _PATIENCE_S
    while (busy := _sample()) >= LOADED and time.monotonic() < give_up:
        pass
    return busy


def _sample() -> float:
    before, begin = _busy_s(), time.monotonic()
    time.sleep(_SAMPLE_S)
    return (_busy_s() - before) / (time.monotonic() - begin)


def _busy_s() -> float:
    """Seconds of all processors that were neither idle nor waiting for a disk. What a hypervisor took counts, too."""
    user, nice, system, _, _, irq, softirq, steal = map(int, _STAT.read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS_A_SECOND
