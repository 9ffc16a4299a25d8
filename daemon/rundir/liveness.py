"""Whether the process that writes a foreign session is alive, as far as the tool's own files name it."""

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from runward.daemon.configuration.agent_homes import PROJECTS, agent_home
from runward.daemon.disk.file_systems import is_local
from runward.daemon.processes.kernels_locks import flock_holders
from runward.daemon.processes.proc import (
    ProcessIdentity,
    current_boot_id,
    identity_of,
    pid_namespace,
    seconds_since_start,
    state_of,
)
from runward.daemon.processes.whereabouts import NotThere, number_of
from runward.daemon.rundir.opening import NotRegular, held, open_in_run
from runward.daemon.rundir.session_files import LARGEST_DOCUMENT
from runward.handlers.layouts import claude_code, cline, codex, copilot
from runward.handlers.layouts.claude_code import PidFile, read_pid_file
from runward.handlers.layouts.codex_records import LOCKS, lock_of
from runward.handlers.model.processes import FIRST_NAMESPACE, NO_TICKS, ProcessState, RecordedProcess
from runward.handlers.sessions.observe import together
from runward.handlers.sessions.over import Absence, Writer, WriterStatus

NOBODY_KNOWS: Final = Writer("unknown")


class Writers:
    """The writers of sessions. Claude Code's pid files, and Codex's locks, are read once for each directory, and then cached."""

    def __init__(self) -> None:
        self._pid_files: dict[str, Mapping[str, tuple[PidFile, ...]]] = {}
        self._named: dict[str, frozenset[RecordedProcess]] = {}
        """The processes that the pid files, or the locks, of each directory name."""

    def writer(self, layout: str, path: str, session_id: str) -> Writer:
        """What is known about the writer of the session whose log is at `path`."""
        ask = _ASK.get(layout)
        return NOBODY_KNOWS if ask is None else ask(self, path, session_id)

    def _of_claude_code(self, path: str, session_id: str) -> Writer:
        config = config_directory(path)
        if config is None:
            return NOBODY_KNOWS
        if config not in self._pid_files:
            self._pid_files[config] = by_session = pid_files(config)
            self._named[config] = named_by(each for files in by_session.values() for each in files)
        if session_id not in self._pid_files[config]:
            return Writer("unknown", elsewhere=self._named[config])
        return claude_code_writer(self._pid_files[config][session_id], config)

    def _of_codex(self, path: str, session_id: str) -> Writer:
        home, lock = home_directory(path), lock_of(session_id)
        if home is None or lock is None:
            return NOBODY_KNOWS
        if os.path.lexists(f"{home}/{lock}"):
            return codex_writer(home, session_id)
        # A process that has others, but not this one, has let it go: an app-server hosts several.
        if home not in self._named:
            self._named[home] = lock_holders(f"{home}/{LOCKS}")
        return Writer("unknown", elsewhere=self._named[home])

    def _of_copilot(self, path: str, session_id: str) -> Writer:
        return copilot_writer(path)

    def _of_cline(self, path: str, session_id: str) -> Writer:
        return cline_writer(path)


def says_so(process: RecordedProcess, layout: str, path: str) -> bool:
    """Whether the process itself shows that it takes part in the session.

    A lock proves that, because its holder took it. A pid file doesn't, because anybody may write one.
    """
    if layout != claude_code.LAYOUT:
        return True
    config = config_directory(path)
    return config is not None and is_claude_code(process, config)


_ASK: Final[Mapping[str, Callable[[Writers, str, str], Writer]]] = {
    claude_code.LAYOUT: Writers._of_claude_code,
    codex.LAYOUT: Writers._of_codex,
    copilot.LAYOUT: Writers._of_copilot,
    cline.LAYOUT: Writers._of_cline,
}


# Claude Code's pid files, `<config dir>/sessions/<pid>.json`, say which process writes which session. They are written in
# place and removed when the program ends normally. When it is killed, they stay until its next start. A missing file
# proves nothing. If a file's process can't be found, it may also be on another machine that shares the home, or in
# another PID namespace: so what this machine can say about that is reported with it (see `handlers/sessions/death`).
PID_FILES: Final = "sessions"

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
    by_session: dict[str, tuple[PidFile, ...]] = {}
    directory = f"{config}/{PID_FILES}"
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for _, entry in zip(range(_MOST_FILES), entries, strict=False)]
    except OSError:
        return by_session
    for name in sorted(names):
        stem, dot, kind = name.partition(".")
        if stem.isascii() and stem.isdigit() and dot and kind == "json":
            read = _read(directory, name)
            if read is not None and stem == str(read.pid):
                by_session[read.session_id] = (*by_session.get(read.session_id, ()), read)
    return by_session


class _Process(NamedTuple):
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


def claude_code_writer(files: tuple[PidFile, ...], config: str) -> Writer:
    """What is known about the processes that one session's pid files name; if there are several, a live one counts."""
    processes = [_process_of(each) for each in files]
    liveness = together([each.state for each in processes])
    absence = None
    if liveness == "gone":
        absence = Absence(
            tuple(each.named for each in processes),
            is_in_first_namespace=pid_namespace() == FIRST_NAMESPACE,
            is_local=is_local(config),
            is_nowhere=all(each.is_nowhere for each in processes),
        )
    for file, each in zip(reversed(files), reversed(processes), strict=True):
        if each.state == liveness:
            status = _STATUSES.get(file.status) if each.state == "alive" else None
            asks = file.waiting_for if status == "waiting" else None
            return Writer(liveness, status, each.process, absence, asks=asks)
    return Writer(liveness)


def _process_of(file: PidFile) -> _Process:
    """The process of a file. The files name no boot, so this one is assumed.

    If the pid belongs to no process, or to another one, it may be from a PID namespace below ours.
    """
    if file.start_ticks is None:
        return _process_by_time(file)
    # A pid alone proves nothing: numbers are used again. Together with its start in ticks it is unique within a boot.
    boot = current_boot_id()
    named = RecordedProcess(file.pid, file.start_ticks, boot)
    state = state_of(ProcessIdentity(*named[:3]))
    if state != "gone":
        return _Process(state, named, named)
    number = number_of(file.pid, file.start_ticks)
    if isinstance(number, NotThere):
        return _Process("gone", named, named, number.is_certain)
    inner = named._replace(pid=number)
    state = state_of(ProcessIdentity(*inner[:3]))
    # One that is found and has ended is a zombie.
    return _Process(state, inner, named, is_nowhere=state == "gone")


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
    return is_same and state_of(ProcessIdentity(*process[:3])) == "alive"


def _directory_of(pid: int) -> str:
    with open(f"/proc/{pid}/environ", "rb") as file:
        entries = os.fsdecode(file.read(_LONGEST_ENVIRONMENT)).split("\0")
    environment = dict(entry.partition("=")[::2] for entry in entries)
    return agent_home(
        claude_code.LAYOUT, environment, environment.get("HOME", ""), os.readlink(f"/proc/{pid}/cwd")
    )


def _names_of(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/comm", "rb") as comm, open(f"/proc/{pid}/cmdline", "rb") as cmdline:
        return [comm.read().strip(), *cmdline.read(_LONGEST_NAMES).split(b"\0")[:2]]


def _is_its_name(word: bytes) -> bool:
    return word.rpartition(b"/")[2] == b"claude" or word.endswith(b"/claude-code/cli.js")


def _process_by_time(file: PidFile) -> _Process:
    """The process of a file that names no start in ticks (up to 2.1.101): identified by the start time it gives.

    If another process has its number, the session's process may be in a PID namespace where it can't be found.
    """
    named = RecordedProcess(file.pid, NO_TICKS, current_boot_id())
    try:
        identity = identity_of(file.pid)
    except ProcessLookupError:
        number = number_of(file.pid, None)
        return _Process("gone", None, named, isinstance(number, NotThere) and number.is_certain)
    except OSError:
        return _Process("unknown", None, named)
    if file.started_at is not None:
        began_at = time.time() - seconds_since_start(identity)
        if -_CLOCKS_DIFFER <= file.started_at - began_at <= _LONGEST_START:
            return _Process(
                "alive", RecordedProcess(identity.pid, identity.start_ticks, identity.boot_id), named
            )
    return _Process("unknown", None, named)


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


# Codex's writer locks, `<home>/thread-writer-locks/<thread id>.lock`, are flock'ed while a thread has a writer. The file
# stays behind when Codex is killed, until its next start sweeps it away. So a lock file that nobody holds means that the
# writer has ended, unless another machine shares the home, whose locks are not seen here. A missing file means nothing.
ARCHIVED: Final = "archived_sessions"
CODEX_SESSIONS: Final = "sessions"


def home_directory(rollout: str) -> str | None:
    """Codex's home, from the path of a rollout, if its own program put it there."""
    directory = os.path.dirname(rollout)
    if os.path.basename(directory) == ARCHIVED:
        return os.path.dirname(directory)
    for _ in range(3):  # day, month, year
        directory = os.path.dirname(directory)
    return os.path.dirname(directory) if os.path.basename(directory) == CODEX_SESSIONS else None


def codex_writer(home: str, thread: str) -> Writer:
    """Who has the lock of this thread's writer; `unknown` if no one has it, or if that can't be read."""
    lock = lock_of(thread)
    if lock is None:
        return NOBODY_KNOWS
    directory, _, name = lock.rpartition("/")
    try:
        descriptor = open_in_run(f"{home}/{directory}", name)
    except (OSError, NotRegular):
        return NOBODY_KNOWS
    try:
        # First without touching the lock: while we hold it, even for a moment, Codex can't get it.
        status = os.fstat(descriptor)
        holders = flock_holders(status.st_dev, status.st_ino)
        if not holders and _is_free(descriptor):
            # The kernel knows the locks of all its namespaces, but not those of other machines.
            absence = Absence((), is_in_first_namespace=True, is_local=is_local(home), is_nowhere=True)
            return Writer("gone", absence=absence)
    except OSError:
        return NOBODY_KNOWS
    finally:
        os.close(descriptor)
    return Writer("alive", process=_process(holders[0] if holders else 0))


def lock_holders(directory: str) -> frozenset[RecordedProcess]:
    """The processes that hold a thread's lock here, as far as the kernel lists them."""
    found: set[RecordedProcess] = set()
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for _, entry in zip(range(_MOST_FILES), entries, strict=False)]
        for name in names:
            holder = _process((_holders(directory, name) or [0])[0])
            if holder is not None:
                found.add(holder)
    except (OSError, NotRegular):
        return frozenset(found)
    return frozenset(found)


def _process(pid: int) -> RecordedProcess | None:
    """The holder of a lock, so that it can be found again.

    Its child may hold the lock after the holder itself has ended.
    """
    if not pid:
        return None
    try:
        holder = identity_of(pid)
    except (OSError, ValueError):
        return None
    return RecordedProcess(holder.pid, holder.start_ticks, holder.boot_id)


def _is_free(descriptor: int) -> bool:
    """Whether the lock is free, by trying to share it for a moment.

    This is tried only if the kernel lists no holder. A Codex that wanted this very thread at that moment would have
    found it taken once. One that looks for stale locks would leave this one for its next start.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


# Copilot's `inuse.<pid>.hold` in the directory of a session is flock'ed by the process with that number while it works there. The
# file is removed at a clean end, and stays behind after SIGKILL. The lock is only looked up, never taken: so that it is free is
# not certain, because the kernel lists files of some file systems under another device. The process must be missing, too.
def copilot_writer(directory: str) -> Writer:
    """Who works in a session's directory; `unknown` if it has no such file, or if that can't be read."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for _, entry in zip(range(_MOST_FILES), entries, strict=False)]
        numbers = {name: int(found[1]) for name in names if (found := copilot.HELD.fullmatch(name))}
        for name in numbers:
            holders = _holders(directory, name)
            if holders:
                return Writer("alive", process=_process(holders[0]))
    except (OSError, NotRegular):
        return NOBODY_KNOWS
    return _if_missing(frozenset(numbers.values()), directory)


def _if_missing(numbers: frozenset[int], directory: str) -> Writer:
    """What it says of a session in this directory if no process has one of these numbers."""
    if not numbers or any(os.path.exists(f"/proc/{number}") for number in numbers):
        return NOBODY_KNOWS
    boot = current_boot_id()
    elsewhere = [number_of(number, None) for number in numbers]
    absence = Absence(
        tuple(RecordedProcess(number, NO_TICKS, boot) for number in sorted(numbers)),
        is_in_first_namespace=pid_namespace() == FIRST_NAMESPACE,
        is_local=is_local(directory),
        is_nowhere=all(isinstance(each, NotThere) and each.is_certain for each in elsewhere),
    )
    return Writer("gone", absence=absence)


# Cline's `<session>.json` has the number of the process that runs the session: its own, or that of the hub, which outlives clients and
# runs several sessions. Without a start time, a process that has the number shows nothing: it may be the hub, or a later one. But
# if there is none, neither of them is there.
def cline_writer(directory: str) -> Writer:
    """Whether the process of a session is gone that counts as running; `unknown` otherwise, or if that can't be read."""
    try:
        descriptor = open_in_run(directory, f"{os.path.basename(directory)}.json")
    except (OSError, NotRegular):
        return NOBODY_KNOWS
    with held(descriptor):
        number = cline.process_of(os.pread(descriptor, LARGEST_DOCUMENT, 0))
    return _if_missing(frozenset() if number is None else frozenset({number}), directory)


def _holders(directory: str, name: str) -> list[int]:
    descriptor = open_in_run(directory, name)
    try:
        status = os.fstat(descriptor)
        return flock_holders(status.st_dev, status.st_ino)
    finally:
        os.close(descriptor)
