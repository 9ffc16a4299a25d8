"""History: how a session ended that was over before its root was first seen.

Pure. Its caller knows whether the root records history at all, and whether this is the first sight of the session.
"""

from typing import Final, NamedTuple

from runward.handlers.layouts.transcript import Close, Told
from runward.handlers.model.sessions import Evidence
from runward.handlers.sessions.over import NO_PROCESS, OPEN_TURN, Standing

LONG_QUIET: Final = 86_400.0
"""Seconds without a change before a root was first seen, after which an undecidable session is history."""

_DAY: Final = 86_400.0


class End(NamedTuple):
    """An attempt's end: when (Unix seconds), by what evidence, and how. `gone_by` as in `Standing`."""

    at: float
    evidence: Evidence
    close: Close
    gone_by: float | None = None


def end_by(standing: Standing, otherwise: float) -> End:
    """The end of a session in this state. `otherwise` is when it ended, if its files don't say so."""
    state = standing.state
    assert state != "unknown", "what has evidence has ended"
    assert standing.evidence is not None, "asked for only then"
    code = standing.reason_code
    assert code != OPEN_TURN, "likewise"
    assert code != NO_PROCESS, "likewise"
    at = otherwise if standing.ended_at is None else standing.ended_at
    return End(at, standing.evidence, Close(state, code, standing.reason_summary), standing.gone_by)


def end_before(told: Told, standing: Standing, changed_at: float, first_seen_at: float) -> End | None:
    """How a session ended before `first_seen_at`. None for one that still runs, or ended later.

    `changed_at` is when its files changed last.
    """
    if standing.evidence is not None:
        end = end_by(standing, changed_at)
        return end if end.at < first_seen_at else None
    quiet_s = first_seen_at - changed_at
    if standing.state != "unknown" or quiet_s <= LONG_QUIET:
        return None
    at, close = changed_at if told.moved_at is None else told.moved_at, told.close
    if told.turn == "closed" and close is not None:
        return End(at if close.at is None else close.at, "quiet", close)
    summary = f"nothing had been heard of it for {quiet_s / _DAY:.0f} days when its root was first seen"
    return End(at, "quiet", Close("aborted", "run.aborted.stale", summary))


def ended(standing: Standing, end: End) -> Standing:
    """The state of a session that ended this way."""
    close = end.close
    return standing._replace(
        state=close.status,
        evidence=end.evidence,
        reason_code=close.reason_code,
        reason_summary=close.reason_summary,
        ended_at=end.at,
        activity=None,
        again_in=None,
    )
