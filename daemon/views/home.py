"""What a person should know at a glance: what needs them, what works, and what ended last."""

import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.tables.approvals import ApprovalRow, open_approvals
from runward.daemon.store.tables.session_lists import EVERY, unseen_failures
from runward.daemon.views.needs import Need, needs, table
from runward.daemon.views.rows import Row, listing, session_rows_of
from runward.daemon.views.status import status_in

if TYPE_CHECKING:
    from runward.daemon.views.usage import Sum

MOST: Final = 24
"""Rows of each kind that are read: a screen has no room for more."""

_ROWS_OF_THEIR_OWN: Final = ("approval", "agent", "failure")
"""Kinds of needs that are told by their rows."""


class Home(NamedTuple):
    """`failures` are the newest of `failed`; `others` are needs of further kinds; `open` is all that has not ended.

    `used_today` is None if nothing was.
    """

    status: dict[str, JsonValue]
    used_today: "Sum | None"
    approvals: list[ApprovalRow]
    failures: list[Row]
    failed: int
    others: list[Need]
    open: list[Row]
    ended: list[Row]

    @property
    def waiting_agents(self) -> list[Row]:
        return [row for row in self.open if row.state == "waiting" and row.noun == "session"]

    def count(self, *states: str) -> int:
        """How many sessions and chain runs are in these states."""
        return sum(row.state in states for row in self.open)


def home_of(connection: sqlite3.Connection, settings: Settings, now: float) -> Home:
    """All of it, as it is now."""
    # Reading chains and playbooks would double what this costs.
    told = status_in(connection, settings, now, is_brief=True)
    status = told.json
    listed = listing(connection, settings, EVERY, MOST, now)
    failures = unseen_failures(connection, now, MOST)
    failed = table(status["failures"])["count"]
    return Home(
        status=status,
        used_today=told.used_today,
        approvals=open_approvals(connection, MOST),
        failures=session_rows_of(connection, settings, failures.newest, now),
        failed=failed if isinstance(failed, int) else 0,
        others=[each for each in needs(status, settings.state_dir) if each.kind not in _ROWS_OF_THEIR_OWN],
        open=listed.open,
        ended=listed.ended,
    )
