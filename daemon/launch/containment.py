"""How a run's whole process tree is contained, so that it can be ended completely.

The strongest method comes first: a transient systemd scope, then a cgroup of its own, then the launcher as subreaper,
which it also is with the other two. A command notices none of them. It would notice a PID namespace (agents write down
their own pids), so that is only made on request.
"""

from __future__ import annotations

import os
import signal

from runward.daemon.launch.containment_methods import ContainmentUnavailable, Held
from runward.daemon.processes import tree
from runward.daemon.processes.kernel import become_subreaper

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runward.daemon.launch.cgroup import Cgroup
    from runward.daemon.launch.protocols import Containment


_AUTO = ("scope", "cgroup", "subreaper")


def contain(means: str, held: Held) -> Containment:
    """Takes hold of a waiting command. Raises ContainmentUnavailable; only `auto` falls back."""
    for candidate in _AUTO if means == "auto" else (means,):
        try:
            return _MAKERS[candidate](held)
        except ContainmentUnavailable as error:
            reason = str(error)
    raise ContainmentUnavailable(f"--containment {means}: {reason}")


class Uncontained:
    """No hold: what the command leaves behind keeps running, and only processes still below us are reached."""

    name = "none"
    cgroup: str | None = None

    def __init__(self, held: Held) -> None:
        self._others = tree.children() - held.own

    def is_empty(self) -> bool:
        """See `Containment`: remaining processes can't be judged here."""
        return True

    def terminate(self) -> None:
        """See `Containment`."""
        _terminate(frozenset(tree.descendants(self._others)))

    def kill(self) -> tree.Killed:
        """See `Containment`."""
        return tree.kill_tree(self._others)

    def close(self) -> None:
        """See `Containment`."""


class Subreaper(Uncontained):
    """The launcher inherits every orphan below it, so that no process escapes by forking or by setsid(2)."""

    name = "subreaper"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        become_subreaper()

    def is_empty(self) -> bool:
        """See `Containment`."""
        return tree.children() <= self._others


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
        from runward.daemon.launch.cgroup import PREFIX, make_cgroup

        return make_cgroup(f"{PREFIX}{held.name[:50]}-{os.urandom(3).hex()}", held.pid)

    def is_empty(self) -> bool:
        """See `Containment`."""
        return super().is_empty() and self._cgroup.is_empty()

    def terminate(self) -> None:
        """See `Containment`."""
        _terminate(self._cgroup.members() | frozenset(tree.descendants(self._others)))

    def kill(self) -> tree.Killed:
        """See `Containment`."""
        members = self._cgroup.members()
        self._cgroup.kill()
        killed = super().kill()
        left = killed.left | self._cgroup.members()
        return tree.Killed(killed.found | members, killed.exits, left)

    def close(self) -> None:
        """See `Containment`."""
        self._cgroup.remove()
        self._cgroup.remove_old_siblings()


class InScope(InCgroup):
    """A transient scope of the user's systemd, which also ends it if the launcher can't."""

    name = "scope"

    def _enter(self, held: Held) -> Cgroup:
        from runward.daemon.launch.cgroup import make_scope

        return make_scope(f"runward-{os.urandom(6).hex()}.scope", held, os.environ)

    def close(self) -> None:
        """See `Containment`: systemd removes an empty scope."""


_MAKERS: Mapping[str, Callable[[Held], Containment]] = {
    "none": Uncontained,
    "subreaper": Subreaper,
    "cgroup": InCgroup,
    "scope": InScope,
    "pidns": InPidNamespace,
}


def _terminate(pids: frozenset[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process can't answer
        for pid in pids:
            tree.send_signal(pid, number)
