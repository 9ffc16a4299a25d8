"""Starting runs: a launcher that outlives the daemon gets one request, and answers before it releases its command."""

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from runward.daemon.disk.epoch import EpochPassed
from runward.daemon.launch import detached, worktree
from runward.daemon.launch.ticket import throw_away
from runward.daemon.world.processes import Begun, NotBegun, NotRemoved, RealProcesses
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.stored import as_json

LAUNCHER: Final = (sys.executable, "-P", "-m", detached.__name__)
"""The words that start a launcher; `-P`, for nothing may be imported from the directory it is started in. The state
directory and the epoch follow, and the run's name: without one it forks launchers."""

LOG: Final = "launcher.log"
"""A file next to the daemon's own log: the errors of launchers that nobody waits for any more."""

PATIENCE: Final = 10.0
"""Seconds that a launcher may take to begin. One that takes longer continues; the next try finds its ticket locked."""

OF_THE_DAEMON: Final = frozenset(
    {
        "RUNWARD_FAULT",
        "RUNWARD_RUN_FAULT",
        "CACHE_DIRECTORY",
        "CONFIGURATION_DIRECTORY",
        "CREDENTIALS_DIRECTORY",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LISTEN_FDNAMES",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LOGS_DIRECTORY",
        "MAINPID",
        "MANAGERPID",
        "NOTIFY_SOCKET",
        "RUNTIME_DIRECTORY",
        "STATE_DIRECTORY",
        "SYSTEMD_EXEC_PID",
        "TRACEPARENT",
        "TRACESTATE",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
    }
)
"""Variables that only concern the daemon.

With them a command could talk to systemd in the daemon's name, or would appear in the trace of whatever started the
daemon.
"""


class StartingProcesses(RealProcesses):
    """The processes of a daemon that starts runs; `state` is its state directory."""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self._state = state
        self._forking: tuple[int, socket.socket] | None = None
        """What forks a launcher for each order that it is given, with the epoch it was started in."""
        self._giving = threading.Lock()
        """Held where an order is given to it, and where it is let go."""

    def close(self) -> None:
        """Start no more runs."""
        with self._giving:
            if self._forking is not None:
                self._forking[1].close()
            self._forking = None

    def start(self, order: StartRun, epoch: int) -> Begun | NotBegun:
        """Begin the run, unless it has begun. Raises `EpochPassed`; a failure is an answer."""
        try:
            answer = self._ask_launcher(order, epoch)
        except OSError as error:
            return NotBegun(f"no launcher can be started: {error.strerror or error}")
        if answer is None:
            return NotBegun(f"its launcher has not begun after {PATIENCE:g} s")
        return understood(answer)

    def forget_starts(self, owed: Collection[str]) -> None:
        """Tickets of other starts than these are useless now: this daemon's epoch has begun."""
        throw_away(self._state, owed)

    def remove_worktree(self, name: str, repo: str) -> str | NotRemoved | None:
        """Remove the worktree that the launcher of this run made."""
        try:
            return worktree.remove(repo, worktree.place_of(str(self._state), name))
        except worktree.GitFailed as failure:
            return NotRemoved(str(failure))

    def expect_start(self, epoch: int) -> None:
        """Make sure that the next starts don't wait for an interpreter: a prepared process forks their launchers."""
        # A process of another epoch would give its launchers that epoch, and they would refuse to begin.
        if self._forking is not None and self._forking[0] == epoch:
            return
        self.close()
        log = self._open_log()
        # Each order is one message with its descriptors. The pair ends with the daemon, and the process with
        # it.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._launch(epoch, [], theirs.fileno(), subprocess.DEVNULL, log)
        except OSError:
            ours.close()
            raise
        finally:
            os.close(log)
        self._forking = epoch, ours

    def _ask_launcher(self, order: StartRun, epoch: int) -> str | None:
        """A launcher's answer: empty if it ended without one, None if it took too long."""
        log = self._open_log()
        try:
            # In memory: an order holds a command and its environment, and needs no file that somebody must
            # remove.
            with open(os.memfd_create("order"), "w+b") as content:
                content.write(as_json(order).encode())
                content.flush()
                answer = self._ask_forked(epoch, content.fileno(), log)
                # The prepared process may have ended or been killed. A new launcher is always possible, and
                # the ticket keeps the start from happening twice.
                return self._ask_new(order, epoch, content.fileno(), log) if answer == "" else answer
        finally:
            os.close(log)

    def _open_log(self) -> int:
        return os.open(
            self._state / "log" / LOG,
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )

    def _ask_forked(self, epoch: int, content: int, log: int) -> str | None:
        """A forked launcher's answer: empty also if there is none. A process that doesn't answer is not asked again."""
        os.lseek(content, 0, os.SEEK_SET)
        answer = _answer(lambda answering: self._give(epoch, (content, answering, log)))
        if not answer:
            self.close()
        return answer

    def _give(self, epoch: int, descriptors: Sequence[int]) -> None:
        """Give an order to the process that forks launchers, if it still exists; else there is no answer."""
        with self._giving:
            if self._forking is not None and self._forking[0] == epoch:
                with suppress(BrokenPipeError, ConnectionResetError):
                    # The descriptors are copied to the other process, so it needs no right to open anything.
                    socket.send_fds(self._forking[1], [b"."], descriptors, socket.MSG_NOSIGNAL)

    def _ask_new(self, order: StartRun, epoch: int, content: int, log: int) -> str | None:
        os.lseek(content, 0, os.SEEK_SET)
        return _answer(lambda answering: self._launch(epoch, [order.name], content, answering, log))

    def _launch(self, epoch: int, name: list[str], stdin: int, stdout: int, stderr: int) -> None:
        """Start a launcher, which leaves a child behind and ends."""
        subprocess.run(
            [*LAUNCHER, str(self._state), str(epoch), *name],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd="/",
            env=environment(os.environ),
            start_new_session=True,
            check=False,  # its answer gives the result
        )


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The part of the daemon's own variables that a launcher and its command get."""
    return {name: value for name, value in ours.items() if name not in OF_THE_DAEMON}


def understood(answer: str) -> Begun | NotBegun:
    """The meaning of a launcher's answer. Raises `EpochPassed`."""
    word, _, why = answer.partition(" ")
    match word:
        case detached.BEGUN:
            return Begun(float(why) if why else None)
        case detached.SUPERSEDED:
            raise EpochPassed("another daemon took the state directory over: its launcher starts nothing")
        case detached.HELD:
            return NotBegun("another launcher is about to begin it")
        case detached.TAKEN:
            return NotBegun(f"its run directory can't be made: {why}", for_good=True)
        case detached.FAILED:
            return NotBegun(why)
        case _:
            return NotBegun(
                f"its launcher ended before it began; log/{LOG} in the state directory may say why"
            )


def _answer(ask: Callable[[int], None]) -> str | None:
    """The answer of a launcher that gets this descriptor to write to."""
    answer, answering = os.pipe()
    try:
        try:
            ask(answering)
        finally:
            # Only the launcher holds the other end then, so its death is the end of the answer.
            os.close(answering)
        return _read_line(answer)
    finally:
        os.close(answer)


def _read_line(descriptor: int) -> str | None:
    """The line that is written there, as far as it got; None if it is not terminated in time."""
    give_up = time.monotonic() + PATIENCE
    poll, content = select.poll(), b""
    poll.register(descriptor, select.POLLIN)
    while not content.endswith(b"\n"):
        # A launcher that hangs must not hold up the other starts. It is asked again later.
        if not poll.poll(max(0.0, give_up - time.monotonic()) * 1000):
            return None
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        content += piece
    return content.decode(errors="replace").rstrip("\n")
