"""Processes as /proc shows them: who one is beyond its number, those below it, and how to end them all.

Numbers are reused, start times within one boot are not. An identity is written to `process.json` (the native layout),
and checked again after any restart of daemon or launcher.
"""

from __future__ import annotations

import errno
import os
import time

from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from runward.handlers.model.processes import ProcessState


_PROC = "/proc"
_OF_A_THREAD = (errno.EINVAL, errno.ENOENT)
"""What `pidfd_open` says of a number that is a thread's."""

_DEAD_STATES = "ZXx"
_LONGEST_STAT = 4096
"""Bytes: some fifty numbers, and a name of at most 64."""

_boot: list[str] = []
"""The name of this boot, once it was read: no process lives longer."""


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
        # Numbers and start times begin anew with each boot.
        if identity.boot_id != current_boot_id(proc):
            return "gone"
        stat = read_stat(identity.pid, proc)
    except (FileNotFoundError, ProcessLookupError):
        # Where /proc hides other users' processes, a missing entry says nothing.
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
    # Without a file object, which costs as much again: a thousand running runs are asked every five seconds.
    descriptor = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return parse_stat(os.read(descriptor, _LONGEST_STAT))
    finally:
        os.close(descriptor)


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
    if proc == _PROC and _boot:
        return _boot[0]
    with open(f"{proc}/sys/kernel/random/boot_id", "rb") as file:
        name = file.read().strip().decode()
    if proc == _PROC:
        _boot[:] = [name]
    return name


def descriptor_of(process: ProcessIdentity) -> int | None:
    """A descriptor of exactly this process, readable when it ends; None if it has ended, or if there can be none."""
    try:
        # The descriptor is taken first and the process compared then. The other way round, the number could
        # become another's in between.
        descriptor = os.pidfd_open(process.pid)
    except (OSError, OverflowError, ValueError):
        return None
    if state_of(process) != "alive":
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


_PATIENCE_S = 10.0
"""How long killed processes may take to end: one that waits for a dead disk never ends."""


class Killed(Value):
    """What a kill found: `exits` are wait statuses by pid, `left` those that could not be killed."""

    seen: frozenset[int]
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


class Signalled(Value):
    """A process that was meant, as it was then. `is_sent` is false if it may not be signalled."""

    stat: ProcessStat
    is_sent: bool


def signal_meant(pid: int, number: int, is_meant: Callable[[ProcessStat], bool]) -> Signalled | None:
    """Send a signal to the process of this number if it is the meant one. None if it is not, or has ended.

    Raises OSError, for example for want of descriptors.
    """
    import signal  # commands that only look at processes do without

    if pid <= 0:
        return None
    try:
        # The descriptor is taken first and the process looked at then. The other way round, the number could become
        # another's in between.
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError):
        return None
    except OSError as error:
        if error.errno in _OF_A_THREAD:
            return None
        raise
    try:
        stat = read_stat(pid)
        if stat.is_dead or not is_meant(stat):
            return None
        try:
            signal.pidfd_send_signal(descriptor, number)
        except PermissionError:
            return Signalled(stat, False)
        return Signalled(stat, True)
    except (FileNotFoundError, ProcessLookupError):
        return None
    finally:
        os.close(descriptor)


def started_at(ticks: int) -> Callable[[ProcessStat], bool]:
    """Whether a process is the one that started then."""
    return lambda stat: stat.start_ticks == ticks


def is_below(stat: ProcessStat) -> bool:
    """Whether a process is one of our own descendants."""
    return is_below_us(stat.pid)


_WALKS = 3
"""How often its ancestors are followed: if one of them ends meanwhile, the next is another one."""


def is_below_us(pid: int) -> bool:
    """Whether a process is this one, or one of its descendants."""
    us = os.getpid()
    for _ in range(_WALKS):
        each = pid
        try:
            while each > 1 and each != us:
                each = read_stat(each).parent
        except (FileNotFoundError, ProcessLookupError):
            continue
        return each == us
    return False


def kill_tree(without: AbstractSet[int] = frozenset()) -> Killed:
    """Ends all processes below this one, and returns when they have ended and are reaped.

    This process must be their subreaper: an orphan then becomes its child, and is found again.
    """
    import signal  # commands that only look at processes do without

    pids: set[int] = set()
    exits: dict[int, int] = {}
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        # All are stopped before any is killed: a killed parent would leave children that can still fork.
        refused = _stop_and_kill(without, pids)
        exits.update(reap())
        left = {pid for pid in descendants(without) if not _is_dead(pid)}
        died = reap()
        exits.update(died)
        # The number of a child that was waited for may become another's.
        without = without - exits.keys()
        ours = children() - without
        # A look at all descendants may miss one that was forked during the look, by a parent that was alive when it was listed
        # and dead when it was asked. Each living process has a living ancestor among our children, and they stay listed until
        # we reap them: so then one of them has died, or was not seen. Otherwise who is left may not be signalled, if anybody.
        is_all = not died and ours <= left <= refused
        # A process that waits for a dead disk can't be killed. The run's end must be recorded all the same.
        if is_all or time.monotonic() > give_up:
            return Killed(frozenset(pids), exits, frozenset((left | ours) - died.keys()))
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


def _stop_and_kill(without: AbstractSet[int], known: set[int]) -> set[int]:
    """One attempt on all of them; returns those that may not be signalled."""
    import signal

    stopped: dict[int, int] = {}
    """When each had started: one that is not our child may die, and its number become another's, before it is killed."""
    refused: set[int] = set()
    is_complete = False
    # A process may fork while we look. Stopped processes fork no more, so the look is repeated until it finds
    # nobody new.
    while not is_complete:
        is_complete = True
        for pid in descendants(without):
            if pid in stopped or pid in refused or _is_dead(pid):
                continue
            found = signal_meant(pid, signal.SIGSTOP, is_below)
            if found is not None and found.is_sent:
                stopped[pid] = found.stat.start_ticks
            elif found is not None:
                refused.add(pid)
            # One that has ended, or whose ancestors just changed, is found again if it is one of ours.
            is_complete = is_complete and found is None
    for pid, started in stopped.items():
        signal_meant(pid, signal.SIGKILL, started_at(started))
    known.update(stopped)
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
    # Without CONFIG_PROC_CHILDREN all processes must be listed once.
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
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids.extend(map(int, file.read().split()))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return pids
