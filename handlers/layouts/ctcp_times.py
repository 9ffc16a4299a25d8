"""Times in a CTCP run directory: its orchestrator writes them without a zone, other parts of it with one.

What is written is kept as it is, because the zone is known only if `RUN.json` was seen fresh.
"""

from datetime import UTC, datetime
from typing import Final

from runward.config.plain_data import LATEST

LONGEST_TIME: Final = 40
"""Characters of a time that are kept: no real time is longer."""

_QUARTER: Final = 900
_FARTHEST_ZONE: Final = 14 * 3600
_LAG: Final = 2


def ahead_of_utc(written: str | None, modified_at: float) -> int:
    """How far zoneless times are ahead of UTC (s), from one of them and the time at which its file was written.

    0 if the two don't differ by about a multiple of a quarter of an hour, as in a copy that was made later.
    """
    local = time_at(written, 0)
    if local is None:
        return 0
    difference = local - modified_at
    if not -_FARTHEST_ZONE - _LAG <= difference <= _FARTHEST_ZONE + _LAG:
        return 0
    zone = round(difference / _QUARTER) * _QUARTER
    return zone if abs(difference - zone) <= _LAG else 0


def time_at(written: str | None, ahead: int) -> float | None:
    """ISO 8601 as Unix seconds. Real files mix times with a zone and times without one."""
    if written is None:
        return None
    try:
        moment = datetime.fromisoformat(written)
        at = moment.timestamp() if moment.tzinfo else moment.replace(tzinfo=UTC).timestamp() - ahead
    except (ValueError, OverflowError):
        return None
    return at if 0.0 <= at <= LATEST else None
