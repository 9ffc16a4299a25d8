"""The weaker method: an ordinary process, which the kernel keeps from almost all files of the machine.

It needs no namespaces and no program, only a kernel with Landlock. What namespaces would hide, the filter of system calls
forbids.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final

from runward.config.executor import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox import landlock
from runward.daemon.sandbox.interpreter import Interpreter, interpreter
from runward.daemon.sandbox.isolated import NOBODY, NoSandbox
from runward.daemon.sandbox.kernel import cpu_and_end, kill, start
from runward.daemon.sandbox.private_directory import PrivateDirectory

_MORE_THREADS: Final = 32
_DRIFT: Final = 16
"""By how much the user's number of threads may change while a worker waits, not counting other waiting workers."""

_FIX: Final = (
    "let processes of this user be started, be seen in /proc, and open files: `ulimit -u` and `ulimit -n`"
)


class Landlocked:
    """A worker that has given up all files but its interpreter's and those in a directory of its own."""

    means: Final = "landlock+seccomp"
    fix: Final = landlock.FIX
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
        with landlock.ruleset((*_readable(python), (tmp, landlock.CHANGE))) as ruleset:
            self._ruleset = ruleset
            environment = {
                "LANG": "C.UTF-8",
                "LD_LIBRARY_PATH": ":".join(libraries),
                "MALLOC_ARENA_MAX": "1",
                "TMPDIR": tmp,
            }
            self.process, self.outer = start(
                (python.places[0][0], *arguments), ruleset, tmp, environment, user
            )
        self.inner = self.outer

    @staticmethod
    def check() -> None:
        """Whether the kernel has Landlock."""
        landlock.version()

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

    def overfull(self) -> str | None:
        """Which bound its directory exceeds."""
        return self._directory.overfull(self._most)

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
            yield place, landlock.READ_FILE
            continue
        yield place, landlock.READ_DIR
        for name in os.listdir(place):
            path = os.path.join(place, name)
            if f"{inside}/{name}" not in hidden and not os.path.islink(path):
                yield path, landlock.READ if os.path.isdir(path) else landlock.READ_FILE


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
