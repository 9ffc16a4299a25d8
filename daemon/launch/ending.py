"""How a run ended: the content of `exit.json` (the native layout) and the launcher's exit code."""

from __future__ import annotations

import os
import signal

from runward.daemon.processes.values import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Cause: TypeAlias = Literal["exited", "signalled", "timed_out", "cancelled", "not_started"]


TIMED_OUT = 124
CANCELLED = 143
BY_SIGNAL = 128

BY_THE_SYSTEM = frozenset({signal.SIGTERM, signal.SIGHUP})
"""The signals that a system sends when it shuts down. A person may send them, too."""
SHUTDOWN = "shutdown"
"""The error of a run that the system's shutdown ended (the native layout)."""
STALE = "stale"
"""The error of a run that was timed out because it was silent (the native layout)."""


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
