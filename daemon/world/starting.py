"""Starting runs: a launcher that outlives the daemon, asked once and answered before its command is let go."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from pydantic_core import to_json

from runward.daemon.launch import detached, worktree
from runward.daemon.launch.ticket import throw_away
from runward.daemon.ports.journals import EpochPassed
from runward.daemon.ports.processes import Begun, NotBegun, NotRemoved
from runward.daemon.world.machine import RealProcesses
from runward.handlers.effects import StartRun

LAUNCHER: Final = (sys.executable, "-P", "-m", detached.__name__)
"""The words that start a launcher; `-P`, for nothing may be imported from the directory it is started in."""

LOG: Final = "launcher.log"
"""Beside the daemon's own log: what launchers complain of when nobody waits for them any more."""

PATIENCE: Final = 10.0
"""Seconds that a launcher may take to begin. One that takes longer goes on; the next try finds its ticket held."""

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
"""Variables that are the daemon's own business: with them a command could speak to systemd in its name, or would be
in the trace of anyone who started the daemon."""


class StartingProcesses(RealProcesses):
    """The processes port of a daemon that starts runs; `state` is its state directory."""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self._state = state

    def start(self, order: StartRun, epoch: int) -> Begun | NotBegun:
        """Have the run begin, unless it has. Raises `EpochPassed`; a failure is an answer."""
        try:
            answer = self._ask_launcher(order, epoch)
        except OSError as error:
            return NotBegun(f"no launcher can be started: {error.strerror or error}")
        if answer is None:
            return NotBegun(f"its launcher has not begun after {PATIENCE:g} s")
        return understood(answer)

    def forget_starts(self, owed: Collection[str]) -> None:
        """Tickets of other starts than these are of no use any more: this daemon's epoch has begun."""
        throw_away(self._state, owed)

    def remove_worktree(self, name: str, repo: str) -> str | NotRemoved | None:
        """Remove the worktree that the launcher of this run made."""
        try:
            return worktree.remove(repo, worktree.place_of(str(self._state), name))
        except worktree.GitFailed as failure:
            return NotRemoved(str(failure))

    def _ask_launcher(self, order: StartRun, epoch: int) -> str | None:
        """What a new launcher answers: nothing where it ended without a word, None where it takes too long."""
        log = os.open(
            self._state / "log" / LOG,
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        answer, answering = os.pipe()
        try:
            with open(os.memfd_create("order"), "w+b") as content:
                content.write(to_json(order._asdict()))
                content.seek(0)
                launcher = subprocess.Popen(
                    [*LAUNCHER, str(self._state), str(epoch), order.name],
                    stdin=content,
                    stdout=answering,
                    stderr=log,
                    cwd="/",
                    env=environment(os.environ),
                    start_new_session=True,
                )
            os.close(answering)
            answering = -1
            launcher.wait()  # it leaves a child behind and ends
            return _read_line(answer, PATIENCE)
        finally:
            for descriptor in (log, answer, answering):
                if descriptor >= 0:
                    os.close(descriptor)


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What a launcher and its command get of the daemon's own variables."""
    return {name: value for name, value in ours.items() if name not in OF_THE_DAEMON}


def understood(answer: str) -> Begun | NotBegun:
    """What a launcher's answer says. Raises `EpochPassed`."""
    word, _, why = answer.partition(" ")
    match word:
        case detached.BEGUN:
            return Begun()
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


def _read_line(descriptor: int, patience: float) -> str | None:
    """The line that is written there, as far as it got; None if nobody ends it in time."""
    give_up = time.monotonic() + patience
    poll, content = select.poll(), b""
    poll.register(descriptor, select.POLLIN)
    while not content.endswith(b"\n"):
        if not poll.poll(max(0.0, give_up - time.monotonic()) * 1000):
            return None
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        content += piece
    return content.decode(errors="replace").rstrip("\n")
