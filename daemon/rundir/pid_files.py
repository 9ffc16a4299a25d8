"""Claude Code's pid files, `<config dir>/sessions/<pid>.json`: which process writes which session.

They are written in place and removed when the program ends normally. When it is killed, they stay until its next start.
So if a file names no live process, its process has ended. A missing file proves nothing.
"""

import os
import time
from collections.abc import Mapping
from typing import Final

from runward.daemon.configuration.agent_homes import PROJECTS, agent_home
from runward.daemon.processes.identity import (
    ProcessIdentity,
    current_boot_id,
    identity_of,
    seconds_since_start,
    state_of,
)
from runward.daemon.processes.namespaced import number_of
from runward.daemon.rundir.tailing import NotRegular, open_in_run
from runward.handlers.layouts import claude_code
from runward.handlers.layouts.claude_code_pid import PidFile, read_pid_file
from runward.handlers.layouts.scanner import RecordedProcess
from runward.handlers.sessions.observe import ProcessState, together
from runward.handlers.sessions.over import Writer, WriterStatus

SESSIONS: Final = "sessions"

_STATUSES: Final[Mapping[str | None, WriterStatus]] = {"busy": "busy", "idle": "idle", "waiting": "waiting"}
"""What a program says about itself; no transcript says that it waits for a person's permission."""

_LONGEST_START: Final = 60.0
"""The longest time in seconds that a program takes to write its start time; two seconds were seen on two cores."""

_LONGEST_ENVIRONMENT: Final = 1 << 21
_LONGEST_NAMES: Final = 1 << 13

_CLOCKS_DIFFER: Final = 1.0

_MOST_FILES: Final = 10_000
_MOST_BYTES: Final = 64 << 10


def config_directory(transcript: str) -> str | None:
    """Claude Code's directory, from the path of a transcript, if its own program put it there."""
    projects = os.path.dirname(os.path.dirname(transcript))
    return os.path.dirname(projects) if os.path.basename(projects) == PROJECTS else None


def pid_files(config: str) -> Mapping[str, tuple[PidFile, ...]]:
    """The pid files in Claude Code's directory, by session. Half-written ones are left out."""
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
            if read is not None and stem == str(read.pid):
                found[read.session_id] = (*found.get(read.session_id, ()), read)
    return found


def writer_of(files: tuple[PidFile, ...]) -> Writer:
    """What is known about the processes that one session's pid files name; if there are several, a live one counts."""
    found = [_found(each) for each in files]
    liveness = together([state for state, _ in found])
    for file, (state, process) in zip(reversed(files), reversed(found), strict=True):
        if state == liveness:
            status = _STATUSES.get(file.status) if state == "alive" else None
            return Writer(liveness, status, process)
    return Writer(liveness)


def _found(file: PidFile) -> tuple[ProcessState, RecordedProcess | None]:
    """Whether a file's process is alive, and its identity, so that it can be found again.

    The files name no boot, so this one is assumed. If the pid belongs to no process, or to another one, it may be from
    a PID namespace below ours.
    """
    if file.start_ticks is None:
        return _found_by_time(file)
    boot = current_boot_id()
    named = RecordedProcess(file.pid, file.start_ticks, boot)
    state = state_of(ProcessIdentity(*named))
    if state != "gone":
        return state, named
    number = number_of(file.pid, file.start_ticks)
    if number is None:
        return "gone", named
    inner = named._replace(pid=number)
    return state_of(ProcessIdentity(*inner)), inner


def is_claude_code(process: RecordedProcess, config: str) -> bool:
    """Whether a process's own name and environment say that it is Claude Code with this directory.

    Anybody may write a pid file that names any process. What can't be seen counts as no.
    """
    try:
        if not any(_is_its_name(each) for each in _names_of(process.pid)):
            return False
        is_same = os.path.samefile(_directory_of(process.pid), config)
    except (OSError, ValueError):
        return False
    return is_same and state_of(ProcessIdentity(*process)) == "alive"


def _directory_of(pid: int) -> str:
    with open(f"/proc/{pid}/environ", "rb") as file:
        entries = os.fsdecode(file.read(_LONGEST_ENVIRONMENT)).split("\0")
    said = dict(entry.partition("=")[::2] for entry in entries)
    return agent_home(claude_code.LAYOUT, said, said.get("HOME", ""), os.readlink(f"/proc/{pid}/cwd"))


def _names_of(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/comm", "rb") as comm, open(f"/proc/{pid}/cmdline", "rb") as cmdline:
        return [comm.read().strip(), *cmdline.read(_LONGEST_NAMES).split(b"\0")[:2]]


def _is_its_name(word: bytes) -> bool:
    return word.rpartition(b"/")[2] == b"claude" or word.endswith(b"/claude-code/cli.js")


def _found_by_time(file: PidFile) -> tuple[ProcessState, RecordedProcess | None]:
    """The process of a file that names no start in ticks (up to 2.1.101): identified by the start time it gives.

    If another process has its number, the session's process may be in a PID namespace where it can't be found.
    """
    try:
        identity = identity_of(file.pid)
    except ProcessLookupError:
        return "gone", None
    except OSError:
        return "unknown", None
    if file.started_at is not None:
        began_at = time.time() - seconds_since_start(identity)
        if -_CLOCKS_DIFFER <= file.started_at - began_at <= _LONGEST_START:
            return "alive", RecordedProcess(identity.pid, identity.start_ticks, identity.boot_id)
    return "unknown", None


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
