"""Where processes are: this host, their numbers in PID namespaces below ours, and what they descend from."""

import os
from typing import Final, NamedTuple

from runward.daemon.processes.proc import ProcessIdentity, current_boot_id, pid_namespace, read_stat, state_of
from runward.handlers.model.processes import ProcessState, RecordedProcess, Whereabouts, host_with_namespace

MOST_ANCESTORS: Final = 16
VARIABLE: Final = b"RUNWARD_SESSION_ID="
"""The variable that the launcher gives its command and that descendants inherit (see `launch.py`)."""

_MAXIMUM_ENVIRONMENT: Final = 1 << 21
"""Bytes of an environment that are read; the kernel allows a quarter of the stack's limit, usually 2 MiB."""

_LONGEST_ID: Final = 1000


def launcher_of(process: RecordedProcess) -> str | None:
    """The id of the session whose launcher started the process, as its environment says.

    None if it says nothing, or if that can't be determined: the process has ended or is another user's, or its number is
    now another process's."""
    if not _is_still(process):
        return None
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            environment = file.read(_MAXIMUM_ENVIRONMENT)
    except OSError:
        return None
    if not _is_still(process):
        return None
    for entry in environment.split(b"\0"):
        if entry.startswith(VARIABLE):
            session = entry.removeprefix(VARIABLE).decode(errors="replace")
            return session if 0 < len(session) <= _LONGEST_ID else None
    return None


def ancestors(pid: int) -> tuple[RecordedProcess, ...]:
    """The processes that `pid` descends from, its parent first, at most `MOST_ANCESTORS`, as far as can be seen."""
    boot = current_boot_id()
    processes: list[RecordedProcess] = []
    while len(processes) < MOST_ANCESTORS:
        try:
            parent = read_stat(pid).parent
            if parent <= 0:
                break
            processes.append(RecordedProcess(parent, read_stat(parent).start_ticks, boot))
        except OSError:
            break
        pid = parent
    return tuple(processes)


def _is_still(process: RecordedProcess) -> bool:
    try:
        return (
            process.boot_id == current_boot_id() and read_stat(process.pid).start_ticks == process.start_ticks
        )
    except OSError:
        return False


_NUMBERS: Final = b"NSpid:"
"""The line of /proc/PID/status with the process's number in each namespace, ours first."""


class NotThere(NamedTuple):
    """No process has this number and start. `is_certain`: all processes of this namespace and those below were seen."""

    is_certain: bool


def number_of(inner: int, start_ticks: int | None, *, proc: str = "/proc") -> int | NotThere:
    """Our number of the process that is called `inner` in a namespace below ours.

    Start times are the whole machine's, so the two together identify one process. Without a start, `inner` alone is
    looked for.
    """
    names = [name for name in os.listdir(proc) if name.isascii() and name.isdigit()]
    # Where /proc hides other people's processes, the first one is hidden, too, or can't be read.
    is_certain = "1" in names
    for name in names:
        try:
            is_it = start_ticks is None or read_stat(int(name), proc).start_ticks == start_ticks
            if is_it and inner in _inner_numbers(name, proc):
                return int(name)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        except OSError:
            is_certain = False
    return NotThere(is_certain)


def _inner_numbers(name: str, proc: str) -> list[int]:
    with open(f"{proc}/{name}/status", "rb") as file:
        for line in file:
            if line.startswith(_NUMBERS):
                return [int(each) for each in line.split()[2:]]
    return []


_MACHINE_ID: Final = "/etc/machine-id"
_LENGTH: Final = 32
"""The characters of a machine id (machine-id(5)); a file without one says `uninitialized`, or is empty."""


def own_host() -> str:
    """This host with our PID namespace in it."""
    return host_with_namespace(os.uname().nodename, pid_namespace()) or ""


def own_whereabouts() -> Whereabouts:
    """Where the numbers are valid by which we know processes. What can't be read is left empty."""
    return Whereabouts(_machine_id(), _boot_id(), pid_namespace())


def _machine_id() -> str:
    try:
        with open(_MACHINE_ID, "rb") as file:
            identifier = file.read(_LENGTH + 1).strip().decode(errors="replace")
    except OSError:
        return ""
    return identifier if len(identifier) == _LENGTH else ""


def _boot_id() -> str:
    try:
        return current_boot_id()
    except OSError:
        return ""


class ShownProcesses:
    """What /proc alone shows of processes that were recorded by number, start and boot. Lists ask it, too."""

    def __init__(self) -> None:
        self._host = own_host()
        self._whereabouts = own_whereabouts()

    def host(self) -> str:
        """This host, with the PID namespace that the numbers are valid in."""
        return self._host

    def whereabouts(self) -> Whereabouts:
        """Where the numbers are valid by which processes are known here."""
        return self._whereabouts

    def state(self, process: RecordedProcess) -> ProcessState:
        """Whether exactly this process is alive."""
        return state_of(ProcessIdentity(process.pid, process.start_ticks, process.boot_id))

    def is_nowhere(self, process: RecordedProcess) -> bool:
        """Whether no process of the machine has that start with that number in any PID namespace."""
        number = number_of(process.pid, process.start_ticks)
        return isinstance(number, NotThere) and number.is_certain
