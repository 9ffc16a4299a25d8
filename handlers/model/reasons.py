"""Reasons: every code that a session's status may carry, with its meaning and its status.

Codes have three dotted parts and are stable; scripts rely on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from runward.handlers.model.sessions import Status

ReasonCode: TypeAlias = Literal[
    "run.started.ok",
    "run.started.resumed",
    "run.completed.ok",
    "run.failed.missing_artifact",
    "run.failed.exit_nonzero",
    "run.failed.signal",
    "run.failed.exception",
    "run.failed.api_error",
    "run.failed.limit_reached",
    "run.failed.not_started",
    "run.timed_out.deadline",
    "run.timed_out.stale",
    "run.aborted.user",
    "run.aborted.process_gone",
    "run.aborted.vanished",
    "run.aborted.never_started",
    "run.aborted.stale",
    "run.cancelled.user",
    "run.cancelled.sigterm",
    "run.cancelled.system",
]
"""What a session's status may be due to. mypy refuses any other code where one is given."""

UnknownCode: TypeAlias = Literal["run.unknown.open_turn", "run.unknown.no_process"]
"""What `runward inspect` reports if the files don't tell. No session in the store has one."""

FAILURES: Final = ("failed", "timed_out", "aborted")
"""The statuses of sessions that did not do what they should."""

WANTED_ABORT: Final[ReasonCode] = "run.aborted.user"

MEANINGS: Final[Mapping[ReasonCode, tuple[Status, str]]] = {
    "run.started.ok": ("running", "it started"),
    "run.started.resumed": ("running", "it was resumed"),
    "run.completed.ok": ("completed", "a clean end"),
    "run.failed.missing_artifact": ("failed", "a clean end without a required artifact"),
    "run.failed.exit_nonzero": ("failed", "an exit code other than 0"),
    "run.failed.signal": ("failed", "killed by a signal that Runward didn't send"),
    "run.failed.exception": ("failed", "the agent reports an error or an exception"),
    "run.failed.api_error": ("failed", "the model's API refused or failed the agent's request"),
    "run.failed.limit_reached": ("failed", "the agent's own limit: turns, cost, context or format"),
    "run.failed.not_started": ("failed", "it could not be started"),
    "run.timed_out.deadline": ("timed_out", "Runward's deadline"),
    "run.timed_out.stale": (
        "timed_out",
        "no output and no change in its run directory for longer than allowed",
    ),
    "run.aborted.user": ("aborted", "a person interrupted it"),
    "run.aborted.process_gone": ("aborted", "its process ended without reporting why"),
    "run.aborted.vanished": ("aborted", "its directory vanished while it ran"),
    "run.aborted.never_started": ("aborted", "it began and wrote no line within its root's `start_within`"),
    "run.aborted.stale": ("aborted", "quiet for longer than its root allows"),
    "run.cancelled.user": ("cancelled", "a person told it to stop"),
    "run.cancelled.sigterm": ("cancelled", "it was told to stop by SIGTERM or SIGHUP"),
    "run.cancelled.system": ("cancelled", "the system was shutting down"),
}


_STATUS: Final[Mapping[str, Status]] = {code: status for code, (status, _) in MEANINGS.items()}


def status_of(code: str) -> Status:
    """The status that goes with a reason code. Raises `KeyError` for a code that isn't listed."""
    return _STATUS[code]


def is_failure(status: str, code: str) -> bool:
    """Whether an end with this status and reason is one that nobody wanted: a person should know about it."""
    return status in FAILURES and code != WANTED_ABORT
