"""The launcher's files in a run directory (the native layout, version 1), the directory itself, and the message to the daemon.

A run may write what it likes into its own directory. So, before it releases the command, the launcher puts into the
daemon's inbox the contract and the timeout of the command, and the hash of a secret. Only the end of the run reveals
the secret: only an `exit.json` with it ends the run. When the whole tree is dead, the launcher puts the same message
there again: a run that removed it from the inbox gained nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time

from runward.config.short_hash import sha256_hex
from runward.daemon.disk.durable import ReservedFile, sync_directory, write_durably, write_whole
from runward.daemon.processes.stand_ins import json_text

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runward.config.json_value import JsonValue
    from runward.daemon.launch.output import RunLog
    from runward.daemon.launch.supervision import Ending
    from runward.daemon.processes.proc import ProcessIdentity


SCHEMA = "runward-run-v1"
RUN = "run.json"
PROCESS = "process.json"
EXIT = "exit.json"
ARTIFACTS = "artifacts"
LOGS = ("stdout.log", "stderr.log")
START = "start"
"""The key in the metadata of `run.json` that names the start which the daemon ordered."""
LONGEST_NAME = 200
_LONGEST_RUN = 16 << 20
_EXIT_ROOM = 4096
_LONGEST_ERROR = 2000


class RunDirectory:
    """A run directory that the launcher made, held open: the command can't redirect later writes."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._unsynced: list[int] = []
        """What was written and is not durable yet, by descriptors: the command may replace the files meanwhile."""

    @property
    def name(self) -> str:
        """The last part of the path, which is the session's id."""
        return os.path.basename(self.path)

    def write_json(self, name: str, value: Mapping[str, JsonValue], *, is_synced: bool = True) -> None:
        """Writes one of the layout's files, whole. It is durable when this returns, or else after `make_durable`."""
        if is_synced:
            write_durably(self.descriptor, name, _encoded(value))
        else:
            write_whole(self.descriptor, name, _encoded(value), kept=self._unsynced)

    def make_durable(self) -> None:
        """Makes durable what was written without that. Raises OSError."""
        if not self._unsynced:
            return
        try:
            for descriptor in self._unsynced:
                os.fsync(descriptor)
        finally:
            self._forget_unsynced()
        sync_directory(self.descriptor)

    def _forget_unsynced(self) -> None:
        while self._unsynced:
            os.close(self._unsynced.pop())

    def reserve_exit(self) -> ReservedFile:
        """Reserves space for `exit.json` while there is some."""
        return ReservedFile(self.descriptor, EXIT, _EXIT_ROOM)

    def write_exit(
        self,
        room: ReservedFile,
        ending: Ending,
        secret: str | None = None,
        tell: Callable[[], None] | None = None,
    ) -> None:
        """Writes `exit.json`, with the secret that the launch was sealed with, against what the command may have put in the way.

        `tell` is called when it is there, before it is durable. Raises OSError.
        """
        content = _encoded(_exit_json(ending) | ({} if secret is None else {"secret": secret}))
        try:
            room.write(content, tell)
        except OSError:
            # The command may have taken our rights on the directory, or made a directory with this name.
            self._clear_the_way()
            write_durably(self.descriptor, EXIT, content)
            if tell is not None:
                tell()

    def open_log(self, name: str, limit: int) -> RunLog:
        """A new file that only grows, up to `limit` bytes; 0 is none."""
        from runward.daemon.launch.output import RunLog  # the daemon opens none

        # O_EXCL: the command doesn't run yet, so a file that is there already is a trap.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return RunLog(os.open(name, flags, 0o600, dir_fd=self.descriptor), self.descriptor, name, limit)

    def _clear_the_way(self) -> None:
        """Restores our rights on the directory, and renames a directory that is called `exit.json`."""
        os.fchmod(self.descriptor, 0o700)
        try:
            status = os.stat(EXIT, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            aside = f"{EXIT}.{os.urandom(3).hex()}"
            os.rename(EXIT, aside, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def discard(self) -> None:
        """Removes the directory, with the empty files that are in it."""
        for name in os.listdir(self.descriptor):
            is_directory = stat.S_ISDIR(os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_mode)
            (os.rmdir if is_directory else os.unlink)(name, dir_fd=self.descriptor)
        os.rmdir(self.path)

    def lock(self) -> None:
        """Have the kernel list this process for everybody as one that has the directory open, until it ends.

        Who hides its memory hides its descriptors from its own user's daemon, which must still find out whose launcher
        this is (`daemon/processes/ending_runs.py`).
        """
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            pass  # a file system without locks of directories, or a lock of somebody else: then only root finds out

    def close(self) -> None:
        """Nothing more is written."""
        self._forget_unsynced()
        os.close(self.descriptor)


def why_no_name(name: str) -> str | None:
    """Why `name` can't be a run directory's; None if it can."""
    if not name:
        return "is empty"
    if "/" in name:
        return "is more than one path segment"
    if name.startswith("."):
        return "begins with a dot"
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in name):
        return "contains control characters"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    return f"is {size} bytes long; at most {LONGEST_NAME}" if size > LONGEST_NAME else None


def new_name(now: float) -> str:
    """A name that sorts by time: `20261121T101530Z-1a2b3c`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now)) + "-" + os.urandom(3).hex()


def make_run_directory(root: str, name: str) -> RunDirectory:
    """Makes `root/name`, durably, for its owner only. Raises FileExistsError if it exists.

    It is not a session until `run.json` appears in it, whole.
    """
    path = os.path.join(root, name)
    umask = os.umask(0o077)  # for the parent directories of a new root, too
    try:
        os.makedirs(root, exist_ok=True)
        # Made under its own name and not renamed into place: only mkdir(2) refuses every existing name (a rename
        # replaces an empty directory), and a watcher needs the time before `run.json` to set its watch there.
        os.mkdir(path)
    finally:
        os.umask(umask)
    # Held open from here on. The command can rename the directory, or put a link in its place, but not
    # redirect later writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    sync_directory(root)
    return RunDirectory(path, descriptor)


class NameTaken(Exception):
    """A run directory's name is taken by something that no launcher for this start left there; the message names it."""


class BegunAlready(Exception):
    """The run directory contains the `run.json` of this very start."""


def adopt_run_directory(root: str, name: str, start: str) -> RunDirectory:
    """The directory `root/name` that a launcher for `start` left when it died before writing its `run.json`.

    What it left in it is removed. Raises BegunAlready, NameTaken, FileNotFoundError if it no longer exists.
    """
    path = os.path.join(root, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:  # nor is a link
        raise NameTaken("it is not a directory") from None
    try:
        # Nothing of another user's is removed, even if its name is the one of this start.
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise NameTaken("it belongs to another user")
        # The content of a run that began belongs to the run: that is checked before anything is removed.
        for entry in sorted(os.listdir(descriptor), key=lambda entry: entry != RUN):
            _clear_leftover(descriptor, entry, start)
    except BaseException:
        os.close(descriptor)
        raise
    return RunDirectory(path, descriptor)


def _clear_leftover(directory: int, entry: str, start: str) -> None:
    if entry == RUN:
        if _start_of(directory) == start:
            raise BegunAlready
        raise NameTaken("it already contains a run")
    status = os.stat(entry, dir_fd=directory, follow_symlinks=False)
    if entry == ARTIFACTS and stat.S_ISDIR(status.st_mode):
        try:
            os.rmdir(entry, dir_fd=directory)
        except OSError:
            raise NameTaken("it already contains artifacts") from None
    elif stat.S_ISREG(status.st_mode) and (_is_temporary(entry) or (entry in LOGS and status.st_size == 0)):
        os.unlink(entry, dir_fd=directory)
    else:
        raise NameTaken(f"it already contains {entry!r}")


def _is_temporary(entry: str) -> bool:
    return entry.endswith(".tmp") and entry.startswith(tuple(f".{name}." for name in (RUN, PROCESS, EXIT)))


def _start_of(directory: int) -> JsonValue:
    """The start that the `run.json` in a directory names; None if it says nothing readable."""
    import json  # only if a launcher died at the same start before

    try:
        descriptor = os.open(
            RUN, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
        )
        try:
            value = json.loads(os.read(descriptor, _LONGEST_RUN))
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RecursionError):
        return None
    metadata = value.get("metadata") if isinstance(value, dict) else None
    start: JsonValue = metadata.get(START) if isinstance(metadata, dict) else None
    return start


def process_json(identity: ProcessIdentity) -> dict[str, JsonValue]:
    """`process.json`: who the command is."""
    return {"pid": identity.pid, "start_ticks": identity.start_ticks, "boot_id": identity.boot_id}


def iso_time(seconds: float) -> str:
    """Unix seconds as ISO 8601 in UTC with microseconds."""
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"


def as_text(argument: str) -> str:
    """An argument or path for JSON: bytes that are not UTF-8 are replaced."""
    return os.fsencode(argument).decode("utf-8", "replace")


def _exit_json(ending: Ending) -> dict[str, JsonValue]:
    return {
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "cause": ending.cause,
        "error": ending.error[:_LONGEST_ERROR] if ending.error is not None else None,
        "finished_at": iso_time(ending.finished_at),
        "duration_s": round(ending.duration_s, 6),
        "survivors_killed": ending.survivors_killed,
    }


def _encoded(value: Mapping[str, JsonValue]) -> bytes:
    return json_text(value).encode(errors="replace") + b"\n"  # a record with a ? in it is better than none


_INBOX = "inbox"
_VERSION = 1


class Announcement:
    """One launch of `session_key`, for the daemon over the state directory `state`. `at` is in Unix seconds."""

    def __init__(
        self,
        state: str,
        session_key: str,
        at: float,
        launcher: ProcessIdentity,
        process: ProcessIdentity,
        contract: JsonValue,
        timeout: float | None,
        grace: float,
        cgroup: str | None,
        ticket: str | None = None,
    ) -> None:
        self._inbox = os.path.join(state, _INBOX)
        self.secret = os.urandom(32).hex()
        self.content: dict[str, JsonValue] = {
            "runward-launch": _VERSION,
            "session_key": session_key,
            "launch": os.urandom(16).hex(),
            "at": at,
            "seal": sha256_hex(self.secret.encode()),
            "launcher": [launcher.pid, launcher.start_ticks, launcher.boot_id],
            "process": [process.pid, process.start_ticks, process.boot_id],
            "contract": contract,
            "timeout": timeout,
            "grace": grace,
            "cgroup": cgroup,
            **({} if ticket is None else {"ticket": ticket}),
        }

    def put(self) -> None:
        """Put it into the inbox, under a new name. It is durable when this returns. Raises OSError."""
        os.makedirs(self._inbox, mode=0o700, exist_ok=True)
        # A new name each time: the second note must not depend on what became of the first one.
        name = f"launch-{os.urandom(16).hex()}.json"
        write_durably(self._inbox, name, json_text(self.content).encode(errors="replace") + b"\n")
