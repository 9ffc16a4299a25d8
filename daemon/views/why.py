"""Why something is the way it is, as the object of `why --json`; `exchange.py` says it for what is in the exchange.

The command imports this each time, so it imports little.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store import reading_sessions
from runward.daemon.store.reading_chains import ApprovalRow, ChainRunRow
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views import causes, obstacles
from runward.daemon.views.causes import Entry
from runward.daemon.views.chain_runs import AskedRun
from runward.daemon.views.obstacles import Obstacle
from runward.daemon.views.sessions import produced_of, verification_of
from runward.daemon.views.unjudged import NOT_JUDGED

_NAMED: Final = 5
"""Delivered files that are named in one line."""


class Story(NamedTuple):
    """Everything to say about one thing. `headline` says in a sentence what it is now."""

    noun: str
    identifier: str
    status: str | None
    headline: str
    entries: Sequence[Entry]
    obstacles: Sequence[Obstacle]
    delivered: str | None = None

    def as_json(self) -> JsonValue:
        return {
            "subject": {"noun": self.noun, "id": self.identifier},
            "status": self.status,
            "summary": self.headline,
            "causes": [entry.as_json() for entry in self.entries],
            "not_done": [obstacle.as_json() for obstacle in self.obstacles],
        }


def session_story(connection: sqlite3.Connection, row: SessionRow, is_up: bool, now: float) -> Story:
    """A session; one that is not judged yet, according to its files. `is_up` says whether a daemon runs."""
    if not row.not_judged_yet:
        return _of_recorded(connection, row, is_up, now)
    headline = f"{NOT_JUDGED}; by its own files: {row.reason_code}, {row.reason_summary}"
    recorded = reading_sessions.session(connection, row.key)
    if recorded is not None:
        return _of_recorded(connection, recorded, is_up, now)._replace(status=row.status, headline=headline)
    return Story("session", row.key, row.status, headline, [], [obstacles.not_judged(is_up)])


def _of_recorded(connection: sqlite3.Connection, row: SessionRow, is_up: bool, now: float) -> Story:
    return Story(
        "session",
        row.key,
        row.status,
        f"{row.reason_code}, {row.reason_summary}",
        causes.causes_of_session(connection, row.key),
        obstacles.of_session(connection, row, is_up, now),
        _delivered(row),
    )


def _delivered(row: SessionRow) -> str | None:
    """What was delivered, and where it was looked for; None if nothing was verified."""
    if verification_of(row) is None:
        return None
    files = produced_of(row)
    named = ", ".join(f"{each['id']} ({each['path']})" for each in files[:_NAMED])
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return f"delivered in {row.artifacts_path}: {named or 'nothing'}{more}"


def chain_run_story(connection: sqlite3.Connection, row: ChainRunRow, is_up: bool) -> Story:
    """A run of a chain: what fired it, and what was decided of each step."""
    return Story(
        "chain run",
        row.id,
        row.status,
        f"{row.reason_code}, {row.reason_summary}",
        causes.causes_of_chain_run(connection, row.id),
        list(obstacles.of_chain_run(connection, row, is_up)),
    )


def asked_run_story(run: AskedRun, is_up: bool) -> Story:
    """A chain run that somebody asked for and that no daemon has recorded yet."""
    headline = f"{run.said_by} asked for the chain {run.chain} to be fired"
    return Story("chain run", run.id, "asked", headline, [], [obstacles.not_taken_up(is_up)])


def approval_story(connection: sqlite3.Connection, row: ApprovalRow) -> Story:
    """A step that waits for a person, or that somebody decided about: what led to it, and what followed in its run."""
    by = f" by {row.decided_by}" if row.decided_by else ""
    note = f": {row.note}" if row.note else ""
    return Story(
        "approval",
        row.id,
        row.status,
        f"step {row.step} of {row.run} ({row.chain}): {row.status}{by}{note}",
        causes.causes_of_chain_run(connection, row.run),
        [],
    )
