"""What to do about a session that did not complete, by the reason why it ended."""

from collections.abc import Mapping
from typing import Final

from runward.handlers.model.sessions import Status

_BY_REASON: Final[Mapping[str, str]] = {
    "run.failed.missing_artifact": "check which artifacts are missing, and have them delivered: `runward session show {id}`",
    "run.failed.exit_nonzero": "read what it printed last: `runward session logs {id}`",
    "run.failed.signal": "find out who sent the signal: `runward why {id}`",
    "run.failed.exception": "read the error: `runward why {id}`",
    "run.failed.api_error": "check the state of the model's API and the limits of the account, then run it again",
    "run.failed.limit_reached": "raise the limit, or split the task",
    "run.failed.not_started": "correct the command: `runward session show {id}` shows it",
    "run.timed_out.deadline": "give it a longer timeout, or split the task",
    "run.aborted.user": "run it again if it was interrupted by mistake",
    "run.aborted.process_gone": "look for a crash or for the kernel's out-of-memory killer, then run it again",
    "run.aborted.vanished": "find out who removed its directory",
    "run.aborted.never_started": "check whether the agent could start at all",
    "run.aborted.stale": "check whether its process hangs: `runward session show {id}`",
    "run.cancelled.user": "run it again if it is still wanted",
    "run.cancelled.sigterm": "find out who told it to stop: `runward why {id}`",
    "run.cancelled.system": "run it again: the machine was shutting down",
}


def next_steps(status: Status, reason_code: str, session_id: str) -> tuple[str, ...]:
    """The steps, in order. None for a session that completed, or whose reason is not known."""
    step = None if status == "completed" else _BY_REASON.get(reason_code)
    return () if step is None else (step.replace("{id}", session_id),)
