"""The coverage meter: how many changes the watch noticed, and how many only a scan found."""

from dataclasses import dataclass


@dataclass(slots=True)
class Coverage:
    """Counts since the daemon started. Times are Unix seconds, costs are seconds."""

    watched: int = 0
    flat: int = 0
    overflows: int = 0
    found_by_scan: int = 0
    last_scan_at: float | None = None
    last_scan_s: float = 0.0
    unread: int = 0
    """Places that are still to be looked at, after everything else: a home that is seen for the first time has thousands."""
