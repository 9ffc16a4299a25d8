"""Killing all processes of a run whose launcher did not end it: the launcher, the command, and every process that belongs to them.

A process belongs to the run if it descends from one of the two recorded, or has the run's directory in its environment,
which the launcher gave it and its children inherit. Each is held by a descriptor and stopped, and the search is repeated
until it finds nobody new, for stopped processes fork no more. Then all are killed.
"""

import os
import signal
import time
from typing import Final

from runward.daemon.ports.processes import NotTold, Told
from runward.daemon.processes.identity import ProcessIdentity, descriptor_of, read_stat
from runward.handlers.model.sessions import RunProcesses

_MARK: Final = b"RUNWARD_RUN_DIR="
_LARGEST_ENVIRONMENT: Final = 4 << 20
_PATIENCE: Final = 5.0
"""Seconds for which to search for new processes. Of a tree that keeps forking, the known processes are killed."""


def end_tree(processes: RunProcesses, directory: str) -> Told | NotTold:
    """Kill them all. Raises OSError where the machine refuses for now."""
    held: dict[int, int] = {}
    give_up = time.monotonic() + _PATIENCE
    try:
        for recorded in (processes.launcher, processes.process):
            if recorded is not None:
                descriptor = descriptor_of(ProcessIdentity(*recorded))
                if descriptor is not None:
                    _hold(held, recorded.pid, descriptor)
        if not held:
            return NotTold("its launcher and its process have ended", too_late=True)
        while _stop_more(held, directory) and time.monotonic() < give_up:
            pass
        for descriptor in held.values():
            _send(descriptor, signal.SIGKILL)
        return Told(f"{len(held)} processes were killed")
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _hold(held: dict[int, int], pid: int, descriptor: int) -> None:
    held[pid] = descriptor
    _send(descriptor, signal.SIGSTOP)


def _send(descriptor: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or became another user's, so we may not end it


def _stop_more(held: dict[int, int], directory: str) -> bool:
    """Stop every process that belongs to the run and is not held yet; returns whether there was one."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = read_stat(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if not stat.is_dead:
                parents[stat.pid] = stat.parent
    found = [
        pid
        for pid in parents
        if pid not in held
        and pid not in (1, os.getpid())
        and (_descends(pid, parents, held) or _says(pid, directory))
    ]
    taken = [_take(held, pid, parents[pid], directory) for pid in found]
    return any(taken)


def _take(held: dict[int, int], pid: int, parent: int, directory: str) -> bool:
    """Hold one more, if it is still the process that was found: its number may be another's by now."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        still = read_stat(pid).parent == parent or _says(pid, directory)
    except (FileNotFoundError, ProcessLookupError):
        still = False
    if not still:
        os.close(descriptor)
        return False
    _hold(held, pid, descriptor)
    return True


def _descends(pid: int, parents: dict[int, int], held: dict[int, int]) -> bool:
    seen = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        if pid in held:
            return True
    return False


def _says(pid: int, directory: str) -> bool:
    """Whether a process has the run's directory in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read(_LARGEST_ENVIRONMENT)
    except OSError:
        return False
    return _MARK + os.fsencode(directory) in environment.split(b"\0")
