"""The interfaces between parts of the launcher. Only type checkers import this: it needs `typing`."""

from typing import Protocol

from runward.daemon.processes.tree import Killed


class Containment(Protocol):
    """A hold on a process tree. `name` is what `run.json` records, `cgroup` the directory of its cgroup, if it has one."""

    name: str
    cgroup: str | None

    def is_empty(self) -> bool:
        """Whether nothing of the tree is left, once the command was waited for."""

    def terminate(self) -> None:
        """Asks all processes in it to end (SIGTERM)."""

    def kill(self) -> Killed:
        """Kills all processes in it, and returns when they have ended."""

    def close(self) -> None:
        """Releases what the hold itself took."""


class Sink(Protocol):
    """Where output is passed on to."""

    descriptor: int

    def write(self, content: bytes) -> int:
        """How much of it was taken. Raises BlockingIOError for nothing, and OSError where nobody reads."""
