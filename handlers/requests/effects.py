"""What a request can have the daemon do."""

from typing import Literal, NamedTuple, TypeAlias

from runward.handlers.sessions.facts import RunProcesses


class ReleaseJob(NamedTuple):
    """Put a held job back into its lane, or give it up, which frees the lane."""

    job: int
    state: Literal["waiting", "discarded"]
    reason: str


class CancelRun(NamedTuple):
    """Have the launcher of an attempt in `directory` end it, or its process if no launcher is left.

    `attempt` identifies the pending order. The processes are signalled only if they are still the ones recorded.
    """

    key: str
    attempt: int
    directory: str
    processes: RunProcesses
    said_by: str
    reason: str


class ScanRoots(NamedTuple):
    """Have every root scanned soon. Safe to repeat, so it needs no row in the outbox."""


class AcceptRoot(NamedTuple):
    """Let a root be the directory `identity` (device and inode) from now on."""

    root: str
    identity: str


class PruneSessions(NamedTuple):
    """Have the record of the sessions that ended before a moment (Unix seconds) pruned, in the background."""

    before: float
    said_by: str


RequestEffect: TypeAlias = ReleaseJob | CancelRun | ScanRoots | AcceptRoot | PruneSessions
