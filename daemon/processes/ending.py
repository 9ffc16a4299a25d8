"""How a run ended: what `exit.json` says (the native layout) and the code that the launcher ends with."""

import os
import signal
from typing import Literal, NamedTuple, TypeAlias

Cause: TypeAlias = Literal["exited", "signalled", "timed_out", "cancelled", "not_started"]

TIMED_OUT = 124
BY_SIGNAL = 128


class Ending(NamedTuple):
    """The end of a run. `exit_code` is None where there is a `signal`; the times are of the command's end."""

    cause: Cause
    exit_code: int | None
    signal: int | None
    finished_at: float
    duration_s: float
    error: str | None = None
    survivors_killed: int = 0

    @property
    def launcher_code(self) -> int:
        """What `runward run` ends with, before it holds the contract."""
        if self.cause == "timed_out":
            return TIMED_OUT
        if self.signal is not None:
            return BY_SIGNAL + self.signal
        assert self.exit_code is not None
        return self.exit_code


def ending_of(
    status: int, *, cancelled_by: int | None, timed_out: bool, finished_at: float, duration_s: float
) -> Ending:
    """The ending for a command's wait status, and for what the launcher did to it meanwhile."""
    code = os.waitstatus_to_exitcode(status)
    exit_code, by_signal = (code, None) if code >= 0 else (None, -code)
    if timed_out:
        return Ending("timed_out", exit_code, by_signal, finished_at, duration_s)
    if cancelled_by is not None:
        return Ending("cancelled", None, cancelled_by, finished_at, duration_s)
    cause: Cause = "exited" if by_signal is None else "signalled"
    return Ending(cause, exit_code, by_signal, finished_at, duration_s)


def looks_interrupted(status: int) -> bool:
    """Whether a command ended as one does that was interrupted at its keyboard."""
    return os.waitstatus_to_exitcode(status) in (-signal.SIGINT, BY_SIGNAL + signal.SIGINT)
