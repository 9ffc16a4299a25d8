"""Recording through the inbox that a person has seen how sessions ended: `status` then no longer shows them."""

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import click

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.shell.request_waiting import refuse_without_daemon, wait_for
from runward.daemon.cli.terminal.output import note, print_json, safe
from runward.daemon.inbox.spool import put
from runward.daemon.store import reading, reading_sessions
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_sessions import SessionRow


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
        _wait(settings, rows, patience)
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


def _wait(settings: Settings, rows: Sequence[SessionRow], patience: float) -> None:
    def all_seen() -> bool | None:
        with reading.reading(settings.state_dir) as connection:
            return all(reading_sessions.is_seen(connection, row.key, row.attempt) for row in rows) or None

    wait_for(settings.state_dir, patience, all_seen, lambda: "it is not recorded yet; the request is kept")
