"""Times as journals, receipts and results write them."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=256)
def iso_time(at: float) -> str:
    """Unix seconds as ISO 8601 with Z, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
