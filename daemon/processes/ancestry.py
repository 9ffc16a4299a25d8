"""Which processes a process descends from, and in which launcher's run it was started, as /proc shows it."""

from typing import Final

from runward.daemon.processes.identity import current_boot_id, read_stat
from runward.handlers.model.processes import RecordedProcess

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
    found: list[RecordedProcess] = []
    while len(found) < MOST_ANCESTORS:
        try:
            parent = read_stat(pid).parent
            if parent <= 0:
                break
            found.append(RecordedProcess(parent, read_stat(parent).start_ticks, boot))
        except OSError:
            break
        pid = parent
    return tuple(found)


def _is_still(process: RecordedProcess) -> bool:
    try:
        return (
            process.boot_id == current_boot_id() and read_stat(process.pid).start_ticks == process.start_ticks
        )
    except OSError:
        return False
