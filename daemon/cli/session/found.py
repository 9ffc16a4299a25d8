"""Sessions as `session list` and `session show` find them, for programs."""

import sqlite3

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.session.as_json import details_of
from runward.daemon.cli.session.unjudged import unjudged
from runward.daemon.store import reading_sessions
from runward.daemon.store.reading_artifacts import Wanted, artifacts
from runward.daemon.store.reading_files import kept_files
from runward.daemon.store.reading_problems import problems
from runward.daemon.store.reading_sessions import SessionRow
from runward.handlers.secrets import without_secrets_in


def newest_sessions(
    connection: sqlite3.Connection, settings: Settings, wanted: reading_sessions.Wanted, limit: int
) -> tuple[list[SessionRow], bool]:
    """The newest `limit` sessions (0: all) that are wanted, and whether there are more. Those not judged yet are among them."""
    most = limit + 1 if limit else None
    fresh = unjudged(connection, settings, most)
    cwds = reading_sessions.working_directories(connection, [row.key for row in fresh]) if wanted.cwd else {}
    fresh = [row for row in fresh if wanted.has(row._replace(cwd=row.cwd or cwds.get(row.key)))]
    known = {row.key for row in fresh}
    rows = [row for row in reading_sessions.sessions(connection, wanted, most) if row.key not in known]
    rows = sorted([*fresh, *rows], key=lambda row: (-row.started_at, row.key))
    is_cut = bool(limit) and len(rows) > limit
    return (rows[:limit] if is_cut else rows), is_cut


def session_as_json(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow
) -> dict[str, JsonValue]:
    """Everything that is known of a session, without what looks like a secret."""
    from runward.daemon.cli.session.artifact import artifact_as_json
    from runward.daemon.cli.session.bundle_of import bundle_json, shown_bundle

    history = reading_sessions.status_history(connection, row.key)
    kept = kept_files(connection, [row.key]).get(row.key, [])
    outcomes = artifacts(connection, Wanted(session=row.key))[::-1]
    bundle = shown_bundle(connection, settings, row)
    complaints: list[JsonValue] = [
        {"path": each.path, "line": each.line, "message": each.message, "fix": each.fix}
        for each in problems(connection, row.path)
    ]
    details = details_of(row, history, kept, [artifact_as_json(each) for each in outcomes])
    told = {**details, "bundle": bundle_json(bundle, settings), "problems": complaints}
    return without_secrets_in(told, settings.bundle.redact)
