"""The port to processes: what the machine knows of recorded ones, and runs to be started or ended."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:  # commands that only ask the store needn't load the scanners of all layouts
    from runward.handlers.model.processes import ProcessState, RecordedProcess, Whereabouts
    from runward.handlers.model.sessions import RunProcesses
    from runward.handlers.model.starts import StartRun
    from runward.handlers.sessions.over import Writer


class RunPlace(NamedTuple):
    """A run directory as it is: its owner's uid, which one it is, and why no note could be left in it."""

    owner: int
    device: int
    inode: int
    problem: str | None = None


class Told(NamedTuple):
    """A process got the order to end; `who` says which."""

    who: str


class NotTold(NamedTuple):
    """No process could get the order to end, and asking again changes nothing.

    `too_late`: because nothing is left of the run, perhaps due to an earlier try.
    """

    why: str
    too_late: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that was ordered has begun, now or earlier: its `run.json` exists, and its command may have run.

    `at` is when its command was released (Unix seconds), if that was now.
    """

    at: float | None = field(default=None, compare=False, repr=False)


class NotBegun(NamedTuple):
    """A run that was ordered has not begun. `for_good` means that it never can."""

    why: str
    for_good: bool = False


WriterOf: TypeAlias = "Callable[[str, str, str], Writer]"
"""What is known now of the process that writes a session: by its layout, the path of its log or directory, and its id."""


class NotRemoved(NamedTuple):
    """A worktree could not be removed, but another try may succeed."""

    why: str


class Processes(Protocol):
    """What the machine knows of processes that were recorded by pid, start time and boot; and runs to be started."""

    def host(self) -> str: ...

    def whereabouts(self) -> Whereabouts:
        """Where the numbers are valid by which processes are known here."""
        ...

    def boot_id(self) -> str:
        """The name of this boot of the machine; empty if this user may not know it."""
        ...

    def booted_at(self) -> float | None:
        """When this machine started (Unix seconds); None if this user may not know."""
        ...

    def state(self, process: RecordedProcess) -> ProcessState: ...

    def is_nowhere(self, process: RecordedProcess) -> bool:
        """Whether no process of the machine has that start with that number in any PID namespace."""
        ...

    def descriptor(self, process: RecordedProcess) -> int | None:
        """A descriptor that becomes readable when this process ends; the caller closes it. None if there is none."""
        ...

    def writers(self) -> WriterOf:
        """Looks up writers during one batch of looks: what is read for one session isn't read again for the next."""
        ...

    def launcher_of(self, process: RecordedProcess, layout: str, path: str) -> str | None:
        """The id of the launcher's session in which the process was started that writes the session at `path`.

        None if that is not known, or if only others say that the process writes that session.
        """
        ...

    def tell_to_end(self, processes: RunProcesses, place: RunPlace) -> Told | NotTold: ...

    def end_tree(self, processes: RunProcesses, directory: str) -> Told | NotTold:
        """Kill what is in a run's cgroup, its launcher and command, and all that descends from them, or says that it is of
        this directory.
        """
        ...

    def age(self, process: RecordedProcess) -> float | None:
        """Seconds since this process started, whether or not it is alive; None if it is from another boot."""
        ...

    def start(self, order: StartRun, epoch: int) -> Begun | NotBegun: ...

    def expect_start(self, epoch: int) -> None:
        """A run was started, so another one may follow soon: get ready for it. Raises OSError."""
        ...

    def forget_starts(self, owed: Collection[str]) -> None: ...

    def remove_worktree(self, name: str, repo: str) -> str | NotRemoved | None:
        """Remove the worktree of the run of this name, if it is there; what is left to do if `repo` may still list it."""
        ...
