"""Waiting until a daemon that was started has read what is there, and one that runs has taken up a change."""

import time
from pathlib import Path
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables.session_lists import sessions_by_status
from runward.daemon.views.daemon_report import report_of

PATIENCE_S: Final = 60.0
BRIEFLY_S: Final = 5.0
"""For a daemon that ran before: it has only to report what it knows."""

_PERIOD_S: Final = 0.1


class Running(NamedTuple):
    """A daemon that works, the sessions that it knows, and how many places it has still to look at."""

    pid: int
    sessions: int
    unread: int

    @property
    def words(self) -> str:
        """The same in words."""
        sessions = "1 session" if self.sessions == 1 else f"{self.sessions} sessions"
        return f"running, pid {self.pid}, {sessions} read" + (" so far" if self.unread else "")

    @property
    def json(self) -> JsonValue:
        """The same for a program."""
        return {**self._asdict()}


def _running(settings: Settings) -> Running | None:
    """The daemon that works over the state now, if it has read what was there when it began."""
    pid = holder(Path(settings.state_dir))
    if not pid:
        return None
    report = report_of(settings.state_dir, pid)
    coverage = report.get("coverage")
    if not isinstance(coverage, dict) or coverage.get("last_scan_at") is None:
        return None
    unread = coverage.get("unread")
    with reading.reading(settings.state_dir) as connection:
        count = sum(sessions_by_status(connection).values())
    return Running(pid, count, unread if isinstance(unread, int) else 0)


def wait_until_read(settings: Settings, patience: float | None = None) -> Running | None:
    """The daemon once it has read everything; after a while as far as it is; None if there is none."""
    until = time.monotonic() + (PATIENCE_S if patience is None else patience)
    while True:
        now = _running(settings)
        if (now is not None and not now.unread) or time.monotonic() > until:
            return now
        time.sleep(_PERIOD_S)
