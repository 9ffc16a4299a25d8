"""Looking at one session of another tool's: what is new in its files since the last look."""

from runward.daemon.ports import Gone
from runward.daemon.rundir.sights import FilesRead, SessionSight
from runward.handlers.facts import Unreadable
from runward.handlers.layouts.registry import DirectoryLayout, LogLayout


def look_at_session(
    root: str,
    place: str,
    layout: LogLayout | DirectoryLayout,
    known: FilesRead,
    most_bytes: int,
    now: float,
) -> SessionSight | Unreadable | Gone:
    """What is new."""
    raise NotImplementedError
