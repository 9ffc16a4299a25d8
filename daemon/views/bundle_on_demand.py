"""What the bundle of a session is made from if the daemon does not write it."""

import json
import sqlite3

from runward.config.settings import Settings
from runward.daemon.store.reading_artifacts import Wanted, artifacts
from runward.daemon.store.reading_attempts import attempts_of, finished_hash
from runward.daemon.store.reading_sessions import SessionRow, status_history
from runward.daemon.store.reading_told_actions import actions_taken
from runward.handlers.bundle.orders import next_steps
from runward.handlers.calls import stretch_of
from runward.handlers.model.bundle import BundleOrder, Verdict


def order_on_demand(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, attempt: int
) -> BundleOrder | None:
    """What a bundle is made from if the daemon doesn't write it; None if there is no such attempt."""
    attempts = attempts_of(connection, row.key)
    stretch = stretch_of(attempts, attempt)
    if stretch is None:
        return None
    changes = tuple(
        each.summary for each in reversed(artifacts(connection, Wanted(session=row.key))) if each.summary
    )
    cwd, usage = _about(row)
    status, code, summary = _end_of(connection, row, attempt)
    ended_at = stretch.ended_at if stretch.ended_at is not None else stretch.started_at
    return BundleOrder(
        row.key,
        row.session_id,
        row.layout,
        row.path,
        "",
        attempt,
        stretch,
        Verdict(
            ended_at,
            status,  # type: ignore[arg-type] # the schema's own words
            code,
            summary,
            row.delivery if attempt == row.attempt else None,  # type: ignore[arg-type] # likewise
            finished_hash(connection, row.key, attempt),
        ),
        settings.bundle,
        changes,
        next_steps(status, code, row.session_id),  # type: ignore[arg-type] # likewise
        usage,
        None,
        cwd,
        actions=actions_taken(connection, row.key),
    )


def _end_of(connection: sqlite3.Connection, row: SessionRow, attempt: int) -> tuple[str, str, str]:
    """Status, reason and its summary of an attempt."""
    if attempt == row.attempt:
        return row.status, row.reason_code, row.reason_summary
    found = [each for each in status_history(connection, row.key) if each.attempt == attempt]
    return found[-1].status, found[-1].reason_code, found[-1].reason_summary


def _about(row: SessionRow) -> tuple[str | None, tuple[int, int] | None]:
    if row.about is None:
        return None, None
    cwd, _, _, given, made = json.loads(row.about)
    return cwd, None if given is None or made is None else (given, made)
