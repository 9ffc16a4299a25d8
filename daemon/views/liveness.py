"""What is said about a session that may or may not be running."""

from typing import Final

from runward.config.settings_keys import DEFAULT_LAYOUT
from runward.daemon.rundir.changes import last_change
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views.text import ago, duration, local

NOBODY_CAN_TELL: Final = "it is not known whether it still runs"

_HOOKED: Final = ("claude-code", "codex")


def is_unknown(row: SessionRow) -> bool:
    """Whether the record says `running` only because nobody saw the session's end."""
    return row.status == "running" and row.activity is None


def silence(row: SessionRow, now: float) -> str:
    """How long it has been silent, which is the only evidence."""
    heard = last_change(row.path)
    return "-" if heard is None else f"silent {duration(max(0.0, now - heard))}"


def in_full(row: SessionRow, now: float) -> str:
    """What it is doing, for its page: that this is unknown, and how long it has been silent."""
    heard = last_change(row.path)
    said = f"unknown: {NOBODY_CAN_TELL}"
    return (
        said if heard is None else f"{said}; nothing has been heard since {local(heard)} ({ago(heard, now)})"
    )


def fix_of(layout: str) -> str:
    """What can be done about such a session, and about future ones."""
    if layout == DEFAULT_LAYOUT:
        return "write its exit.json; the next one should name its process in process.json"
    said = "`stale_after` of its root ends such a session after a silence"
    if layout not in _HOOKED:
        return said
    return f"{said}; `runward hook install {layout}` makes the processes of later sessions known"
