"""What the machine knows of recorded processes."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from runward.daemon.launch.ticket import TicketState, ticket_state
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered, end_tree, tell_to_end
from runward.daemon.processes.proc import (
    ProcessIdentity,
    booted_at,
    current_boot_id,
    descriptor_of,
    seconds_since_start,
)
from runward.daemon.processes.whereabouts import ShownProcesses, launcher_of
from runward.handlers.model.processes import ProcessState, RecordedProcess, RunPlace, Whereabouts
from runward.handlers.model.sessions import RunProcesses
from runward.handlers.sessions.over import WriterOf

if TYPE_CHECKING:  # commands that only look at processes needn't load playbooks
    from runward.handlers.model.invocations import StartRun
    from runward.handlers.model.sessions import RunLaunched


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that was ordered has begun, now or earlier: its `run.json` exists, and its command may have run.

    `at` is when its command was released (Unix seconds), if that was now.
    """

    at: float | None = field(default=None, compare=False, repr=False)


class Channel(Protocol):
    """What connects the daemon with a launcher that it started."""

    def acknowledge(self) -> None:
        """Say that the launch is recorded durably. The launcher then releases its command."""
        ...

    async def ended(self) -> None:
        """Wait until the launcher says that its run is over, or can't say anything any more."""
        ...

    async def freed(self) -> None:
        """Wait until the launcher takes another order, or never will."""
        ...

    def close(self) -> None: ...


class Announced(NamedTuple):
    """A launcher is about to begin a run: it waits on `channel` until its `launch` is recorded, but not for long.

    Nothing that its command writes is older than `at` (Unix seconds).
    """

    launch: "RunLaunched"
    at: float
    channel: Channel


class NotBegun(NamedTuple):
    """A run that was ordered has not begun. `for_good` means that it never can."""

    why: str
    for_good: bool = False


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

    def tell_to_end(self, processes: RunProcesses, place: RunPlace) -> EndOrdered | EndNotOrdered: ...

    def end_tree(self, processes: RunProcesses, directory: str) -> EndOrdered | EndNotOrdered:
        """Kill what is in a run's cgroup, its launcher and command, and all that descends from them, or says that it is of
        this directory.
        """
        ...

    def age(self, process: RecordedProcess) -> float | None:
        """Seconds since this process started, whether or not it is alive; None if it is from another boot."""
        ...

    def start(self, order: "StartRun", epoch: int) -> Begun | Announced | NotBegun: ...

    def expect_start(self, epoch: int) -> None:
        """Runs are about to be started: get ready for them. Raises OSError."""
        ...

    def forget_starts(self, owed: Collection[str]) -> None: ...

    def remove_worktree(self, name: str, repo: str) -> str | NotRemoved | None:
        """Remove the worktree of the run of this name, if it is there; what is left to do if `repo` may still list it."""
        ...


class RealProcesses(ShownProcesses):
    """What /proc knows of recorded processes. `state` is the state directory in which launchers hold their tickets."""

    def __init__(self, state: Path | None = None) -> None:
        super().__init__()
        self._tickets = state

    def boot_id(self) -> str:
        try:
            return current_boot_id()
        except OSError:
            return ""

    def booted_at(self) -> float | None:
        return booted_at()

    def descriptor(self, process: RecordedProcess) -> int | None:
        return descriptor_of(ProcessIdentity(process.pid, process.start_ticks, process.boot_id))

    def writers(self) -> WriterOf:
        from runward.daemon.rundir.liveness import Writers  # imports layouts: only foreign sessions need it

        return Writers().writer

    def launcher_of(self, process: RecordedProcess, layout: str, path: str) -> str | None:
        from runward.daemon.rundir.liveness import says_so

        return launcher_of(process) if says_so(process, layout, path) else None

    def state(self, process: RecordedProcess) -> ProcessState:
        state = super().state(process)
        if state == "alive" and process.ticket and self._tickets is not None:
            # Where no ticket can be asked, what the process itself shows counts.
            with suppress(OSError):
                if ticket_state(self._tickets, process.ticket) is TicketState.FREE:
                    return "gone"
        return state

    def _is_of_run(self, recorded: RecordedProcess) -> bool:
        """Whether a recorded process may be told or killed because of that run. Raises OSError if that can't be known now."""
        if not recorded.ticket:
            return True
        return self._tickets is not None and ticket_state(self._tickets, recorded.ticket) is TicketState.HELD

    def end_tree(self, processes: RunProcesses, directory: str) -> EndOrdered | EndNotOrdered:
        in_cgroup = 0 if processes.cgroup is None else _end_in_cgroup(processes.cgroup)
        answer = end_tree(processes, directory, self._is_of_run)
        if not in_cgroup:
            return answer
        others = f", and {answer.who}" if isinstance(answer, EndOrdered) else ""
        return EndOrdered(f"{in_cgroup} processes in its cgroup were killed{others}")

    def age(self, process: RecordedProcess) -> float | None:
        if process.boot_id != self.boot_id():
            return None
        return seconds_since_start(ProcessIdentity(process.pid, process.start_ticks, process.boot_id))

    def tell_to_end(self, processes: RunProcesses, place: RunPlace) -> EndOrdered | EndNotOrdered:
        launcher = processes.launcher
        if launcher is not None and not self._is_of_run(launcher):
            processes = replace(processes, launcher=None)
        return tell_to_end(processes, place)


def _end_in_cgroup(path: str) -> int:
    from runward.daemon.launch.cgroup import end_run_in  # few runs are ended by the daemon

    return end_run_in(path)
