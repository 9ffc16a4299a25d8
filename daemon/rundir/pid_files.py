"""Claude Code's pid files, `<config dir>/sessions/<pid>.json`: which process writes which session.

They are written in place, go away when the program ends in order, and stay behind when it is killed, until its next
start. So a file that points to nobody says that its process is gone, and no file says nothing.
"""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.daemon.processes.identity import ProcessIdentity, current_boot_id, state_of
from runward.daemon.rundir.tailing import NotRegular, open_in_run
from runward.handlers.layouts.claude_code_pid import PidFile, read_pid_file
from runward.handlers.sessions.observe import ProcessState, together
from runward.handlers.sessions.over import Liveness

SESSIONS: Final = "sessions"
PROJECTS: Final = "projects"
WAITING: Final = "waiting"
"""The status of a program that asks the person before it for leave to go on, of which the transcript says nothing."""

_MOST_FILES: Final = 10_000
_MOST_BYTES: Final = 64 << 10


class Writer(NamedTuple):
    """The process that writes a session: whether it lives, and whether it says that it waits for a person."""

    liveness: Liveness
    is_waiting: bool = False


def config_directory(transcript: str) -> str | None:
    """Claude Code's directory, from the path of a transcript where its own program put it."""
    projects = os.path.dirname(os.path.dirname(transcript))
    return os.path.dirname(projects) if os.path.basename(projects) == PROJECTS else None


def pid_files(config: str) -> Mapping[str, tuple[PidFile, ...]]:
    """The pid files in Claude Code's directory, by session. What is half written is left out."""
    found: dict[str, tuple[PidFile, ...]] = {}
    directory = f"{config}/{SESSIONS}"
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for _, entry in zip(range(_MOST_FILES), entries, strict=False)]
    except OSError:
        return found
    for name in sorted(names):
        stem, dot, kind = name.partition(".")
        if stem.isascii() and stem.isdigit() and dot and kind == "json":
            read = _read(directory, name)
            if read is not None:
                found[read.session_id] = (*found.get(read.session_id, ()), read)
    return found


def writer_of(files: tuple[PidFile, ...]) -> Writer:
    """What is known of the processes that the pid files of one session name."""
    states = [_state(each) for each in files]
    waits = any(
        each.status == WAITING and state == "alive" for each, state in zip(files, states, strict=True)
    )
    return Writer(together(states), waits)


def _state(file: PidFile) -> ProcessState:
    if file.start_ticks is not None:
        return state_of(ProcessIdentity(file.pid, file.start_ticks, current_boot_id()))
    return "unknown" if os.path.exists(f"/proc/{file.pid}") else "gone"


def _read(directory: str, name: str) -> PidFile | None:
    try:
        descriptor = open_in_run(directory, name)
    except (OSError, NotRegular):
        return None
    try:
        content = os.read(descriptor, _MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return read_pid_file(content)
