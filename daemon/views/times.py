"""Times as programs read them."""

from datetime import UTC, datetime

from runward.config.json_value import JsonValue


def iso(at: float | None) -> str | None:
    """Unix seconds as programs read them: ISO 8601, UTC, with Z."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def moment_of(text: JsonValue) -> float | None:
    """What `iso` printed, as Unix seconds again."""
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
