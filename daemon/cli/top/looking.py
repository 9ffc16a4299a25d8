"""What `runward top` shows: read again when something was committed, and now and then for what no commit tells."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.settings import Settings
from runward.daemon.store import reading
from runward.daemon.store.changes import Changes
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.store.tables.session_lists import EVERY, unseen_failures
from runward.daemon.views.daemon_report import report_of, stalled_s
from runward.daemon.views.rows import Row, listing
from runward.daemon.views.today import used_today

if TYPE_CHECKING:
    from runward.daemon.views.answers import Answer

MOST_ENDED: Final = 50
"""Rows of what ended, as in `session list`."""

_UNTOLD_S: Final = {True: 10.0, False: 2.0}
"""Seconds after which all is read again, by whether a daemon runs: without one, new runs are in no commit."""


class Seen(NamedTuple):
    """What there was at a moment. `since` is when the daemon started, None if none runs; `trouble` why nothing could be read.

    `used_today` says what the replies of today cost, and at which prices; None if there were none.
    """

    at: float
    rows: list[Row]
    failed: int = 0
    is_up: bool = False
    is_stalled: bool = False
    since: float | None = None
    used_today: str | None = None
    trouble: str | None = None

    def count(self, state: str) -> int:
        """How many sessions and chain runs are in this state."""
        return sum(row.state == state for row in self.rows)


class Looking:
    """Looks at the store, as seldom as that shows everything in time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._changes = Changes(settings.state_dir)
        self._seen: Seen | None = None
        self._why: tuple[str, Answer | None] | None = None

    def close(self) -> None:
        """Let go of the store."""
        self._changes.close()

    def seen(self) -> Seen:
        """What there is; the same object as the last time if nothing is new."""
        # Asked first: what is committed while this reads is new at the next call.
        has_changed = self._changes.has_changed()
        now, seen = time.time(), self._seen
        if seen is None or has_changed or not 0 <= now - seen.at < _UNTOLD_S[seen.is_up]:
            seen = self._seen = self._read(now)
            self._why = None
        return seen

    def why(self, row: Row) -> "Answer | None":
        """Why the row is as it is; None if that is not known any more."""
        if self._why is None or self._why[0] != row.key:
            self._why = row.key, self._answer(row)
        return self._why[1]

    def whole(self, row: Row) -> list[str]:
        """All of why, as `runward why --all` has it; secrets are still in it."""
        from runward.daemon.cli.why import whole_lines
        from runward.daemon.views.row_answers import story_of_row

        with reading.reading(self._settings.state_dir) as connection:
            story = story_of_row(connection, self._settings, row, time.time())
        return [] if story is None else whole_lines(story)

    def answered(self, answer: Callable[[sqlite3.Connection], str | None]) -> str | None:
        """What the store says about a request; None if that is nothing yet."""
        try:
            with reading.reading(self._settings.state_dir) as connection:
                return answer(connection)
        except StoreUnreadable:
            return None  # asked again when it can be read

    def _read(self, now: float) -> Seen:
        state = self._settings.state_dir
        pid = holder(Path(state))
        report = report_of(state, pid)
        since, told_at = report.get("since"), report.get("told_at")
        stalled = stalled_s(told_at if isinstance(told_at, float) else None, time.monotonic())
        seen = Seen(
            at=now,
            rows=[],
            is_up=pid is not None,
            is_stalled=stalled is not None,
            since=since if isinstance(since, float) else None,
        )
        try:
            with reading.reading(state) as connection:
                listed = listing(connection, self._settings, EVERY, MOST_ENDED, now)
                failed = unseen_failures(connection, now, 0).total
                used = used_today(connection, self._settings, now)
        except StoreUnreadable as error:
            return seen._replace(trouble=str(error))  # a restore may be replacing it
        return seen._replace(
            rows=listed.rows,
            failed=failed,
            used_today=None if used is None else f"{used.in_dollars()} today{used.at_prices()}",
        )

    def _answer(self, row: Row) -> "Answer | None":
        from runward.daemon.views.row_answers import answer_of_row  # the list is there before

        try:
            with reading.reading(self._settings.state_dir) as connection:
                return answer_of_row(connection, self._settings, row, time.time())
        except StoreUnreadable:
            return None  # the list says why
