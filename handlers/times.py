"""Times as texts: as journals, receipts, results and replays write them, and as `--json` prints them and reads them back."""

from datetime import UTC, datetime
from functools import lru_cache

from runward.config.json_value import JsonValue


def in_utc(moment: float) -> str:
    """A moment (Unix seconds) in ISO 8601, in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


@lru_cache(maxsize=256)
def iso_time(at: float) -> str:
    """Unix seconds as ISO 8601 with Z, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def iso(at: float | None) -> str | None:
    """Unix seconds as programs read them: ISO 8601, UTC, with Z."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def moment_of(text: JsonValue) -> float | None:
    """What `iso` printed, as Unix seconds again."""
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
