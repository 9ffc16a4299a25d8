"""What a person asks of the daemon about sessions, through the inbox: to end one, and to record that failures were seen."""

import json
import sqlite3
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.root import NATIVE
from runward.config.settings import Settings
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO
from runward.daemon.cli.shell.finding import refuse_pruned
from runward.daemon.cli.shell.request_waiting import refuse_without_daemon, wait_for
from runward.daemon.cli.terminal.output import coloured, fail, note, print_json, safe
from runward.daemon.inbox.spool import put
from runward.daemon.store import reading, reading_queue, reading_sessions
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_sessions import SessionRow


class Standing(NamedTuple):
    """The state of a request. `refusal` says why nothing follows, `outcome` which process was signalled."""

    session: SessionRow
    is_over: bool
    refusal: str | None = None
    outcome: str | None = None


def cancel(settings: Settings, row: SessionRow, reason: str, patience: float | None, as_json: bool) -> None:
    """Put the request; wait `patience` seconds until the session is over, unless None. Exits."""
    from runward.daemon.inbox.spool import dump_request
    from runward.handlers.model.requests import SessionCancelRequested

    state = Path(settings.state_dir)
    name = safe(row.session_id)
    if row.status != "running":
        fail(f"session {name} is {row.status}: only a running one can be cancelled", NOT_SO)
    if row.layout != NATIVE:
        said = (
            "only what `runward run` or `runward play run` started can be cancelled: end the agent yourself"
        )
        fail(f"session {name} is of {safe(row.layout)}: {said}", NOT_SO)
    is_up = holder(state) is not None
    if patience is not None and not is_up:
        refuse_without_daemon()
    request = str(uuid.uuid4())
    put(
        state,
        request,
        dump_request(SessionCancelRequested(request, time.time(), row.key, row.attempt, reason)),
    )
    if patience is None:
        _say(Standing(row, False), request, as_json)
        if not is_up:
            note("no daemon is running: it will be done when one starts")
        return
    sys.exit(_wait_until_over(settings.state_dir, row, request, patience, as_json))


def _wait_until_over(state: str, row: SessionRow, request: str, patience: float, as_json: bool) -> int:
    """Wait until the attempt is over or the request refused; returns the exit code."""
    standing = Standing(row, False)

    def settled() -> Standing | None:
        nonlocal standing
        with reading.reading(state) as connection:
            standing = _standing(connection, row, request)
        return standing if standing.is_over or standing.refusal is not None else None

    def said() -> str:
        told = safe(standing.outcome or "no process was asked to end yet")
        return f"session {safe(row.session_id)} is not over yet ({told}); the request is kept"

    _say(wait_for(state, patience, settled, said), request, as_json)
    return GOOD if standing.is_over else NOT_SO


def _standing(connection: sqlite3.Connection, row: SessionRow, request: str) -> Standing:
    now = reading_sessions.session(connection, row.key)
    if now is None:
        refuse_pruned(connection, row.key)
        fail(f"the record of {safe(row.session_id)} no longer exists", NOT_FOUND)
    is_over = now.attempt != row.attempt or now.status != "running"
    event = reading_queue.event_recorded(connection, request)
    if event is None:
        return Standing(now, is_over)
    found = reading_queue.cancellation(connection, event)
    if found is not None:
        refusal = found.outcome if found.told is False else None
        return Standing(now, is_over, refusal, found.outcome)
    refused = (
        each.summary for each in reading_queue.decisions_about(connection, row.key) if each.event == event
    )
    return Standing(now, is_over, next(refused, None))


def _say(standing: Standing, request: str, as_json: bool) -> None:
    session = standing.session
    if as_json:
        print_json(
            {
                "session": session.key,
                "request": request,
                "status": session.status,
                "reason_code": session.reason_code,
                "refusal": standing.refusal,
                "outcome": standing.outcome,
            }
        )
        return
    name = safe(session.session_id)
    if standing.is_over:
        click.echo(f"session {name} is {coloured(session.status)}: {safe(session.reason_summary)}")
    elif standing.refusal is not None:
        click.echo(f"session {name} is {coloured(session.status)}: {safe(standing.refusal)}")
    else:
        click.echo(f"session {name} will be cancelled")


def put_seen(state: Path, row: SessionRow) -> str:
    """Put the request for one session; returns its name. Raises `OSError`."""
    request = str(uuid.uuid4())
    payload = {"request": request, "at": time.time(), "session_key": row.key, "attempt": row.attempt}
    # `session show` calls this, and has no time for what else writes requests.
    said = {"type": "SessionSeenRequested", "version": 1, "payload": payload}
    put(state, request, json.dumps(said).encode())
    return request


def shown(settings: Settings, row: SessionRow) -> None:
    """A failure was shown in full: its reader has seen it. Without a daemon, nothing is recorded."""
    state = Path(settings.state_dir)
    if holder(state) is None:
        return
    try:
        put_seen(state, row)
    except OSError as error:
        note(
            f"it could not be recorded that this was seen: {error.strerror}; `runward status` keeps showing it"
        )


def mark_seen(settings: Settings, rows: Sequence[SessionRow], patience: float | None, as_json: bool) -> None:
    """Put a request for each session; wait `patience` seconds until they are recorded, unless None."""
    state = Path(settings.state_dir)
    is_up = holder(state) is not None
    if patience is not None and rows and not is_up:
        refuse_without_daemon()
    requests = {row.key: put_seen(state, row) for row in rows}
    if patience is not None and rows:
        _wait_until_recorded(settings, rows, patience)
    if as_json:
        said: list[JsonValue] = [{"session": key, "request": request} for key, request in requests.items()]
        print_json(said)
    else:
        click.echo(f"{counted(len(rows), 'failure', 'failures')} seen")
    if rows and not is_up:
        note("no daemon is running: it will be recorded when one starts")


def failures_among(rows: Sequence[SessionRow], failures: Sequence[str]) -> list[SessionRow]:
    """The sessions among these that `status` shows; the others are named."""
    for row in rows:
        if row.key not in failures:
            note(f"{safe(row.session_id)} is {row.status}: it is not a failure that `runward status` shows")
    return [row for row in rows if row.key in failures]


def _wait_until_recorded(settings: Settings, rows: Sequence[SessionRow], patience: float) -> None:
    def all_seen() -> bool | None:
        with reading.reading(settings.state_dir) as connection:
            return all(reading_sessions.is_seen(connection, row.key, row.attempt) for row in rows) or None

    wait_for(settings.state_dir, patience, all_seen, lambda: "it is not recorded yet; the request is kept")
