"""A transient scope unit of the user's systemd around a waiting process."""

from __future__ import annotations

import os
import time

from runward.daemon.launch.cgroup import Cgroup, cgroup_of, check_killable
from runward.daemon.launch.containment_methods import ContainmentUnavailable, Held

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Mapping


_PATIENCE_S = 5.0
_MARGIN_S = 10.0
"""How much later than the launcher systemd ends the scope: only if the launcher has ended."""


def make_scope(name: str, held: Held, environment: Mapping[str, str]) -> Cgroup:
    """Puts the waiting process into a new scope; returns the scope's cgroup. Raises ContainmentUnavailable."""
    _check_bus(environment)
    _call(_start_transient_unit(name, held), environment)
    give_up = time.monotonic() + _PATIENCE_S
    while not (path := cgroup_of(held.pid)).endswith(f"/{name}"):
        if time.monotonic() > give_up:
            raise ContainmentUnavailable(f"systemd didn't move the command into {name}")
        time.sleep(0.001)
    cgroup = Cgroup(path)
    check_killable(cgroup)
    return cgroup


def _check_bus(environment: Mapping[str, str]) -> None:
    """The user's own bus, or none: under sudo the variable may still name another user's."""
    bus = os.path.join(environment.get("XDG_RUNTIME_DIR", ""), "bus")
    try:
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
    problem_out, problem_in = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    files = [
        (os.POSIX_SPAWN_DUP2, null, 0),
        (os.POSIX_SPAWN_DUP2, null, 1),
        (os.POSIX_SPAWN_DUP2, problem_in, 2),
    ]
    try:
        pid = os.posix_spawnp(command[0], command, environment, file_actions=files)
    except OSError as error:
        raise ContainmentUnavailable(f"{command[0]}: {error.strerror}") from None
    finally:
        os.close(problem_in)
        os.close(null)
    with open(problem_out, encoding="utf-8", errors="replace") as file:
        problem = file.read().strip()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise ContainmentUnavailable(f"systemd refused the scope: {problem}")
