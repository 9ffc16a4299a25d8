"""Starting runs: a launcher that outlives the daemon gets an order, and announces its run before it releases its command.

A launcher that is free again takes the next order. One is always kept ready, so that no start waits for a process.
"""

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from runward.daemon.disk.epoch import EpochPassed
from runward.daemon.faults import point
from runward.daemon.inbox.launches import load_launch
from runward.daemon.launch import channel
from runward.daemon.launch.channel import Heard, Message
from runward.daemon.launch.ticket import throw_away
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered
from runward.daemon.world.processes import Announced, Begun, NotBegun, NotRemoved, RealProcesses
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.processes import RunPlace
from runward.handlers.model.sessions import RunLaunched, RunProcesses
from runward.handlers.model.stored import as_json

LAUNCHER: Final = (sys.executable, "-P", "-m", "runward.daemon.launch.detached")
"""The words that start a launcher; `-P`, for nothing may be imported from the directory it is started in. The state
directory and the epoch follow, and the run's name: without one it forks launchers."""

LOG: Final = "launcher.log"
"""A file next to the daemon's own log: the errors of launchers that nobody waits for any more."""

MOST_FREE: Final = 8
"""Launchers that are kept for further orders; each holds a few MB of its own."""

PATIENCE: Final = 10.0
"""Seconds that a launcher may take to begin. One that takes longer continues; the next try finds its ticket locked."""

OF_THE_DAEMON: Final = frozenset(
    {
        "RUNWARD_FAULT",
        "RUNWARD_RUN_FAULT",
        "RUNWARD_FLEET_FAULT",
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
        super().__init__(state)
        self._state = state
        self._forking: tuple[int, socket.socket] | None = None
        """What forks a launcher for each order that it is given, with the epoch it was started in."""
        self._free: list[tuple[int, socket.socket]] = []
        """Our ends of the channels to launchers that wait for an order, with the epochs they were started in."""
        self._giving = threading.Lock()
        """Held where an order is given, and where what could take one is let go."""

    def close(self) -> None:
        """Start no more runs. Launchers that wait for an order end."""
        with self._giving:
            if self._forking is not None:
                self._forking[1].close()
            self._forking = None
            while self._free:
                self._free.pop()[1].close()

    def tell_to_end(self, processes: RunProcesses, place: RunPlace) -> EndOrdered | EndNotOrdered:
        # A launcher that still holds this run's ticket when it is asked gets no other order before it was told.
        with self._giving:
            return super().tell_to_end(processes, place)

    def take_back(self, epoch: int, end: socket.socket) -> None:
        """A launcher waits for another order."""
        with self._giving:
            # Another daemon's launchers would refuse to begin anything.
            if self._forking is None or self._forking[0] != epoch or len(self._free) >= MOST_FREE:
                end.close()
            else:
                self._free.append((epoch, end))

    def start(self, order: StartRun, epoch: int) -> Begun | Announced | NotBegun:
        """Begin the run, unless it has begun. Raises `EpochPassed`; a failure is an answer."""
        try:
            ours = self._ask_launcher(order, epoch)
        except OSError as error:
            return NotBegun(f"no launcher can be started: {error.strerror or error}")
        if isinstance(ours, NotBegun):
            return ours
        end, heard = ours
        self._keep_one_ready(epoch)
        announced = _announced(order, heard)
        if announced is not None:
            return Announced(
                *announced, LauncherSpokenTo(end, announced[0].launcher[0], partial(self.take_back, epoch))
            )
        # Closed, a launcher that announced what isn't understood uses the inbox.
        end.close()
        return understood(heard.message)

    def forget_starts(self, owed: Collection[str]) -> None:
        """Tickets of other starts than these are useless now: this daemon's epoch has begun."""
        throw_away(self._state, owed)

    def remove_worktree(self, name: str, repo: str) -> str | NotRemoved | None:
        """Remove the worktree that the launcher of this run made."""
        from runward.daemon.launch import worktree  # nothing for those without

        try:
            return worktree.remove(repo, worktree.place_of(str(self._state), name))
        except worktree.GitFailed as failure:
            return NotRemoved(str(failure))

    def expect_start(self, epoch: int) -> None:
        """Make sure that the next starts don't wait for an interpreter: a prepared process forks their launchers."""
        # A process of another epoch would give its launchers that epoch, and they would refuse to begin.
        if self._forking is not None and self._forking[0] == epoch and not _is_over(self._forking[1]):
            self._keep_one_ready(epoch)
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
        self._keep_one_ready(epoch)

    def _keep_one_ready(self, epoch: int) -> None:
        """Have a launcher forked that has no order yet, unless one waits for an order."""
        with self._giving:
            if any(each == epoch for each, _ in self._free):
                return
        ours, theirs = channel.pair()
        log = nothing = None
        try:
            with theirs:
                log, nothing = self._open_log(), os.memfd_create("no order")
                self._give(epoch, (nothing, theirs.fileno(), log))
        except OSError:
            ours.close()  # the next start finds none, and has one forked itself
            return
        finally:
            for descriptor in (log, nothing):
                if descriptor is not None:
                    os.close(descriptor)
        self.take_back(epoch, ours)

    def _ask_launcher(self, order: StartRun, epoch: int) -> "_Answer | NotBegun":
        """A launcher's answer, or why there is none."""
        log = self._open_log()
        try:
            # In memory: an order holds a command and its environment, and needs no file that somebody must
            # remove.
            with open(os.memfd_create("order"), "w+b") as content:
                content.write(as_json(order).encode())
                content.flush()
                answer = self._ask_free(epoch, content.fileno())
                if answer is None:
                    answer = self._ask_forked(epoch, content.fileno(), log)
                # The prepared process may have ended or been killed. A new launcher is always possible, and
                # the ticket keeps the start from happening twice.
                return self._ask_new(order, epoch, content.fileno(), log) if answer is None else answer
        finally:
            os.close(log)

    def _open_log(self) -> int:
        return os.open(
            self._state / "log" / LOG,
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )

    def _ask_free(self, epoch: int, content: int) -> "_Answer | NotBegun | None":
        """The answer of a launcher that waits for an order; None if there is none, or all of them have ended."""
        while True:
            with self._giving:
                waiting = next((each for each in reversed(self._free) if each[0] == epoch), None)
                if waiting is None:
                    return None
                self._free.remove(waiting)
                is_ordered = channel.send_order(waiting[1], content)
            answer = _first_answer(waiting[1]) if is_ordered else None
            if answer is None:
                waiting[1].close()
                continue
            # Perhaps nobody has forked it: then what forks is not asked again either.
            if isinstance(answer, NotBegun):
                self.close()
            return answer

    def _ask_forked(self, epoch: int, content: int, log: int) -> "_Answer | NotBegun | None":
        """A forked launcher's answer; None if it ended without one. A process that doesn't answer is not asked again."""
        os.lseek(content, 0, os.SEEK_SET)
        answer = _answer(lambda answering: self._give(epoch, (content, answering, log)))
        if answer is None or isinstance(answer, NotBegun):
            self.close()
        return answer

    def _give(self, epoch: int, descriptors: Sequence[int]) -> None:
        """Give an order to the process that forks launchers, if it still exists; else there is no answer."""
        with self._giving:
            if self._forking is not None and self._forking[0] == epoch:
                with suppress(BrokenPipeError, ConnectionResetError):
                    # The descriptors are copied to the other process, so it needs no right to open anything.
                    socket.send_fds(self._forking[1], [b"."], descriptors, socket.MSG_NOSIGNAL)

    def _ask_new(self, order: StartRun, epoch: int, content: int, log: int) -> "_Answer | NotBegun":
        os.lseek(content, 0, os.SEEK_SET)
        answer = _answer(lambda answering: self._launch(epoch, [order.name], content, answering, log))
        return answer or NotBegun(
            f"its launcher ended before it began; log/{LOG} in the state directory may say why"
        )

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


def _is_over(server: socket.socket) -> bool:
    """Whether the process at the other end has ended: it never says anything."""
    poll = select.poll()
    poll.register(server, select.POLLIN)
    return bool(poll.poll(0))


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The part of the daemon's own variables that a launcher and its command get."""
    return {name: value for name, value in ours.items() if name not in OF_THE_DAEMON}


class _Answer(NamedTuple):
    """The first thing that a launcher said, and our end of the channel to it."""

    end: socket.socket
    heard: Heard


class LauncherSpokenTo:
    """The daemon's end of the channel to a launcher that announced its run."""

    def __init__(self, end: socket.socket, launcher: int, take_back: Callable[[socket.socket], None]) -> None:
        self._end: socket.socket | None = end
        self._launcher = launcher
        self._take_back = take_back

    def acknowledge(self) -> None:
        """Say that the launch is recorded; a launcher that has gone on without it doesn't mind."""
        if self._end is not None:
            channel.send(self._end, Message(channel.RECORDED))
            point("start.acknowledged")

    async def ended(self) -> None:
        """Wait until the launcher says that its run is over, ends, or says anything else."""
        if self._end is not None:
            await anyio.wait_readable(self._end)
            point("start.ended")

    async def freed(self) -> None:
        """Wait until the launcher waits for another order. If it says or does anything else, it gets none."""
        end = self._end
        for word in (channel.ENDED, channel.FREE):
            if end is None or not await self._hears(end, word):
                self.close()
                return
        if end is not None:
            point("start.free")
            self._end = None
            self._take_back(end)
            point("start.freed")

    async def _hears(self, end: socket.socket, word: str) -> bool:
        await anyio.wait_readable(end)
        try:
            heard = channel.receive(end)
        except BlockingIOError:
            return False
        if heard is None or heard.message is None:
            return False
        # Another process that got hold of the descriptor must not make us give it an order.
        return heard.message.word == word and (heard.pid, heard.uid) == (self._launcher, os.geteuid())

    def close(self) -> None:
        if self._end is not None:
            self._end.close()
        self._end = None


def _announced(order: StartRun, heard: Heard) -> tuple[RunLaunched, float] | None:
    """What a launcher announced; None if it was not this run's launcher, or did not announce this run."""
    message = heard.message
    if message is None or message.word != channel.ANNOUNCED or message.launch is None or message.at is None:
        return None
    try:
        launch = load_launch(message.launch)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not isinstance(launch, RunLaunched) or launch.session_key != order.session:
        return None
    # Another process may have got hold of the descriptor. Only the launcher itself may speak for its run.
    if heard.uid != os.geteuid() or heard.pid != launch.launcher[0]:
        return None
    return launch, message.at


def understood(message: Message | None) -> Begun | NotBegun:
    """The meaning of a launcher's refusal, or of its word that it began. Raises `EpochPassed`."""
    if message is None:
        return NotBegun(_NOT_UNDERSTOOD)
    match message.word:
        case channel.BEGUN:
            return Begun(message.at)
        case channel.SUPERSEDED:
            raise EpochPassed("another daemon took the state directory over: its launcher starts nothing")
        case channel.HELD:
            return NotBegun("another launcher is about to begin it")
        case channel.TAKEN:
            return NotBegun(f"its run directory can't be made: {message.why}", for_good=True)
        case channel.FAILED:
            return NotBegun(message.why)
        case _:
            return NotBegun(_NOT_UNDERSTOOD)


_NOT_UNDERSTOOD: Final = "its launcher said something that this daemon doesn't understand"


def _answer(ask: Callable[[int], None]) -> _Answer | NotBegun | None:
    """The answer of a launcher that gets this descriptor to speak on; None if it ended without one."""
    ours, theirs = channel.pair()
    try:
        # Only the launcher holds the other end then, so its death is the end of the channel.
        with theirs:
            ask(theirs.fileno())
    except BaseException:
        ours.close()
        raise
    answer = _first_answer(ours)
    if answer is None:
        ours.close()
    return answer


def _first_answer(ours: socket.socket) -> _Answer | NotBegun | None:
    """What the launcher at the other end says to its order; None if it ended without a word."""
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    try:
        # A launcher that hangs must not hold up the other starts. It is asked again later.
        is_late = not poll.poll(PATIENCE * 1000)
        heard = None if is_late else channel.receive(ours)
    except BaseException:
        ours.close()
        raise
    if heard is not None:
        return _Answer(ours, heard)
    if is_late:
        ours.close()
        return NotBegun(f"its launcher has not begun after {PATIENCE:g} s")
    return None
