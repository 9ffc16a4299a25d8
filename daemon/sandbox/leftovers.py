"""Ends what is left of bubblewrap if it, or the process that started it, is killed.

bubblewrap forks early. The inner process waits until the outer one tells it to begin, and asks the kernel to end with it only
right before it becomes the worker. If the outer one is killed before it has told, the inner one waits for ever. So both have a mark
in their environment, which names the process that started them. That process ends what carries the mark if bubblewrap ends too
early, and a process of its own (`python -m runward.daemon.sandbox.leftovers MARK`) does so once the starter has ended, however that
came about. If both were killed, the next process that starts bubblewrap finds it.
"""

import errno
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Final

from runward.daemon.processes.proc import (
    ProcessIdentity,
    current_boot_id,
    identity_of,
    pid_namespace,
    state_of,
)

VARIABLE: Final = "RUNWARD_SANDBOX_OF"
"""The variable with the mark. The worker doesn't see it: bubblewrap clears its environment."""

_ENTRY: Final = f"{VARIABLE}=".encode()
_AGAIN_S: Final = 0.01
_AGAIN_LATER_S: Final = 1.0
_BRIEFLY_S: Final = 0.25
_LONGEST_SAID: Final = 64 << 10
"""Bytes of its complaints that are read. They end with the one that counts."""

_LOOKS: Final = 2
"""How many looks in a row must find nothing: a process that is just being replaced by a program shows no environment."""

_REFUSED_FOR_NOW: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Watcher:
    """The process that outlives this one, and ends what it left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pidfd: int | None = None
        self.pid: int | None = None
        self._lives_while_open: int | None = None
        self._said: int | None = None
        self._unended: set[str] = set()
        """The marks of starts of which something may still be alive."""

    def end(self, mark: str, within_s: float) -> None:
        """Kill all that carries this mark. What could not be ended in this time is tried again with the next start."""
        has_ended = end_marked(mark, within_s)
        with self._lock:
            if has_ended:
                self._unended.discard(mark)
            else:
                self._unended.add(mark)

    def ensure(self, mark: str) -> None:
        """Start it if it is not there, or was killed. Raises `OSError`."""
        with self._lock:
            unended = next(iter(self._unended), None)
        if unended is not None:
            self.end(unended, _BRIEFLY_S)
        with self._lock:
            if self._pidfd is not None and not self._has_ended(self._pidfd):
                return
            self._forget()
            try:
                self._start(mark)
            except OSError:
                self._forget()
                raise

    def trouble(self) -> str | None:
        """What may be alive, or why nobody would end what this process left now; None if nothing, and somebody would."""
        with self._lock:
            if self._unended:
                return (
                    "processes of a sandbox that is over may still be alive: they could not be ended in time, for example "
                    "for want of descriptors or memory; the next code that runs has it tried again"
                )
            if self._pidfd is None or not self._has_ended(self._pidfd):
                return None
            assert self.pid is not None
            assert self._said is not None
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            how = "" if ended is None else f" ({_how(ended.si_code, ended.si_status)})"
            lines = os.pread(self._said, _LONGEST_SAID, 0).decode(errors="replace").split("\n")
            last = next((f": {each.strip()}" for each in reversed(lines) if each.strip()), "")
            return (
                f"the process that ends what a killed daemon leaves of its sandboxes has ended{how}{last}; "
                "the next code that runs starts it again"
            )

    @staticmethod
    def _has_ended(pidfd: int) -> bool:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def _start(self, mark: str) -> None:
        read_end, self._lives_while_open = os.pipe()
        try:
            self._said = os.memfd_create("said")
            # Descriptors of ours are not inherited: only we hold the other end of its stdin.
            self.pid = os.posix_spawn(
                sys.executable,
                (sys.executable, "-P", "-m", __name__, mark),
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, read_end, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, self._said, 2),
                ],
                # A signal to our group or terminal must not reach it.
                setsid=True,
                setsigmask=(),
            )
            self._pidfd = os.pidfd_open(self.pid)
        finally:
            os.close(read_end)

    def _forget(self) -> None:
        """Let go of one that has ended, or that can't be watched."""
        if self.pid is not None:
            # Before its stdin ends: it would end what runs here. It is not waited for yet, so its number is nobody else's.
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        for descriptor in (self._pidfd, self._lives_while_open, self._said):
            if descriptor is not None:
                os.close(descriptor)
        self._pidfd = self.pid = self._lives_while_open = self._said = None


def _how(code: int, status: int) -> str:
    return f"exit {status}" if code == os.CLD_EXITED else f"signal {status}"


WATCHER: Final = Watcher()
_NUMBERS: Final = count(1)


def new_mark() -> str:
    """A mark of its own for one start of bubblewrap. Raises `OSError`."""
    own = identity_of(os.getpid())
    ours = f"{pid_namespace()}:{own.pid}:{own.start_ticks}"
    WATCHER.ensure(ours)
    return f"{ours}/{next(_NUMBERS)}"


def end_marked(mark: str, within_s: float = math.inf) -> bool:
    """Kill all that carries this mark or one that begins with it, until there is nothing, or for so long.

    Returns whether there is nothing.
    """
    give_up = time.monotonic() + within_s
    looks = 0
    while looks < _LOOKS and time.monotonic() < give_up:
        # One that is found may have forked meanwhile, so another look follows.
        try:
            found = _kill(lambda each: f"{each}/".startswith(f"{mark}/"))
        except OSError:
            found = True  # no descriptor or no memory is left for now: who can't look has not seen that nothing is there
        looks = 0 if found else looks + 1
        time.sleep(_AGAIN_S)
    return looks == _LOOKS


def _kill(is_meant: Callable[[str], bool]) -> bool:
    """Kill each process whose mark is meant; whether there was any."""
    found = False
    for name in os.listdir("/proc"):
        if not name.isdecimal() or not _carries(name, is_meant):
            continue
        try:
            pidfd = os.pidfd_open(int(name))
        except ProcessLookupError:
            continue
        try:
            # Again: now the number can't become another process's any more.
            if _carries(name, is_meant):
                found = True
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except ProcessLookupError:
            continue
        finally:
            os.close(pidfd)
    return found


def _carries(pid: str, is_meant: Callable[[str], bool]) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError as error:
        if error.errno in _REFUSED_FOR_NOW:
            raise
        return False  # it ended, or it is somebody else's
    if _ENTRY not in environment:
        return False
    marks = [each.removeprefix(_ENTRY) for each in environment.split(b"\0") if each.startswith(_ENTRY)]
    return any(is_meant(os.fsdecode(each)) for each in marks)


def _is_of_a_gone_process(mark: str) -> bool:
    """Whether the process that a mark names has ended. Process numbers are only known within our own namespace."""
    try:
        namespace, pid, ticks = map(int, mark.partition("/")[0].split(":"))
    except ValueError:
        return False  # not a mark of ours
    starter = ProcessIdentity(pid, ticks, current_boot_id())
    return namespace == pid_namespace() and state_of(starter) == "gone"


def main(mark: str) -> None:
    """End what killed processes left. Wait until stdin ends, as its other end is held by the process of the mark alone; end what that left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    stdin = select.poll()
    stdin.register(0, select.POLLIN)
    # If it can't look for now, for want of memory, say, it looks again.
    while not _has_looked() and not stdin.poll(_AGAIN_LATER_S * 1000):
        pass
    while os.read(0, 1):
        pass
    end_marked(mark)


def _has_looked() -> bool:
    try:
        _kill(_is_of_a_gone_process)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1])
