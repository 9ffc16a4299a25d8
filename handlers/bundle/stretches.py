"""Which calls in a session's files belong to which of its attempts.

Wherever that is known, the session's log is divided where it had been read when one attempt was over and the next one
began, and of actions the store knows the attempt. Only else times divide the calls: clocks may be set back.

A correction begins and ends at one moment, because it only corrects how the attempt before it ended. So it has that
attempt's calls.
"""

from collections.abc import Sequence
from typing import NamedTuple

from runward.handlers.model.bundle import Stretch


class BeganAndEnded(NamedTuple):
    """An attempt's number, the times of its begin and end (Unix seconds), and the hash of the event that began it.

    `log_before` is how much of the session's log belongs to earlier attempts, `log_up_to` how much belongs to this one
    or to earlier ones: lines, for a native run the bytes of its trace. Both are None if that is not known.
    """

    attempt: int
    started_at: float
    ended_at: float | None
    hash: str | None = None
    log_before: int | None = None
    log_up_to: int | None = None

    @property
    def is_correction(self) -> bool:
        """Whether it only says how the attempt before it ended."""
        return self.attempt > 1 and self.started_at == self.ended_at


def stretch_of(attempts: Sequence[BeganAndEnded], attempt: int) -> Stretch | None:
    """The stretch of one of a session's `attempts`, which are in order. None if it is not among them."""
    found = next((each for each in attempts if each.attempt == attempt), None)
    if found is None:
        return None
    working = [each for each in attempts if not each.is_correction]
    own = next((each for each in reversed(working) if each.attempt <= attempt), found)
    following = next((each for each in working if each.attempt > attempt), None)
    last = [each for each in attempts if following is None or each.attempt < following.attempt][-1]
    return Stretch(
        found.started_at,
        found.ended_at,
        None if own.attempt == 1 else own.started_at,
        None if following is None else following.started_at,
        found.hash,
        None if own.attempt == 1 else own.log_before,
        last.log_up_to,
        (own.attempt, last.attempt),
    )
