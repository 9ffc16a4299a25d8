"""Ending a recorded run: telling exactly the process that was recorded, or killing everything that belongs to the run."""

import errno
import os
import signal
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from runward.daemon.processes.cancelling import CANCEL
from runward.daemon.processes.proc import (
    ProcessStat,
    current_boot_id,
    read_stat,
    signal_meant,
    started_at,
)
from runward.handlers.model.processes import RecordedProcess, RunPlace
from runward.handlers.model.sessions import RunProcesses


class EndOrdered(NamedTuple):
    """A process got the order to end; `who` says which."""

    who: str


class EndNotOrdered(NamedTuple):
    """No process could get the order to end, and asking again changes nothing.

    `too_late`: because nothing is left of the run, perhaps due to an earlier try.
    """

    why: str
    too_late: bool = False


_GONE = "is gone"
_MARK = b"RUNWARD_RUN_DIR="
_LARGEST_ENVIRONMENT = 4 << 20
_OF_A_THREAD: Final = (errno.EINVAL, errno.ENOENT)
"""What `pidfd_open` says of a number that is a thread's."""


def tell_to_end(processes: RunProcesses, place: RunPlace) -> EndOrdered | EndNotOrdered:
    """Tell the launcher to end its run as cancelled; if the launcher has ended, the command itself, by SIGTERM.

    What a run directory names may be wrong or a trap. So a process is held by a descriptor before it is compared with the
    record, and it must belong to the directory's owner: for a directory the daemon does no more than its owner could do.
    """
    whys: list[str] = []
    for name, recorded in (("launcher", processes.launcher), ("process", processes.process)):
        if recorded is None:
            continue
        who = f"its {name}, process {recorded.pid},"
        try:
            why = _tell(recorded, place, processes.is_recorded)
        except ProcessLookupError:
            why = _GONE
        except PermissionError:
            why = "may not be signalled by the daemon"
        if why is None:
            return EndOrdered(f"{who} was told")
        whys.append(f"{who} {why}")
        if why != _GONE:
            break  # a live launcher that may not be signalled is not bypassed
    too_late = bool(whys) and all(each.endswith(_GONE) for each in whys)
    return EndNotOrdered("; ".join(whys) or "its files name no process", too_late)


def _signal(process: int, number: int) -> None:
    """Send the signal, and continue a stopped process so that it can react. Raises like pidfd_send_signal(2)."""
    signal.pidfd_send_signal(process, number)
    try:
        signal.pidfd_send_signal(process, signal.SIGCONT)
    except ProcessLookupError:
        pass  # the first signal ended it: it got the order


def _tell(recorded: RecordedProcess, place: RunPlace, by_launcher: bool) -> str | None:
    """Why the process did not get the order, None if it did. Raises ProcessLookupError, PermissionError and OSError."""
    # Another boot: the process that has the number now has nothing to do with the run.
    if recorded.boot_id != current_boot_id():
        return _GONE
    # What a run directory names may be a trap: it must not make the daemon end init or itself.
    if recorded.pid in (1, os.getpid()):
        return "is not a run's"
    try:
        # Held before it is compared with the record: what is signalled is then what was compared.
        descriptor = os.pidfd_open(recorded.pid)
    except OSError as error:
        if error.errno in _OF_A_THREAD:
            return "is the number of a thread, not of a process"
        raise
    try:
        try:
            stat = read_stat(recorded.pid)
            owner, blocked = _owner_and_blocked(recorded.pid)
        except FileNotFoundError:
            raise ProcessLookupError(recorded.pid) from None
        if stat.start_ticks != recorded.start_ticks or stat.is_dead:
            return _GONE
        # For a run directory, the daemon does no more than the directory's owner could do.
        if owner != place.owner:
            return f"belongs to user {owner}, and the run directory to user {place.owner}"
        if not blocked >> (CANCEL - 1) & 1:
            # Not a launcher of Runward's, which keeps this signal for itself: any other process would just die of it.
            if not by_launcher and not _says_so(recorded.pid, place):
                return "is named only by the run's files: the process itself does not say that it belongs to this run"
            _signal(descriptor, signal.SIGTERM)
        else:
            # A launcher keeps its run's directory open until the end, so the files of a run can't make the daemon cancel
            # another launcher's run. What the launcher itself recorded needs no such proof.
            why = None if by_launcher else _why_not_its_launcher(recorded.pid, place)
            if why is not None:
                return why
            _signal(descriptor, CANCEL)
    finally:
        os.close(descriptor)
    return None


def _owner_and_blocked(pid: int) -> tuple[int, int]:
    """The user that a process runs as, and the mask of the signals that it blocks (proc(5), `status`)."""
    owner, blocked = -1, 0
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("Uid:"):
                owner = int(line.split()[1])
            elif line.startswith("SigBlk:"):
                blocked = int(line.split()[1], 16)
    return owner, blocked


def _says_so(pid: int, place: RunPlace) -> bool:
    """Whether a process works in this very run directory, or has it in its environment as a launcher gives it."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        environment = file.read(_LARGEST_ENVIRONMENT)
    named = [each.removeprefix(_MARK) for each in environment.split(b"\0") if each.startswith(_MARK)]
    return any(_is_place(path, place) for path in (*named, os.fsencode(f"/proc/{pid}/cwd")))


def _is_place(path: bytes, place: RunPlace) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return (status.st_dev, status.st_ino) == (place.device, place.inode)


def _why_not_its_launcher(pid: int, place: RunPlace) -> str | None:
    """None if the process has this very directory open, as a launcher has its run's until the end.

    A launcher that hides its memory hides its descriptors, too, from everybody but root. So it locks the directory before
    that: everybody may read the kernel's list of locks.
    """
    from runward.daemon.processes.kernels_locks import (
        flock_holders,
    )  # rarely asked: most launches are recorded

    if pid in flock_holders(place.device, place.inode):
        return None
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return "hides its files, and nothing else shows that it is this run's launcher"
    for descriptor in descriptors:
        try:
            status = os.stat(f"/proc/{pid}/fd/{descriptor}")
        except FileNotFoundError:
            continue  # closed meanwhile
        if (status.st_dev, status.st_ino) == (place.device, place.inode):
            return None
    return "is the launcher of another run"


_PATIENCE: Final = 5.0
"""Seconds for which to search for new processes. Of a tree that keeps forking, the known processes are killed."""
_LOOKS: Final = 3
"""How many searches in a row must find nobody new: a process that forks and leaves during a search may be missed by it."""


def end_tree(
    processes: RunProcesses,
    directory: str,
    is_of_run: Callable[[RecordedProcess], bool] = lambda recorded: True,
) -> EndOrdered | EndNotOrdered:
    """Kill all processes of a run whose launcher did not end it. Raises OSError where the machine refuses for now.

    A process belongs to the run if it descends from one of the two recorded, or has the run's directory in its
    environment, which the launcher gave it and its children inherit. Each is stopped before any is killed. `is_of_run` tells
    whether a recorded process still belongs to this run.
    """
    stopped: dict[int, int] = {}
    """When each that was stopped had started, by its number: a tree may have more processes than we may have descriptors."""
    give_up = time.monotonic() + _PATIENCE
    for recorded in (processes.launcher, processes.process):
        # A launcher that has begun another run is not stopped for a moment, if that can be seen before.
        if recorded is None or recorded.boot_id != current_boot_id() or not is_of_run(recorded):
            continue
        pid, started = recorded.pid, recorded.start_ticks
        if _send(pid, signal.SIGSTOP, started_at(started)):
            is_still = False
            try:
                # Once it is stopped, it can't begin another one any more.
                is_still = is_of_run(recorded)
            finally:
                if not is_still:
                    _send(pid, signal.SIGCONT, started_at(started))
            if is_still:
                stopped[pid] = started
    if not stopped:
        return EndNotOrdered("its launcher and its process have ended", too_late=True)
    # Stopped processes fork no more, so the search is repeated until it finds nobody new.
    looks = 0
    while looks < _LOOKS and time.monotonic() < give_up:
        looks = 0 if _stop_more(stopped, directory) else looks + 1
    # Killed only when all are stopped: none can start another while it sees the others die.
    for pid, started in stopped.items():
        _send(pid, signal.SIGKILL, started_at(started))
    return EndOrdered(f"{len(stopped)} processes were killed")


def _send(pid: int, number: int, is_meant: Callable[[ProcessStat], bool]) -> ProcessStat | None:
    """Send a signal to a process that is meant; which one that is, also if it is another user's and we may not end it."""
    found = signal_meant(pid, number, is_meant)
    return None if found is None else found.stat


def _stop_more(stopped: dict[int, int], directory: str) -> bool:
    """Stop every process that belongs to the run and is not stopped yet; returns whether there was one."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = read_stat(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if not stat.is_dead:
                parents[stat.pid] = stat.parent
    others = [
        pid
        for pid in parents
        if pid not in stopped
        and pid not in (1, os.getpid())
        and (_descends(pid, parents, stopped) or _says(pid, directory))
    ]
    found = [_stop(stopped, pid, parents[pid], directory) for pid in others]
    return any(found)


def _stop(stopped: dict[int, int], pid: int, parent: int, directory: str) -> bool:
    """Stop one more; returns whether it still belongs to the run."""
    # Its number may have become another's: it is still the process that was found, or it belongs to the run in its own right.
    found = _send(pid, signal.SIGSTOP, lambda stat: stat.parent == parent or _says(pid, directory))
    if found is None:
        return False
    stopped[pid] = found.start_ticks
    return True


def _descends(pid: int, parents: dict[int, int], stopped: dict[int, int]) -> bool:
    seen = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        if pid in stopped:
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
