"""The processes port on a real machine, its clock, and its source of tokens."""

import os
import time

from runward.daemon.launch.cgroup import end_run_in
from runward.daemon.ports.processes import NotTold, RunPlace, Told, WriterOf
from runward.daemon.processes.ending_runs import end_tree, tell_to_end
from runward.daemon.processes.identity import (
    ProcessIdentity,
    booted_at,
    current_boot_id,
    descriptor_of,
    seconds_since_start,
    state_of,
)
from runward.daemon.processes.whereabouts import NotThere, launcher_of, number_of, own_host, own_whereabouts
from runward.daemon.rundir.liveness import Writers, says_so
from runward.handlers.model.processes import ProcessState, RecordedProcess, Whereabouts
from runward.handlers.model.sessions import RunProcesses


class RealProcesses:
    """What /proc knows of recorded processes."""

    def __init__(self) -> None:
        self._host = own_host()
        self._whereabouts = own_whereabouts()

    def host(self) -> str:
        return self._host

    def whereabouts(self) -> Whereabouts:
        return self._whereabouts

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
        return Writers().writer

    def launcher_of(self, process: RecordedProcess, layout: str, path: str) -> str | None:
        return launcher_of(process) if says_so(process, layout, path) else None

    def state(self, process: RecordedProcess) -> ProcessState:
        return state_of(ProcessIdentity(process.pid, process.start_ticks, process.boot_id))

    def end_tree(self, processes: RunProcesses, directory: str) -> Told | NotTold:
        in_cgroup = 0 if processes.cgroup is None else end_run_in(processes.cgroup)
        answer = end_tree(processes, directory)
        if not in_cgroup:
            return answer
        others = f", and {answer.who}" if isinstance(answer, Told) else ""
        return Told(f"{in_cgroup} processes in its cgroup were killed{others}")

    def is_nowhere(self, process: RecordedProcess) -> bool:
        found = number_of(process.pid, process.start_ticks)
        return isinstance(found, NotThere) and found.is_certain

    def age(self, process: RecordedProcess) -> float | None:
        if process.boot_id != self.boot_id():
            return None
        return seconds_since_start(ProcessIdentity(process.pid, process.start_ticks, process.boot_id))

    def tell_to_end(self, processes: RunProcesses, place: RunPlace) -> Told | NotTold:
        return tell_to_end(processes, place)


class SystemClock:
    """Wall time, and the time since boot with suspends, which no clock step touches."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class SystemRandomness:
    """Tokens that nobody can guess."""

    def token(self) -> str:
        return os.urandom(8).hex()
