"""A cgroup (version 2) for one run, made by us or with a scope unit of the user's systemd: no process leaves it by forking, and the kernel kills all of it at once."""

from __future__ import annotations

import os
import select
import time

from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Mapping


PREFIX = "runward-"
"""The prefix of our cgroups' names."""

_PATIENCE_S = 10.0
_YOUNG_S = 60.0
_looked_at: dict[str, float] = {}
"""When this process last looked for what killed launchers left (monotonic seconds), by the cgroup above."""


class ContainmentUnavailable(Exception):
    """A method is not available on this machine; the message says why."""


class Cgroup:
    """A directory of the cgroup file system that processes can be put into and killed in."""

    def __init__(self, path: str) -> None:
        self.path = path

    def fork(self) -> int | None:
        """fork(2), with the child in it from its beginning. None if that is not possible here; then nothing was forked."""
        from runward.daemon.processes.kernel import (
            fork_into,
        )  # the daemon, which only ends cgroups, does without ctypes

        try:
            directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return fork_into(directory)
            finally:
                os.close(directory)
        except OSError:
            # An old kernel, a filter of system calls, or no right to it: a process can still be moved, or not even that.
            return None

    def admit(self, pid: int) -> None:
        """Moves a process in. Raises OSError if that is not allowed."""
        self._write("cgroup.procs", str(pid))

    def members(self) -> frozenset[int]:
        """Every process in it and in the cgroups below it."""
        pids: set[int] = set()
        for directory, _, _ in os.walk(self.path):
            try:
                with open(f"{directory}/cgroup.procs", encoding="ascii") as file:
                    pids.update(map(int, file.read().split()))
            except OSError:
                continue  # a cgroup that went away meanwhile, or one of threads, which its parent counts
        return frozenset(pids)

    def has(self, pid: int) -> bool:
        """Whether a process is in it, or in a cgroup below it."""
        try:
            return f"{cgroup_of(pid)}/".startswith(f"{self.path}/")
        except ContainmentUnavailable:
            return False  # it has ended

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
            try:
                self._write("cgroup.kill", "1")
            except PermissionError:
                # The command can take these rights from its own user, who can take them back.
                os.chmod(self.path, 0o700)
                os.chmod(f"{self.path}/cgroup.kill", 0o600)
                self._write("cgroup.kill", "1")
            # The kernel kills asynchronously. This file reports when the last process has gone.
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
        # From the bottom up: a cgroup with others below it can't be removed.
        for directory, _, _ in os.walk(self.path, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:
                continue

    def remove_old_siblings(self) -> None:
        """Removes empty sibling cgroups that killed launchers left. A young one stays, because it may be about to
        fill. A process looks at most once a minute: each look asks about every run."""
        parent, own = os.path.split(self.path)
        now = time.monotonic()
        if now - _looked_at.get(parent, -_YOUNG_S) < _YOUNG_S:
            return
        _looked_at[parent] = now
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
            # A cgroup is empty for a moment before its run's process is put in.
            if age > _YOUNG_S and sibling.is_empty():
                sibling.remove()

    def _write(self, name: str, text: str) -> None:
        descriptor = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def end_run_in(path: str) -> int:
    """Kill everything in the cgroup of a run, and remove it; returns how many processes that were."""
    try:
        is_of_a_run = (
            # The path comes from a run's record. It may name only a cgroup that a launcher made, below the
            # one mount point, and never one that holds this process.
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


class Held(Value):
    """What must be contained: the waiting command, its processes (it and its `init`), and its run's name and longest
    time (seconds; None: no end).

    `cgroup` is the one that was made for it; `is_inside` tells whether it began in there.
    """

    pid: int
    own: frozenset[int]
    name: str
    longest: float | None
    cgroup: Cgroup | None = None
    is_inside: bool = False


def make_cgroup(run: str) -> Cgroup:
    """A new cgroup below our own, for a run of this name. Raises ContainmentUnavailable if it can't be made or killed."""
    path = os.path.join(cgroup_of(os.getpid()), f"{PREFIX}{run[:50]}-{os.urandom(3).hex()}")
    try:
        os.mkdir(path)
    except OSError as error:
        raise ContainmentUnavailable(f"no cgroup can be made: {path}: {error.strerror}") from None
    cgroup = Cgroup(path)
    try:
        # Before the command is put in: a cgroup that can't be killed would contain nothing.
        check_killable(cgroup)
    except ContainmentUnavailable as error:
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


_SCOPE_PATIENCE_S = 5.0
_MARGIN_S = 10.0
"""How much later than the launcher systemd ends the scope: only if the launcher has ended."""


def make_scope(name: str, held: Held, environment: Mapping[str, str]) -> Cgroup:
    """Puts the waiting process into a new scope; returns the scope's cgroup. Raises ContainmentUnavailable."""
    check_bus(environment)
    _call(_start_transient_unit(name, held), environment)
    give_up = time.monotonic() + _SCOPE_PATIENCE_S
    # systemd answers before it has moved the process. What runs before that would be outside.
    while not (path := cgroup_of(held.pid)).endswith(f"/{name}"):
        if time.monotonic() > give_up:
            raise ContainmentUnavailable(f"systemd didn't move the command into {name}")
        time.sleep(0.001)
    cgroup = Cgroup(path)
    check_killable(cgroup)
    return cgroup


def check_bus(environment: Mapping[str, str]) -> None:
    """Raises ContainmentUnavailable if there is no bus of this user."""
    bus = os.path.join(environment.get("XDG_RUNTIME_DIR", ""), "bus")
    try:
        # Under sudo, the variable may still name another user's bus.
        is_ours = os.stat(bus).st_uid == os.geteuid()
    except OSError:
        raise ContainmentUnavailable("no user bus: $XDG_RUNTIME_DIR/bus is not there") from None
    if not is_ours:
        raise ContainmentUnavailable(f"{bus} belongs to another user")


def _start_transient_unit(name: str, held: Held) -> list[str]:
    """The call of org.freedesktop.systemd1(5), for busctl(1)."""
    properties = [
        ["Description", "s", f"Runward: {held.name}"],
        ["PIDs", "au", "1", str(held.pid)],
        ["CollectMode", "s", "inactive-or-failed"],
    ]
    if held.longest is not None:
        # systemd ends the scope even if the launcher was killed, but later than the launcher would.
        properties.append(["RuntimeMaxUSec", "t", str(round((held.longest + _MARGIN_S) * 1_000_000))])
    call = [
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
    ]
    arguments = [word for each in properties for word in each]
    method = ["StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail"]
    return ["busctl", "--user", *call, *method, str(len(properties)), *arguments, "0"]


def _call(command: list[str], environment: Mapping[str, str]) -> None:
    try:
        pid, problem_out = spawn(command, environment, 2)
    except OSError as error:
        raise ContainmentUnavailable(f"{command[0]}: {error.strerror}") from None
    with open(problem_out, encoding="utf-8", errors="replace") as file:
        problem = file.read().strip()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise ContainmentUnavailable(f"systemd refused the scope: {problem}")


def spawn(
    command: tuple[str, ...] | list[str], environment: Mapping[str, str], heard: int
) -> tuple[int, int]:
    """Starts a program; its pid, and a pipe from its stdout or stderr, by the number. The others lead nowhere. Raises OSError."""
    pipe_out, pipe_in = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    files = [(os.POSIX_SPAWN_DUP2, pipe_in if number == heard else null, number) for number in (0, 1, 2)]
    try:
        # Our own mask would be inherited: signals that are blocked here would end no process there.
        return os.posix_spawnp(command[0], command, environment, file_actions=files, setsigmask=()), pipe_out
    except OSError:
        os.close(pipe_out)
        raise
    finally:
        os.close(pipe_in)
        os.close(null)
