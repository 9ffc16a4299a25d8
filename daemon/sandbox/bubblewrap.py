"""bubblewrap: what code in the sandbox sees of the machine, and how its process is started in a time namespace of its own, found and ended."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.processes.proc import read_stat
from runward.daemon.sandbox import leftovers
from runward.daemon.sandbox.interpreter import INSIDE, Interpreter, interpreter
from runward.daemon.sandbox.isolated import (
    END_S,
    MOST_FILES,
    NOBODY,
    NoSandbox,
    cpu_and_end,
    ends,
    kill,
    readable,
    start,
)

UNSHARE: Final = "unshare"

_TRIED_AGAIN_S: Final = 60.0
_PATIENCE_S: Final = 5.0


# `unshare` of util-linux makes it, in a user namespace that bubblewrap's own is nested in. Not every kernel
# and every profile of AppArmor allows that, so it is tried first. If it fails, code runs without one, and
# results say so.
def in_own_time(start: Sequence[str], user: int | None) -> tuple[str, ...]:
    """The beginning of bubblewrap's command line that makes a time namespace; empty if the machine doesn't allow one.

    `user` starts it, None for the one we run as. Raises `OSError`.
    """
    program, trial = shutil.which(UNSHARE), shutil.which("true")
    if program is None or trial is None:
        return ()
    tried = (*start, "--ro-bind", "/", "/", "--", trial)
    if not _works(program, tried, user, int(time.monotonic() / _TRIED_AGAIN_S)):
        return ()
    return _prefix(program)


def _prefix(program: str) -> tuple[str, ...]:
    since_boot = (
        f"-{int(time.clock_gettime(time.CLOCK_BOOTTIME))}",
        "--monotonic",
        f"-{int(time.clock_gettime(time.CLOCK_MONOTONIC))}",
    )
    return program, "--user", "--map-current-user", "--time", "--boottime", *since_boot, "--"


@lru_cache(maxsize=4)
def _works(program: str, tried: tuple[str, ...], user: int | None, period: int) -> bool:
    """Whether it works in this `period`: the machine may be changed while the daemon runs. Raises `OSError`."""
    mark = leftovers.new_mark()
    works = False
    try:
        ended = subprocess.run(
            (*_prefix(program), *tried),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
            cwd="/",
            env={leftovers.VARIABLE: mark},
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
        )
        works = ended.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        pass
    finally:
        if not works:
            leftovers.WATCHER.end(mark, END_S)
    return works


PROGRAM: Final = "bwrap"

MEANS: Final = "bubblewrap+seccomp"
MEANS_WITHOUT_TIME: Final = f"{MEANS}, no time namespace"

_ALLOW: Final = (
    "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 and user.max_user_namespaces, or on Ubuntu "
    "the AppArmor profile bwrap-userns-restrict"
)
_START: Final = (
    "let the daemon run bwrap and start processes: the rights of the program, and `ulimit -u` and `ulimit -n`"
)
_THREADS: Final = 32
_SHUT_OFF: Final = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"),
    *("--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"),
    *("--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox"),
    *("--setenv", "MALLOC_ARENA_MAX", "1", "--setenv", "LANG", "C.UTF-8"),
)  # fmt: skip


class Bubblewrapped:
    """A worker in namespaces of its own, with files of its own."""

    fix: Final = _ALLOW
    has_namespaces: Final = True
    threads: Final = _THREADS

    def __init__(self, executor: Executor, arguments: tuple[str, ...]) -> None:
        """Start it. `arguments` are the interpreter's. Raises `NoSandbox`."""
        program = _program()
        # RLIMIT_NPROC doesn't apply to root, even inside a user namespace. So root starts it as nobody.
        user = NOBODY if os.geteuid() == 0 else None
        python = interpreter(user)
        self._pid: int | None = None
        self.inner: int | None = None
        self._tmp: int | None = None
        try:
            self._mark = leftovers.new_mark()
            self._told, tells = os.pipe()
        except OSError as error:
            raise NoSandbox(f"bubblewrap can't be started: {error.strerror}", _START) from error
        try:
            own_time = in_own_time((program, *_SHUT_OFF), user)
            self.means = MEANS if own_time else MEANS_WITHOUT_TIME
            starts = command(program, python, executor.tmp, tells, arguments)
            marked = {leftovers.VARIABLE: self._mark}
            self.process, self.outer = start((*own_time, *starts), tells, "/", marked, user)
        except OSError as error:
            leftovers.WATCHER.end(self._mark, END_S)
            os.close(self._told)
            raise NoSandbox(f"bubblewrap can't be started: {error.strerror}", _START) from error
        finally:
            # The worker alone holds the other end: its death must show here as the end of the pipe.
            os.close(tells)

    @staticmethod
    def check() -> None:
        """Whether bubblewrap is installed."""
        _program()

    @property
    def setup(self) -> Mapping[str, JsonValue]:
        """Empty: bubblewrap isolates the worker before it starts."""
        return {}

    def find(self, deadline: float) -> int | None:
        """The process id that bubblewrap reports."""
        content = b""
        while not content.rstrip().endswith(b"}"):
            piece = os.read(self._told, 4096) if readable(self._told, deadline) else b""
            if not piece:
                # It may have forked before it was killed: what is inside would wait for it for ever, and hold its stderr open.
                leftovers.WATCHER.end(self._mark, END_S)
                return None
            content += piece
        pid = json.loads(content)["child-pid"]
        assert isinstance(pid, int)
        try:
            inner = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        try:
            # It may have ended, and its number be another process's by now.
            is_it = read_stat(pid).parent == self.process.pid
        except (FileNotFoundError, ProcessLookupError):
            is_it = False
        except OSError:
            os.close(inner)
            raise
        if not is_it:
            os.close(inner)
            return None
        self.inner, self._pid = inner, pid
        return pid

    def watch(self) -> None:
        """Keep hold of its `/tmp`."""
        # Held open: after its death the path would lead nowhere, and its number could be another's.
        self._tmp = os.open(f"/proc/{self._pid}/root/tmp", os.O_PATH)

    def is_current(self) -> bool:
        """Always true: the kernel counts the threads of its namespace separately."""
        return True

    def overfull(self, *, is_over: bool = False) -> str | None:
        """Whether it made too many files; the bytes are bounded by the file system."""
        assert self._tmp is not None
        there = os.fstatvfs(self._tmp)
        if there.f_files - there.f_ffree <= MOST_FILES:
            return None
        return f"the code made more than {MOST_FILES} files"

    def end(self) -> float:
        """Kill what is inside, then bubblewrap. In any other order the kernel loses the CPU time."""
        if self.inner is not None:
            # First the process inside, so that bubblewrap waits for it and its CPU time is added up.
            kill(self.inner)
            if not ends(self.outer, END_S):
                kill(self.outer)
        else:
            kill(self.outer)
        seconds = cpu_and_end(self.process)
        if self.inner is None:
            leftovers.WATCHER.end(self._mark, END_S)
        for descriptor in (self._told, self.inner, self._tmp, self.outer):
            if descriptor is not None:
                os.close(descriptor)
        return seconds


def _program() -> str:
    program = shutil.which(PROGRAM)
    if program is None:
        raise NoSandbox("bubblewrap isn't installed", "install the package bubblewrap")
    return program


def command(
    program: str, python: Interpreter, tmp: int, info: int, arguments: tuple[str, ...]
) -> tuple[str, ...]:
    """The command line of the worker.

    `tmp` is the size of its `/tmp` in bytes; bubblewrap reports its pid on `info`.
    """
    binds = [word for place, inside in python.places for word in ("--ro-bind", place, f"{INSIDE}/{inside}")]
    hidden = [
        word
        for each in python.hidden
        for word in ("--tmpfs", f"{INSIDE}/{each}", "--remount-ro", f"{INSIDE}/{each}")
    ]
    empty = ("--size", str(tmp), "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/tmp")  # noqa: S108  # inside
    return (
        program,
        *_SHUT_OFF,
        "--info-fd",
        str(info),
        *binds,
        *hidden,
        *empty,
        "--",
        *python.command,
        *arguments,
    )
