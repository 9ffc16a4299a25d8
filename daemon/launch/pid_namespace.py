"""A PID namespace around a command: when its first process ends, the kernel ends all others in it.

There are two processes between launcher and command. The first makes the namespaces and ends. The second is the
namespace's first process: an `init`, which reaps every process that nobody waits for, and passes the command's wait
status to the launcher. An ordinary user needs a user namespace around all this, in which everybody keeps their number.
"""

import os
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NoReturn

from runward.daemon.launch.command import Forked, GatedCommand, fork_command
from runward.daemon.launch.containment_methods import ContainmentUnavailable
from runward.daemon.processes import tree
from runward.daemon.processes.kernel import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    become_subreaper,
    mount_own_proc,
    unshare,
)

_TURN_S = 0.001


class NamespacedCommand(GatedCommand):
    """A command whose parent is not the launcher but `init`, which writes its wait status to `status`."""

    def __init__(self, pid: int, init: int, forked: Forked, status: int) -> None:
        super().__init__(forked._replace(pid=pid))
        self.own = frozenset({pid, init})
        self.status_descriptor = status
        self._status = status
        self._init = init

    def status_among(self, exits: Mapping[int, int]) -> int | None:
        """See `GatedCommand`. If `init` was killed, everything in the namespace was."""
        try:
            text = os.read(self._status, 100)
        except BlockingIOError:
            return None
        return int(text) if text else exits.get(self._init)

    def wait(self) -> None:
        """See `GatedCommand`: `init` ends after its only child."""
        os.waitpid(self._init, 0)


def fork_namespaced_command(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    streams: Mapping[int, int],
    signal_mask: AbstractSet[int],
    cwd: str | None = None,
) -> GatedCommand:
    """Like `fork_command`, in a PID namespace of its own. Raises ContainmentUnavailable."""
    become_subreaper()  # before the first process ends, so that `init` becomes our child
    others = tree.children()
    status_out, status_in = os.pipe()
    os.set_blocking(status_out, False)
    forked = fork_command(
        arguments,
        environment,
        streams=streams,
        signal_mask=signal_mask,
        cwd=cwd,
        prepare=lambda closed: _enter(status_in, closed),
    ).forked
    os.close(status_in)
    _, failed = os.waitpid(forked.pid, 0)
    init = next(iter(tree.children() - others), None)
    pid = _only_child(init) if init is not None and not failed else None
    if init is None or pid is None:
        raise _unavailable(forked, init)
    return NamespacedCommand(pid, init, forked, status_out)


def _only_child(init: int) -> int | None:
    """The command, as soon as it exists; None if `init` ends without it."""
    while not (children := tree.children_of(init)):
        if init in tree.reap():
            return None
        time.sleep(_TURN_S)
    return children[0]


def _unavailable(forked: Forked, init: int | None) -> ContainmentUnavailable:
    os.close(forked.gate)
    report = os.read(forked.report, 4096).decode(errors="replace")
    os.close(forked.report)
    if init is not None:
        tree.reap()
    return ContainmentUnavailable(f"there can be no PID namespace: {report.partition(' ')[2]}")


def _enter(status: int, closed: tuple[int, ...]) -> None:
    """Makes the namespaces, in the forked child; returns only in the command. Raises OSError before that."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        unshare(CLONE_NEWPID | CLONE_NEWNS)
    else:
        unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    if os.fork():
        os._exit(0)
    mount_own_proc()
    command = os.fork()
    if command:
        for descriptor in closed:
            os.close(descriptor)
        _be_init(command, status)
    os.close(status)


def _be_init(command: int, status: int) -> NoReturn:
    """Waits for all processes. Signals don't end a namespace's first process, unless the launcher kills it."""
    while True:
        try:
            pid, wait_status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if pid == command:
            os.write(status, str(wait_status).encode())


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
