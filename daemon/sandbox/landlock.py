"""Landlock, a feature of the kernel: it limits a process to the files that it still needs.

A ruleset is made here, because the worker has no packages. The worker enforces it on itself with one system call. The
numbers are those of linux/landlock.h; the three system calls have the same number on every architecture.
"""

import ctypes
import errno
import fcntl
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox.interpreter import Interpreter, interpreter
from runward.daemon.sandbox.isolated import MOST_FILES, NOBODY, NoSandbox, cpu_and_end, kill, start

_CREATE_RULESET, _ADD_RULE = 444, 445
_TELL_VERSION, _PATH_BENEATH = 1, 1

_WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14
READ: Final = READ_FILE | READ_DIR
CHANGE: Final = (
    READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
)
"""Everything in a directory but devices, sockets, FIFOs and starting programs."""

_FILES: Final = ((1, (1 << 13) - 1), (2, _REFER), (3, _TRUNCATE), (5, 1 << 15))
"""The rights on files, with the version that brought them."""

_NETWORK_SINCE, _TCP = 4, 0b11
_SCOPE_SINCE, _SOCKETS_AND_SIGNALS = 6, 0b11

FIX: Final = (
    "use Linux 5.13 or later with `landlock` among the kernel's parameters lsm=; a container must allow the "
    'Landlock system calls. Where user namespaces are allowed, sandbox = "bubblewrap" is stronger'
)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scope", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@cache
def version() -> int:
    """The kernel's version of the interface. Raises `NoSandbox` where it has none."""
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _TELL_VERSION)
    except OSError as error:
        why = {
            errno.ENOSYS: "this kernel has no Landlock",
            errno.EOPNOTSUPP: "Landlock is switched off in this kernel",
        }.get(error.errno or 0, f"Landlock can't be used: {error.strerror}")
        raise NoSandbox(why, FIX) from error


@contextmanager
def ruleset(allowed: Iterable[tuple[str, int]]) -> Iterator[int]:
    """A descriptor of the rule that only these files and directories may be reached, with these rights.

    Everything else that the kernel's version can refuse is refused, such as TCP and signals to processes outside.
    """
    known = version()
    handled = 0
    for since, rights in _FILES:
        # The kernel refuses a ruleset with rights that it doesn't know.
        handled |= rights if known >= since else 0
    described = _Ruleset(
        handled,
        _TCP if known >= _NETWORK_SINCE else 0,
        _SOCKETS_AND_SIGNALS if known >= _SCOPE_SINCE else 0,
    )
    made = _call(_CREATE_RULESET, ctypes.byref(described), ctypes.c_size_t(ctypes.sizeof(described)), 0)
    try:
        for path, rights in allowed:
            _allow(made, path, rights & handled)
        yield made
    finally:
        os.close(made)


def _allow(ruleset: int, path: str, rights: int) -> None:
    # The rule is for the file that is opened here, whatever has its name later.
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Beneath(rights, parent)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)


def _call(*words: object) -> int:
    got: int = ctypes.CDLL(None, use_errno=True).syscall(*words)
    if got < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return got


_PREFIX: Final = "runward-sandbox-"
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST: Final = 32
_AGAIN_S: Final = 0.05
"""Seconds between two counts."""

_ABANDONED_S: Final = 600.0
"""The age at which a directory that no process has locked is removed: its daemon was killed."""


class _TooDeep(Exception):
    """Directories are nested deeper than `_DEEPEST`."""


# Its bytes can't be bounded before they are written, so they are counted while the code runs.
class PrivateDirectory:
    """A directory that belongs to a user for as long as this object exists; empty at first."""

    def __init__(self, owner: int | None) -> None:
        """Make it for `owner`, None for the user that this runs as."""
        _remove_abandoned(os.geteuid() if owner is None else owner)
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        try:
            self._descriptor = os.open(self.path, _OPEN)
        except OSError:
            os.rmdir(self.path)
            raise
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            if owner is not None:
                os.chown(self._descriptor, owner, owner)
        except OSError:
            self.remove()
            raise
        self._counted_at = 0.0

    def overfull(self, most: int, *, is_over: bool, holder: int | None = None) -> str | None:
        """Which bound it exceeds, such as `most` bytes; None if none, or if it was just measured while the code runs.

        `holder` is the process that works in it: files that it has removed and holds open count, too.
        """
        if not is_over and time.monotonic() < self._counted_at + _AGAIN_S:
            return None
        files = size = 0
        # First: what is removed in between is counted the next time, and not twice.
        removed = () if holder is None else _removed(holder)
        try:
            for each in chain(removed, _sizes(self._descriptor, _DEEPEST)):
                files, size = files + 1, size + each
                if files > MOST_FILES:
                    return f"the code made more than {MOST_FILES} files"
                if size > most:
                    return f"the code wrote more than {most} bytes to its directory"
        except PermissionError:
            return "the code made a directory that can't be looked into"
        except OSError as error:
            return f"the directory of the code can't be looked into: {error.strerror}"
        except _TooDeep:
            return f"the code made directories that are nested more than {_DEEPEST} deep"
        finally:
            self._counted_at = time.monotonic()
        return None

    def remove(self) -> None:
        """Remove it with all that is in it, once nothing changes it.

        What the disk refuses to remove is left to a later worker, like the directories of a killed daemon. The code's
        result and CPU time count anyway.
        """
        try:
            _empty(self._descriptor)
            os.rmdir(self.path)
        except OSError:
            return
        finally:
            os.close(self._descriptor)


def _removed(process: int) -> Iterator[int]:
    """The bytes on the disk of files without a name that a process holds open."""
    held = f"/proc/{process}/fd"
    try:
        names = os.listdir(held)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return  # it has ended; or the daemon is a root who may not look, and the limit of each file is all there is
    seen = set()
    for name in names:
        try:
            file = os.stat(f"{held}/{name}")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # closed meanwhile; or the process is ending, and then only root may look
        # One file may have several descriptors.
        if stat.S_ISREG(file.st_mode) and file.st_nlink == 0 and (file.st_dev, file.st_ino) not in seen:
            seen.add((file.st_dev, file.st_ino))
            yield file.st_blocks * 512


def _sizes(directory: int, levels: int) -> Iterator[int]:
    """The bytes on the disk of everything in a directory that is being changed."""
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                seen = entry.stat(follow_symlinks=False)
                inner = os.open(entry.name, _OPEN, dir_fd=directory) if stat.S_ISDIR(seen.st_mode) else None
            except (FileNotFoundError, NotADirectoryError):
                continue  # it was removed or replaced meanwhile
            yield seen.st_blocks * 512
            if inner is None:
                continue
            try:
                if levels == 0:
                    raise _TooDeep
                yield from _sizes(inner, levels - 1)
            finally:
                os.close(inner)


def _empty(top: int) -> None:
    """Remove everything in a directory. Deeper directories are first moved up, so that no nesting is too deep."""
    while entries := _entries(top):
        for name, is_directory in entries:
            if not is_directory:
                os.unlink(name, dir_fd=top)
                continue
            inner = _opened(name, top)
            try:
                for each, is_deeper in _entries(inner):
                    if is_deeper:
                        os.close(_opened(each, inner))
                        os.rename(each, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
                    else:
                        os.unlink(each, dir_fd=inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _entries(directory: int) -> list[tuple[str, bool]]:
    with os.scandir(directory) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _opened(name: str, parent: int) -> int:
    """Open a directory, after giving its owner all rights: moving a directory needs the right to write it."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)
    return os.open(name, _OPEN, dir_fd=parent)


def _remove_abandoned(owner: int) -> None:
    """Remove what killed daemons left, except what another process has locked or has just made."""
    oldest = time.time() - _ABANDONED_S
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if path.lstat().st_ctime > oldest:
                continue
            descriptor = os.open(path, _OPEN)
        except OSError:
            continue  # it was removed, or it belongs to somebody else
        try:
            if os.fstat(descriptor).st_uid == owner:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _empty(descriptor)
                path.rmdir()
        except OSError:
            continue  # it is in use, or another process removes it
        finally:
            os.close(descriptor)


_MORE_THREADS: Final = 32
_DRIFT: Final = 16
"""By how much the user's number of threads may change while a worker waits, not counting other waiting workers."""

_FIX: Final = (
    "let processes of this user be started, be seen in /proc, and open files: `ulimit -u` and `ulimit -n`"
)


class Landlocked:
    """A worker that has given up all files but its interpreter's and those in a directory of its own."""

    means: Final = "landlock+seccomp"
    fix: Final = FIX
    has_namespaces: Final = False

    def __init__(self, executor: Executor, arguments: tuple[str, ...]) -> None:
        """Start it. `arguments` are the interpreter's. Raises `NoSandbox`."""
        self.check()
        user = NOBODY if os.geteuid() == 0 else None
        python = interpreter(user)
        self._user = os.geteuid() if user is None else user
        self._drift = _DRIFT + executor.workers
        self._most = executor.tmp
        self.inner: int | None = None
        try:
            self._counted = _threads_of(self._user)
            self.threads = self._counted + _MORE_THREADS
            self._directory = PrivateDirectory(user)
        except OSError as error:
            raise NoSandbox(f"a sandbox can't be made: {error}", _FIX) from error
        try:
            self._start(python, arguments, user)
        except OSError as error:
            self._directory.remove()
            raise NoSandbox(f"a sandbox can't be started: {error}", _FIX) from error

    def _start(self, python: Interpreter, arguments: tuple[str, ...], user: int | None) -> None:
        tmp = self._directory.path
        libraries = sorted(
            {os.path.dirname(place) for place, inside in python.places if inside.startswith("so/")}
        )
        with ruleset((*_readable(python), (tmp, CHANGE))) as rules:
            self._ruleset = rules
            environment = {
                "LANG": "C.UTF-8",
                "LD_LIBRARY_PATH": ":".join(libraries),
                "MALLOC_ARENA_MAX": "1",
                "TMPDIR": tmp,
            }
            self.process, self.outer = start((python.places[0][0], *arguments), rules, tmp, environment, user)
        self.inner = self.outer

    @staticmethod
    def check() -> None:
        """Whether the kernel has Landlock."""
        version()

    @property
    def setup(self) -> Mapping[str, JsonValue]:
        """The ruleset that the worker enforces on itself."""
        return {"ruleset": self._ruleset}

    def find(self, deadline: float) -> int | None:
        """The process that was started is the worker itself."""
        return self.process.pid

    def watch(self) -> None:
        """Does nothing: its directory is known from the start."""

    def is_current(self) -> bool:
        """Whether the user still has about as many threads as when it started: the kernel's limit counts all of them."""
        return abs(_threads_of(self._user) - self._counted) <= self._drift

    def overfull(self, *, is_over: bool = False) -> str | None:
        """Which bound its directory exceeds."""
        return self._directory.overfull(self._most, is_over=is_over, holder=self.process.pid)

    def end(self) -> float:
        """Kill it, and remove its directory."""
        kill(self.outer)
        seconds = cpu_and_end(self.process)
        os.close(self.outer)
        self._directory.remove()
        return seconds


def _readable(python: Interpreter) -> Iterator[tuple[str, int]]:
    """The interpreter's files. Names can be listed everywhere below, but what is hidden in them can't be read."""
    hidden = set(python.hidden)
    for place, inside in python.places:
        if not os.path.isdir(place):
            yield place, READ_FILE
            continue
        yield place, READ_DIR
        for name in os.listdir(place):
            path = os.path.join(place, name)
            if f"{inside}/{name}" not in hidden and not os.path.islink(path):
                yield path, READ if os.path.isdir(path) else READ_FILE


def _threads_of(user: int) -> int:
    """How many threads a user has on this machine: the kernel's limit counts all of them."""
    threads = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:
                    threads += os.stat(f"/proc/{name}/task").st_nlink - 2
            except FileNotFoundError:
                continue  # it ended
    return threads
