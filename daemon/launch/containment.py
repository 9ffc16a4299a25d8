"""How a run's whole process tree is contained, so that it can be ended completely.

The strongest method comes first: a transient systemd scope, then a cgroup of its own, then the launcher as subreaper,
which it also is with the other two. A command notices none of them. It would notice a PID namespace (agents write down
their own pids), so that is only made on request.
"""

from __future__ import annotations

import os
import signal

from runward.daemon.launch.cgroup import (
    Cgroup,
    ContainmentUnavailable,
    Held,
    check_bus,
    make_cgroup,
    make_scope,
)
from runward.daemon.processes import proc
from runward.daemon.processes.kernel import become_subreaper

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runward.daemon.processes.proc import ProcessStat

_AUTO = ("scope", "cgroup", "subreaper")


def cgroup_ahead(means: str, run: str) -> Cgroup | None:
    """The cgroup in which the command of this run can begin, if its hold will be one.

    To move a process into a cgroup, the kernel waits until all processors have passed a certain point: 10 to 20 ms on an
    idle machine. A process that begins in it costs nothing.
    """
    try:
        if means == "auto" and _has_scopes():
            return None  # systemd moves the command itself
        return make_cgroup(run) if means in ("auto", "cgroup") else None
    except ContainmentUnavailable:
        return None


def _has_scopes() -> bool:
    try:
        check_bus(os.environ)
    except ContainmentUnavailable:
        return False
    return True


def contain(means: str, held: Held) -> Containment:
    """Takes hold of a waiting command. Raises ContainmentUnavailable; only `auto` falls back."""
    candidates = _AUTO if means == "auto" else (means,)
    for candidate in candidates if held.cgroup is None else [each for each in candidates if each != "scope"]:
        try:
            return _MAKERS[candidate](held)
        except ContainmentUnavailable as error:
            reason = str(error)
    raise ContainmentUnavailable(f"--containment {means}: {reason}")


class Containment:
    """A hold on a process tree. `name` is what `run.json` records, `cgroup` the directory of its cgroup, if it has one.

    This one holds nothing: what the command leaves behind keeps running, and only processes still below us are reached.
    """

    name = "none"
    cgroup: str | None = None

    def __init__(self, held: Held) -> None:
        self._others = proc.children() - held.own

    def note_exits(self, exits: Mapping[int, int]) -> None:
        """These children were waited for: from now on their numbers may be those of processes in the tree."""
        self._others -= exits.keys()

    def is_empty(self) -> bool:
        """Whether nothing of the tree is left, once the command was waited for. Not known without a hold."""
        return True

    def terminate(self) -> None:
        """Asks all processes in it to end (SIGTERM)."""
        _terminate(frozenset(proc.descendants(self._others)), proc.is_below)

    def kill(self) -> proc.Killed:
        """Kills all processes in it, and returns when they have ended."""
        return proc.kill_tree(self._others)

    def close(self) -> None:
        """Releases what the hold itself took."""


class Subreaper(Containment):
    """The launcher inherits every orphan below it, so that no process escapes by forking or by setsid(2)."""

    name = "subreaper"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        # Before the command is released, so that no orphan of it can get another parent.
        become_subreaper()

    def is_empty(self) -> bool:
        return proc.children() <= self._others


class InPidNamespace(Subreaper):
    """A PID namespace, which `fork_namespaced_command` made: the command is already in it."""

    name = "pidns"


class InCgroup(Subreaper):
    """A cgroup around it all: it also finds and reaches processes that kills took out of our reach in the tree."""

    name = "cgroup"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._cgroup = self._enter(held)
        self.cgroup = self._cgroup.path

    def _enter(self, held: Held) -> Cgroup:
        cgroup = make_cgroup(held.name) if held.cgroup is None else held.cgroup
        try:
            if not held.is_inside:
                cgroup.admit(held.pid)
        except OSError as error:
            cgroup.remove()
            raise ContainmentUnavailable(f"{cgroup.path}: {error}") from None
        return cgroup

    def is_empty(self) -> bool:
        return super().is_empty() and self._cgroup.is_empty()

    def terminate(self) -> None:
        _terminate(self._cgroup.members() | frozenset(proc.descendants(self._others)), self._is_in_it)

    def _is_in_it(self, stat: ProcessStat) -> bool:
        return proc.is_below(stat) or self._cgroup.has(stat.pid)

    def kill(self) -> proc.Killed:
        # Listed before the kill: afterwards the processes can't be listed.
        members = self._cgroup.members()
        self._cgroup.kill()
        # The cgroup comes first: its kill is one action of the kernel, which no fork can escape. The tree
        # then finds what left the cgroup.
        killed = super().kill()
        left = killed.left | self._cgroup.members()
        return proc.Killed(killed.seen | members, killed.exits, left)

    def close(self) -> None:
        self._cgroup.remove()
        # A launcher that is killed can't remove its own. The next one does it.
        self._cgroup.remove_old_siblings()


class InScope(InCgroup):
    """A transient scope of the user's systemd, which also ends it if the launcher can't."""

    name = "scope"

    def _enter(self, held: Held) -> Cgroup:
        return make_scope(f"runward-{os.urandom(6).hex()}.scope", held, os.environ)

    def close(self) -> None:
        """Nothing: systemd removes an empty scope."""


_MAKERS: Mapping[str, Callable[[Held], Containment]] = {
    "none": Containment,
    "subreaper": Subreaper,
    "cgroup": InCgroup,
    "scope": InScope,
    "pidns": InPidNamespace,
}

METHODS = ("auto", *_MAKERS)
"""The methods by their names."""


def _terminate(pids: frozenset[int], is_meant: Callable[[ProcessStat], bool]) -> None:
    # One that is not our child may have died since it was listed, and its number be another's.
    for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process can't answer
        for pid in pids:
            proc.signal_meant(pid, number, is_meant)
