"""Claude Code's pid files, `<config dir>/sessions/<pid>.json`: which process writes which session.

They are written in place and removed when the program ends normally. When it is killed, they stay until its next start.
A missing file proves nothing. If a file's process can't be found, it may also be on another machine that shares the home,
or in another PID namespace: so what this machine can say about that is reported with it (see `handlers/sessions/death`).
"""

import os
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from runward.daemon.configuration.agent_homes import PROJECTS, agent_home
from runward.daemon.disk.mounts import is_local
from runward.daemon.processes.identity import (
    ProcessIdentity,
    current_boot_id,
    identity_of,
    pid_namespace,
    seconds_since_start,
    state_of,
)
from runward.daemon.processes.namespaced import NotThere, number_of
from runward.daemon.rundir.tailing import NotRegular, open_in_run
from runward.handlers.layouts import claude_code
from runward.handlers.layouts.claude_code_pid import PidFile, read_pid_file
from runward.handlers.model.processes import FIRST_NAMESPACE, NO_TICKS, RecordedProcess
from runward.handlers.sessions.death import Absence
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


class _Found(NamedTuple):
    """Whether a file's process is alive, and its identity, so that it can be found again.

    `named` is what the file calls it. `is_nowhere`: no process of this machine has that start with that number.
    """

    state: ProcessState
    process: RecordedProcess | None
    named: RecordedProcess
    is_nowhere: bool = False


def named_by(files: Iterable[PidFile]) -> frozenset[RecordedProcess]:
    """The processes that these files name, as they name them."""
    boot = current_boot_id()
    return frozenset(RecordedProcess(each.pid, each.start_ticks or NO_TICKS, boot) for each in files)


def writer_of(files: tuple[PidFile, ...], config: str) -> Writer:
    """What is known about the processes that one session's pid files name; if there are several, a live one counts."""
    found = [_found(each) for each in files]
    liveness = together([each.state for each in found])
    absence = None
    if liveness == "gone":
        absence = Absence(
            tuple(each.named for each in found),
            is_in_first_namespace=pid_namespace() == FIRST_NAMESPACE,
            is_local=is_local(config),
            is_nowhere=all(each.is_nowhere for each in found),
        )
    for file, each in zip(reversed(files), reversed(found), strict=True):
        if each.state == liveness:
            status = _STATUSES.get(file.status) if each.state == "alive" else None
            return Writer(liveness, status, each.process, absence)
    return Writer(liveness)


def _found(file: PidFile) -> _Found:
    """The process of a file. The files name no boot, so this one is assumed.

    If the pid belongs to no process, or to another one, it may be from a PID namespace below ours.
    """
    if file.start_ticks is None:
        return _found_by_time(file)
    boot = current_boot_id()
    named = RecordedProcess(file.pid, file.start_ticks, boot)
    state = state_of(ProcessIdentity(*named))
    if state != "gone":
        return _Found(state, named, named)
    number = number_of(file.pid, file.start_ticks)
    if isinstance(number, NotThere):
        return _Found("gone", named, named, number.is_certain)
    inner = named._replace(pid=number)
    state = state_of(ProcessIdentity(*inner))
    # One that is found and has ended is a zombie.
    return _Found(state, inner, named, is_nowhere=state == "gone")


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


def _found_by_time(file: PidFile) -> _Found:
    """The process of a file that names no start in ticks (up to 2.1.101): identified by the start time it gives.

    If another process has its number, the session's process may be in a PID namespace where it can't be found.
    """
    named = RecordedProcess(file.pid, NO_TICKS, current_boot_id())
    try:
        identity = identity_of(file.pid)
    except ProcessLookupError:
        number = number_of(file.pid, None)
        return _Found("gone", None, named, isinstance(number, NotThere) and number.is_certain)
    except OSError:
        return _Found("unknown", None, named)
    if file.started_at is not None:
        began_at = time.time() - seconds_since_start(identity)
        if -_CLOCKS_DIFFER <= file.started_at - began_at <= _LONGEST_START:
            return _Found(
                "alive", RecordedProcess(identity.pid, identity.start_ticks, identity.boot_id), named
            )
    return _Found("unknown", None, named)


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
