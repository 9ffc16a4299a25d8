"""The processes below this one, and how to end them all, whatever they do against it.

It relies on the launcher being their subreaper: a process that loses its parent becomes the launcher's child, so all of them
can be reached from our own children. A process may fork while we look. So each is stopped when it is found, and the
look is repeated until it finds no new one; stopped processes fork no more. Then all are killed, and this repeats until
there is no child left.
"""

from __future__ import annotations

import os
import signal
import time

from runward.daemon.processes.identity import read_stat
from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet


_PATIENCE_S = 10.0
"""How long killed processes may take to end: one that waits for a dead disk never ends."""


class Killed(Value):
    """What a kill found: `exits` are wait statuses by pid, `left` those that could not be killed."""

    found: frozenset[int]
    exits: dict[int, int]
    left: frozenset[int]


def descendants(without: AbstractSet[int] = frozenset()) -> Iterator[int]:
    """All processes below this one, parents first, except the children in `without` and what is below them."""
    lookup = _children_lookup()
    waiting = [child for child in lookup(os.getpid()) if child not in without]
    seen = set(waiting)
    while waiting:
        pid = waiting.pop(0)
        yield pid  # before its children are listed: the caller may stop it first
        for child in lookup(pid):
            if child not in seen:
                seen.add(child)
                waiting.append(child)


def children_of(pid: int) -> Sequence[int]:
    """The direct children of any process, including zombies."""
    return _children_lookup()(pid)


def children() -> frozenset[int]:
    """The direct children of this process."""
    return frozenset(children_of(os.getpid()))


def send_signal(pid: int, number: int) -> bool:
    """Whether the signal could be sent: false if the process has ended or belongs to somebody else."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_tree(without: AbstractSet[int] = frozenset()) -> Killed:
    """Ends all processes below this one, and returns when they have ended and are reaped."""
    found: set[int] = set()
    exits: dict[int, int] = {}
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        refused = _stop_and_kill(without, found)
        exits.update(reap())
        left = {pid for pid in descendants(without) if not _is_dead(pid)}
        if not left or left <= refused or time.monotonic() > give_up:
            exits.update(reap())  # those that died since the last time
            return Killed(frozenset(found), exits, frozenset(left))
        signal.sigtimedwait({signal.SIGCHLD}, 0.01)


def reap() -> dict[int, int]:
    """The wait statuses of all children that have ended and were not waited for yet."""
    exits: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return exits
        if pid == 0:
            return exits
        exits[pid] = status


def _stop_and_kill(without: AbstractSet[int], found: set[int]) -> set[int]:
    """One attempt on all of them; returns those that may not be signalled."""
    stopped: set[int] = set()
    refused: set[int] = set()
    is_complete = False
    while not is_complete:
        is_complete = True
        for pid in descendants(without):
            if pid in stopped or pid in refused or _is_dead(pid):
                continue
            is_complete = False
            (stopped if send_signal(pid, signal.SIGSTOP) else refused).add(pid)
    for pid in stopped:
        send_signal(pid, signal.SIGKILL)
    found |= stopped
    return refused


def _is_dead(pid: int) -> bool:
    try:
        return read_stat(pid).is_dead
    except (FileNotFoundError, ProcessLookupError):
        return True


def _children_lookup() -> Callable[[int], Sequence[int]]:
    """A function that lists a process's children, for the duration of one look."""
    if os.path.exists("/proc/thread-self/children"):
        return _children_by_kernel
    below: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = read_stat(int(entry)).parent
            except (FileNotFoundError, ProcessLookupError):
                continue
            below.setdefault(parent, []).append(int(entry))
    return lambda pid: below.get(pid, ())


def _children_by_kernel(pid: int) -> Sequence[int]:
    """By /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN): quick, so that little can happen meanwhile."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found
