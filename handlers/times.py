"""Times as texts: as journals, receipts, results and replays write them."""

from datetime import UTC, datetime
from functools import lru_cache


def in_utc(moment: float) -> str:
    """A moment (Unix seconds) in ISO 8601, in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


@lru_cache(maxsize=256)
def iso_time(at: float) -> str:
    """Unix seconds as ISO 8601 with Z, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
