"""From the start of a command until nothing of it is left: output, signals and who sent them, timeout, the end and its reason.

One loop, one thread. The timeout counts CLOCK_MONOTONIC: a stepped clock doesn't move it, and a suspended machine
doesn't use it up.
"""

from __future__ import annotations

import os
import select
import signal
import time

from runward.daemon.launch.command import GatedCommand
from runward.daemon.launch.output import PassedStream
from runward.daemon.processes import proc
from runward.daemon.processes.cancelling import CANCEL
from runward.daemon.processes.kernel import open_signal_descriptor
from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from runward.daemon.launch.containment import Containment


STOPPING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
"""Requests to end the run: passed on, and after the grace period the whole tree is killed."""

CANCELLING = frozenset({CANCEL})
"""A person's order through the daemon: the whole tree is asked to end, and killed after the grace period."""

PASSED_ON = frozenset({signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
"""Signals that only concern the command: they are just passed on."""

RESIZING = frozenset({signal.SIGWINCH, signal.SIGCONT})
"""The terminal may have another size than before: its owner was told, or was stopped while it changed."""

_SI_KERNEL = 0x80
_FROM_KEYBOARD = frozenset({signal.SIGINT, signal.SIGQUIT})


class Request(Value):
    """One signal that the launcher got from outside."""

    number: int
    from_keyboard: bool
    """The terminal sent it, to its whole foreground group at once."""
    sender: int


class SignalInbox:
    """Signals as something to wait for and to read. Signals that the caller ignored (nohup) stay ignored."""

    def __init__(self) -> None:
        # An inherited SIG_IGN would let the kernel reap the command, and its status with it.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wanted: set[int] = {
            number for number in STOPPING | PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN
        }
        wanted |= CANCELLING | RESIZING
        self._signals = wanted | {signal.SIGCHLD}
        # Blocked, so that they wait in the kernel with their senders until they are read. A handler would
        # lose who sent them.
        self.caller_mask: AbstractSet[int] = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        self.descriptor = open_signal_descriptor(self._signals)

    def read(self, among: AbstractSet[int] | None = None) -> list[Request]:
        """The signals since the last call; with `among`, only these, and the others wait on.

        A child's end is not reported; waiting for the child shows it.
        """
        requests = []
        while info := signal.sigtimedwait(self._signals if among is None else self._signals & among, 0):
            if info.si_signo != signal.SIGCHLD:
                from_keyboard = info.si_code == _SI_KERNEL and info.si_signo in _FROM_KEYBOARD
                requests.append(Request(info.si_signo, from_keyboard, info.si_pid))
        return requests

    def close(self) -> None:
        """Stops reading; the signals stay blocked, because the launcher is about to end."""
        os.close(self.descriptor)


if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Cause: TypeAlias = Literal["exited", "signalled", "timed_out", "cancelled", "not_started"]


TIMED_OUT = 124
CANCELLED = 143
BY_SIGNAL = 128

BY_THE_SYSTEM = frozenset({signal.SIGTERM, signal.SIGHUP})
"""The signals that a system sends when it shuts down. A person may send them, too."""
SHUTDOWN = "shutdown"
"""The error of a run that the system's shutdown ended (the native layout); more may follow it."""
STALE = "stale"
"""The error of a run that was timed out because it was silent (the native layout); more may follow it."""


class Cancellation(Value):
    """An order to end the run that was not a signal to it; `order` says whose it was, if that is known."""

    order: str | None


class Ending(Value):
    """The end of a run. `exit_code` is None if there is a `signal`; the times are of the command's end."""

    cause: Cause
    exit_code: int | None
    signal: int | None
    finished_at: float
    duration_s: float
    error: str | None = None
    survivors_killed: int = 0

    @property
    def launcher_code(self) -> int:
        """The exit code of `runward run`, before it checks the contract."""
        if self.cause == "timed_out":
            return TIMED_OUT
        if self.signal is not None:
            return BY_SIGNAL + self.signal
        if self.cause == "cancelled":
            return CANCELLED
        assert self.exit_code is not None
        return self.exit_code


def ending_of(
    status: int,
    *,
    cancelled_by: int | None,
    cancellation: Cancellation | None = None,
    timed_out: bool,
    is_stale: bool = False,
    finished_at: float,
    duration_s: float,
) -> Ending:
    """The ending for a command's wait status, given what the launcher did to it meanwhile."""
    code = os.waitstatus_to_exitcode(status)
    exit_code, by_signal = (code, None) if code >= 0 else (None, -code)
    if timed_out:
        error = STALE if is_stale else None
        return Ending("timed_out", exit_code, by_signal, finished_at, duration_s, error=error)
    if cancellation is not None:
        return Ending("cancelled", None, None, finished_at, duration_s, error=cancellation.order)
    if cancelled_by is not None:
        return Ending("cancelled", None, cancelled_by, finished_at, duration_s)
    cause: Cause = "exited" if by_signal is None else "signalled"
    return Ending(cause, exit_code, by_signal, finished_at, duration_s)


def never_began(ending: Ending, why: str) -> Ending:
    """The ending of a run that was ended before its command began."""
    return with_more(ending, f"the command never began: {why}")


def with_more(ending: Ending, more: str | None) -> Ending:
    """The ending with an error that says this, too, behind what it says already."""
    said = [each for each in (ending.error, more) if each is not None]
    return ending._replace(error="; ".join(said) if said else None)


def what_ended_it(ending: Ending) -> str | None:
    """What ended a run early, in a sentence; None if its command ended on its own."""
    after = f"after {ending.duration_s:.1f} s"
    if ending.cause == "timed_out":
        return f"Run timed out {after}."
    if ending.cause == "cancelled":
        return f"Run cancelled {after}."
    if ending.signal is None:
        return None
    return f"Run failed: {_name(ending.signal)} ended it {after}."


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time one


def looks_interrupted(status: int) -> bool:
    """Whether a command ended like one that was interrupted at its keyboard."""
    return os.waitstatus_to_exitcode(status) in (-signal.SIGINT, BY_SIGNAL + signal.SIGINT)


_SETTLE_S = 0.2
"""How long leftover processes of a command may take to end on their own: the last of a pipeline usually does."""
_SETTLED_S = 0.1
"""After this time a command is not one that ends at once, and what only had to wait for such ones is done."""
_SAME_PRESS_S = 0.1
"""Signals this close together count as one request: a key may bounce, or a sender may signal process and group."""


class Preparation:
    """The watch over what must be done before a command can begin: the run may have to end meanwhile.

    What it takes counts towards the run's timeout.
    """

    def __init__(
        self, signals: SignalInbox, timeout: float | None, read_order: Callable[[], str | None]
    ) -> None:
        self._signals = signals
        self._timeout = timeout
        self._read_order = read_order
        self._began = time.monotonic()

    def seconds_left(self) -> float | None:
        """What is left of the timeout."""
        return None if self._timeout is None else max(0.0, self._timeout - (time.monotonic() - self._began))

    def ending(self) -> Ending | None:
        """How the run has to end, if it has to by now. A request is told once."""
        now, duration = time.time(), time.monotonic() - self._began
        for request in self._signals.read(STOPPING | CANCELLING):
            if proc.is_below_us(request.sender):
                continue
            if request.number in CANCELLING:
                return Ending("cancelled", None, None, now, duration, error=self._read_order())
            return Ending("cancelled", None, request.number, now, duration)
        return Ending("timed_out", None, None, now, duration) if self.seconds_left() == 0.0 else None


class Supervision:
    """The watch over one running command; `run` returns how it ended. All times are monotonic seconds."""

    def __init__(
        self,
        command: GatedCommand,
        *,
        program: str,
        signals: SignalInbox,
        streams: Sequence[PassedStream],
        containment: Containment,
        timeout: float | None,
        grace: float,
        is_interactive: bool,
        read_order: Callable[[], str | None],
        silence: Silence | None = None,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._command = command
        self._program = program
        self._had_begun = True
        """Whether it had begun when it was last told anything; else the kernel was still entering its directory or executing it."""
        self._signals = signals
        self._streams = streams
        self._containment = containment
        self._grace = grace
        self._is_interactive = is_interactive
        self._read_order = read_order
        self._started = time.monotonic()
        self._deadline = self._started + timeout if timeout is not None else None
        self._settle = settle
        self._settle_at: float | None = self._started + _SETTLED_S
        self._kill_at: float | None = None
        self._asked_at: float | None = None
        self._silence = silence
        self._timed_out = False
        self._is_stale = False
        self._cancelled_by: int | None = None
        self._cancellation: Cancellation | None = None
        self._interrupted_at: float | None = None
        self._status: int | None = None
        self._ended_at = 0.0
        self._finished_at = 0.0

    def run(self) -> tuple[Ending, frozenset[int]]:
        """Watches until the whole tree is dead. Returns the ending, and who could not be killed."""
        killed: proc.Killed | None = None
        while not self._is_over() and killed is None:
            self._wait()
            now = time.monotonic()
            self._handle_requests(now)  # first: a signal to the whole group also ends the command at once
            # After the signals: what a signal to the whole group ended must count as cancelled, not as ended
            # by itself.
            self._note_exits(proc.reap())
            self._keep_deadline(now)
            if self._settle_at is not None and now >= self._settle_at and self._status is None:
                self._settle_at = None
                self._settle()
            # Whatever is left after the grace period dies, however it got away from its parent.
            if self._kill_at is not None and now >= self._kill_at and not self._is_over():
                self._note_start()
                killed = self._containment.kill()
                self._note_exits(killed.exits)
        for stream in self._streams:
            # The tree is dead, so what is in the pipes is all that will ever come.
            stream.take_in_rest()
        ending = self._as_begun(self._ending())
        if killed is None:
            return ending, frozenset()
        survivors = killed.seen - killed.left - self._command.own
        return ending._replace(survivors_killed=len(survivors)), killed.left

    def _note_start(self) -> None:
        """Before anything is sent to it: a child that was killed looks like one that had begun."""
        if self._status is None:
            self._had_begun = self._command.has_begun()

    def _as_begun(self, ending: Ending) -> Ending:
        """The ending, also of a command that never began."""
        failure = self._command.start_failure()
        if failure is not None:
            error = f"{self._program}: {failure.message}"
            return Ending("not_started", failure.exit_code, None, time.time(), 0.0, error=error)
        # "exited" with an error would be a failure, and this one has begun after all.
        if self._had_begun or ending.cause == "exited":
            return ending
        return never_began(ending, f"entering its directory or executing {self._program} did not return")

    def _is_over(self) -> bool:
        return self._status is not None and self._containment.is_empty()

    def _wait(self) -> None:
        """Until something happened or is due; output that arrived meanwhile is passed on."""
        poll = select.poll()
        poll.register(self._signals.descriptor, select.POLLIN)
        if self._command.status_descriptor is not None and self._status is None:
            poll.register(self._command.status_descriptor, select.POLLIN)
        for stream in self._streams:
            # A stream whose reader is slow isn't read on: the command then waits, as it would with a pipe of
            # its own.
            if stream.wants_input:
                poll.register(stream.source, select.POLLIN)
            if (sink := stream.sink_descriptor) is not None:
                poll.register(sink, select.POLLOUT)
        poll.poll(self._milliseconds_left())
        for stream in self._streams:
            if stream.wants_input:
                if stream.take_in() and self._silence is not None:
                    self._silence.hear(time.monotonic())
            else:
                stream.pass_on()

    def _milliseconds_left(self) -> float | None:
        settle_at = self._settle_at if self._status is None else None
        due = [at for at in (self._next_deadline(), self._kill_at, settle_at) if at is not None]
        # poll(2) itself rounds up; a tick too early would only cost one more turn.
        return max(0.0, (min(due) - time.monotonic()) * 1000) if due else None

    def _next_deadline(self) -> float | None:
        if self._status is not None or self._asked_at is not None:
            return None
        if self._silence is None:
            return self._deadline
        return self._silence.due if self._deadline is None else min(self._deadline, self._silence.due)

    def _note_exits(self, exits: dict[int, int]) -> None:
        self._containment.note_exits(exits)
        if self._status is None and (status := self._command.status_among(exits)) is not None:
            self._status = status
            self._ended_at = time.monotonic()
            self._finished_at = time.time()
            if self._asked_at is None:
                # The last process of a pipeline usually ends by itself right after the command.
                self._kill_at = self._ended_at + _SETTLE_S

    def _handle_requests(self, now: float) -> None:
        for request in self._signals.read():
            if request.number in RESIZING:
                for stream in self._streams:
                    stream.resize()
                continue
            # A command that signals its process group also hits the launcher, and asks nothing of it.
            if proc.is_below_us(request.sender):
                continue
            if request.number in CANCELLING:
                self._handle_order(now)
                continue
            self._pass_on(request)
            if request.number in STOPPING:
                self._handle_stop_request(request, now)

    def _handle_stop_request(self, request: Request, now: float) -> None:
        # The terminal sent it to the command as well. An agent ends its turn at Ctrl-C, and goes on.
        if request.from_keyboard and self._is_interactive and self._had_begun:
            self._interrupted_at = now  # the command's own business: an agent ends its turn, a shell its line
        elif self._asked_at is None and self._status is None:
            self._asked_at, self._kill_at = now, now + self._grace
            self._cancelled_by = request.number
        elif self._asked_at is None:
            self._kill_at = now  # only leftovers are waited for
        # A second request means that the person doesn't want to wait for the grace period.
        elif now - self._asked_at > _SAME_PRESS_S:
            self._kill_at = now

    def _handle_order(self, now: float) -> None:
        """The daemon repeats an order that it may already have given: that changes nothing."""
        if self._asked_at is None and self._status is None:
            self._cancellation = Cancellation(self._read_order())
            self._ask_all(now)

    def _ask_all(self, now: float) -> None:
        self._asked_at, self._kill_at = now, now + self._grace
        self._note_start()
        self._containment.terminate()

    def _pass_on(self, request: Request) -> None:
        self._note_start()
        if self._status is not None or (request.from_keyboard and self._shares_our_group()):
            return
        proc.send_signal(self._command.pid, request.number)
        if request.number in (signal.SIGTERM, signal.SIGHUP):
            proc.send_signal(self._command.pid, signal.SIGCONT)  # a stopped process can't answer

    def _shares_our_group(self) -> bool:
        try:
            return os.getpgid(self._command.pid) == os.getpgrp()
        except ProcessLookupError:
            return True

    def _keep_deadline(self, now: float) -> None:
        deadline = self._next_deadline()
        if deadline is None or now < deadline:
            return
        is_late = self._deadline is not None and now >= self._deadline
        if is_late or (self._silence is not None and self._silence.is_over(now)):
            self._timed_out, self._is_stale = True, not is_late
            self._ask_all(now)

    def _ending(self) -> Ending:
        if self._status is None:
            return self._unkillable()
        return ending_of(
            self._status,
            timed_out=self._timed_out,
            is_stale=self._is_stale,
            cancelled_by=self._cancelled_by or self._interruption(),
            cancellation=self._cancellation,
            finished_at=self._finished_at,
            duration_s=self._ended_at - self._started,
        )

    def _unkillable(self) -> Ending:
        """Stop watching a command that we may not kill, such as one that sudo(8) started."""
        cause: Cause = "timed_out" if self._timed_out else "cancelled"
        error = f"the command, process {self._command.pid}, could not be killed"
        duration = time.monotonic() - self._started
        return Ending(cause, None, self._cancelled_by, time.time(), duration, error=error)

    def _interruption(self) -> int | None:
        """SIGINT if the command ended because of a Ctrl-C, which was its own to handle."""
        assert self._status is not None
        if self._interrupted_at is None:
            return None
        is_soon = self._ended_at - self._interrupted_at <= self._grace
        is_its_end = looks_interrupted(self._status) or (self._status != 0 and is_soon)
        return signal.SIGINT if is_its_end else None


def pass_on_rest(streams: Sequence[PassedStream], signals: SignalInbox, patience: float | None) -> None:
    """Waits until the readers took the rest of the output: at most `patience` seconds, or until a signal."""
    give_up = time.monotonic() + patience if patience is not None else None
    while waiting := [stream for stream in streams if stream.sink_descriptor is not None]:
        left = None if give_up is None else (give_up - time.monotonic()) * 1000
        poll = select.poll()
        poll.register(signals.descriptor, select.POLLIN)
        for stream in waiting:
            assert stream.sink_descriptor is not None
            poll.register(stream.sink_descriptor, select.POLLOUT)
        if (left is not None and left <= 0) or not poll.poll(left):
            return
        if any(request.number in STOPPING for request in signals.read()):
            return
        for stream in waiting:
            stream.pass_on()


class Silence:
    """Counts it from now on, by CLOCK_MONOTONIC. `longest` is the limit in seconds."""

    def __init__(self, longest: float, directory: int) -> None:
        from runward.daemon.rundir.changes import Changes  # nothing for those without

        self._longest = longest
        self._changes = Changes(directory)
        self._heard_at = self._looked_at = time.monotonic()

    @property
    def due(self) -> float:
        """When to check next whether the silence lasted too long (monotonic seconds)."""
        return self._heard_at + self._longest

    def hear(self, now: float) -> None:
        """There was output."""
        self._heard_at = now

    def is_over(self, now: float) -> bool:
        """Whether it lasted too long. Only then is the directory looked at, so a run that writes costs nothing."""
        if now < self.due:
            return False
        newest = self._changes.newest()
        if newest is not None:
            # However the clock was set meanwhile, the change came after the last look.
            age = min(max(0.0, time.time() - newest), now - self._looked_at)
            self._heard_at = max(self._heard_at, now - age)
        self._looked_at = now
        return now >= self.due
