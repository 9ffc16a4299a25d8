"""A cgroup (version 2) for one run: no process leaves it by forking, and the kernel kills all of it at once."""

import os
import select
import time

from runward.daemon.launch.containment_methods import ContainmentUnavailable

PREFIX = "runward-"
"""The prefix of our cgroups' names."""

_PATIENCE_S = 10.0
_YOUNG_S = 60.0


class Cgroup:
    """A directory of the cgroup file system that processes can be put into and killed in."""

    def __init__(self, path: str) -> None:
        self.path = path

    def admit(self, pid: int) -> None:
        """Moves a process in. Raises OSError if that is not allowed."""
        self._write("cgroup.procs", str(pid))

    def members(self) -> frozenset[int]:
        """Every process in it and in the cgroups below it."""
        found: set[int] = set()
        for directory, _, _ in os.walk(self.path):
            try:
                with open(f"{directory}/cgroup.procs", encoding="ascii") as file:
                    found.update(map(int, file.read().split()))
            except OSError:
                continue  # a cgroup that went away meanwhile, or one of threads, which its parent counts
        return frozenset(found)

    def is_empty(self) -> bool:
        """Whether no living process is left in it; true for a cgroup that no longer exists."""
        try:
            with open(f"{self.path}/cgroup.events", encoding="ascii") as file:
                return "populated 0" in file.read()
        except OSError:
            return not os.path.isdir(self.path)

    def kill(self) -> None:
        """Kills all processes in it, and waits (at most 10 s) until they have ended; the caller reaps."""
        try:
            self._write("cgroup.kill", "1")
            events = os.open(f"{self.path}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # systemd has taken the empty one away
        try:
            poll = select.poll()
            poll.register(events, select.POLLPRI)
            give_up = time.monotonic() + _PATIENCE_S
            while not self.is_empty() and time.monotonic() < give_up:
                poll.poll(20)
        finally:
            os.close(events)

    def remove(self) -> None:
        """Removes it with any cgroups that the command made below it. A cgroup that is not empty stays."""
        for directory, _, _ in os.walk(self.path, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:
                continue

    def remove_old_siblings(self) -> None:
        """Removes empty sibling cgroups that killed launchers left. A young one stays, because it may be about to
        fill."""
        parent, own = os.path.split(self.path)
        try:
            names = [name for name in os.listdir(parent) if name.startswith(PREFIX) and name != own]
        except OSError:
            return
        for name in names:
            sibling = Cgroup(f"{parent}/{name}")
            try:
                age = time.time() - os.stat(sibling.path).st_ctime
            except FileNotFoundError:
                continue
            if age > _YOUNG_S and sibling.is_empty():
                sibling.remove()

    def _write(self, name: str, text: str) -> None:
        descriptor = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def end_run_in(path: str) -> int:
    """Kill everything in the cgroup of a run, and remove it; returns how many processes that were.

    A path counts only if it is a cgroup that a launcher made, and this process is not in it.
    """
    try:
        is_of_a_run = (
            os.path.normpath(path) == path
            and os.path.basename(path).startswith(PREFIX)
            and path.startswith(f"{_mount_point()}/")
            and not f"{cgroup_of(os.getpid())}/".startswith(f"{path}/")
        )
    except ContainmentUnavailable:
        return 0
    cgroup = Cgroup(path)
    if not is_of_a_run or not (members := cgroup.members()):
        return 0
    cgroup.kill()
    cgroup.remove()
    return len(members)


def make_cgroup(name: str, pid: int) -> Cgroup:
    """A new cgroup below our own with `pid` in it. Raises ContainmentUnavailable if it can't be made or killed."""
    path = os.path.join(cgroup_of(os.getpid()), name)
    try:
        os.mkdir(path)
    except OSError as error:
        raise ContainmentUnavailable(f"no cgroup can be made: {path}: {error.strerror}") from None
    cgroup = Cgroup(path)
    try:
        check_killable(cgroup)
        cgroup.admit(pid)
    except (OSError, ContainmentUnavailable) as error:
        cgroup.remove()
        raise ContainmentUnavailable(f"{path}: {error}") from None
    return cgroup


def check_killable(cgroup: Cgroup) -> None:
    """Raises ContainmentUnavailable if the kernel can't kill it, or not for us."""
    if not os.access(f"{cgroup.path}/cgroup.kill", os.W_OK):
        raise ContainmentUnavailable("no writable cgroup.kill (needs Linux 5.14)")


def cgroup_of(pid: int) -> str:
    """The directory of a process's cgroup. Raises ContainmentUnavailable if no version 2 is mounted."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise ContainmentUnavailable(f"/proc/{pid}/cgroup: {error.strerror}") from None
    for line in lines:
        if line.startswith("0::"):
            return _mount_point() + line.removeprefix("0::").rstrip("/")
    raise ContainmentUnavailable("no version 2 cgroup is in use here")


def _mount_point() -> str:
    """Where the whole hierarchy of version 2 is mounted (proc_pid_mountinfo(5))."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            if after.startswith("cgroup2 ") and (fields := before.split())[3] == "/":
                return fields[4]
    raise ContainmentUnavailable("no cgroup version 2 file system is mounted here")
