"""By what means a run's whole process tree is held together, so that its end is the end of all of it."""

import signal
from typing import Protocol

from runward.daemon.processes import tree
from runward.daemon.processes.kernel import become_subreaper

MEANS = ("auto", "none", "subreaper", "cgroup", "scope", "pidns")


class ContainmentUnavailable(Exception):
    """The means that was asked for can't be had on this machine; the message says why."""


class Containment(Protocol):
    """A hold on a process tree. `name` is what `run.json` records."""

    name: str

    def admit(self, pid: int) -> None:
        """Takes in the command before it runs. Raises ContainmentUnavailable."""

    def is_empty(self) -> bool:
        """Whether nothing of the tree is left, once the command was waited for."""

    def terminate(self) -> None:
        """Asks everybody in it to end (SIGTERM)."""

    def kill(self) -> tree.Killed:
        """Ends everybody in it, and returns when they are gone."""

    def close(self) -> None:
        """Gives back what the hold itself took."""


class Uncontained:
    """No hold: what the command left behind lives on, and only what is still below us is reached."""

    name = "none"

    def __init__(self) -> None:
        self._others = tree.children()

    def admit(self, pid: int) -> None:
        """See `Containment`."""

    def is_empty(self) -> bool:
        """See `Containment`: what is left is not ours to judge."""
        return True

    def terminate(self) -> None:
        """See `Containment`."""
        tree.signal_tree(signal.SIGTERM, self._others)
        tree.signal_tree(signal.SIGCONT, self._others)

    def kill(self) -> tree.Killed:
        """See `Containment`."""
        return tree.kill_tree(self._others)

    def close(self) -> None:
        """See `Containment`."""


class Subreaper(Uncontained):
    """The launcher inherits every orphan below it, so that nobody gets away by forking or by setsid(2)."""

    name = "subreaper"

    def __init__(self) -> None:
        super().__init__()
        become_subreaper()

    def is_empty(self) -> bool:
        """See `Containment`."""
        return tree.children() <= self._others


def choose_containment(means: str) -> Containment:
    """The containment for a `--containment` option. Raises ContainmentUnavailable; only `auto` falls back."""
    if means == "none":
        return Uncontained()
    if means in ("auto", "subreaper"):
        return Subreaper()
    raise ContainmentUnavailable(f"--containment {means} is not available")
