"""Moments as texts."""

from datetime import UTC, datetime


def in_utc(moment: float) -> str:
    """A moment (Unix seconds) in ISO 8601, in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
