"""Asking the daemon to end a running session, through the inbox, and waiting for the result."""

import sqlite3
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import click

from runward.config.settings import Settings
from runward.config.settings_keys import DEFAULT_LAYOUT
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO
from runward.daemon.cli.shell.finding import refuse_pruned
from runward.daemon.cli.shell.request_waiting import refuse_without_daemon, wait_for
from runward.daemon.cli.terminal.output import coloured, fail, note, print_json, safe
from runward.daemon.inbox.request_file import dump_request
from runward.daemon.inbox.spool import put
from runward.daemon.store import reading, reading_causes, reading_sessions
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_sessions import SessionRow
from runward.handlers.model.requests import SessionCancelRequested


class Standing(NamedTuple):
    """The state of a request. `refusal` says why nothing follows, `outcome` which process was signalled."""

    session: SessionRow
    is_over: bool
    refusal: str | None = None
    outcome: str | None = None


def cancel(settings: Settings, row: SessionRow, reason: str, patience: float | None, as_json: bool) -> None:
    """Put the request; wait `patience` seconds until the session is over, unless None. Exits."""
    state = Path(settings.state_dir)
    name = safe(row.session_id)
    if row.status != "running":
        fail(f"session {name} is {row.status}: only a running one can be cancelled", NOT_SO)
    if row.layout != DEFAULT_LAYOUT:
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
    sys.exit(_wait(settings.state_dir, row, request, patience, as_json))


def _wait(state: str, row: SessionRow, request: str, patience: float, as_json: bool) -> int:
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
    event = reading_causes.event_recorded(connection, request)
    if event is None:
        return Standing(now, is_over)
    found = reading_causes.cancellation(connection, event)
    if found is not None:
        refusal = found.outcome if found.told is False else None
        return Standing(now, is_over, refusal, found.outcome)
    refused = (
        each.summary for each in reading_causes.decisions_about(connection, row.key) if each.event == event
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
