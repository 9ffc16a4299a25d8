"""`artifact add`: the request, and whether it was accepted."""

import time
import uuid
from pathlib import Path
from typing import Literal

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.shell.finding import find_session
from runward.daemon.cli.shell.given_file import opened
from runward.daemon.cli.shell.request_waiting import note_without_daemon, once_taken_up
from runward.daemon.cli.terminal.output import fail, note, print_json, safe
from runward.daemon.inbox.request_file import dump_request
from runward.daemon.inbox.spool import MAXIMUM_REQUEST, put
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_artifacts import is_decided
from runward.daemon.store.reading_queue import why_refused
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.outcomes import ArtifactAddRequested, artifact_id
from runward.handlers.outcomes.added import record

_TOO_LONG = (
    "the content is too long (1 MiB): write it into a file of the session's artifacts, and give --file"
)


def add_artifact(
    settings: Settings,
    kind: str,
    name: str,
    session: str | None,
    content: str | None,
    path: str | None,
    *,
    as_json: bool,
) -> None:
    """Leave the request in the inbox, and wait until it is decided if a daemon runs. Exits 1 or 2 if it is wrong."""
    if not session:
        fail("no session is named: give --session, or call this in a session", WRONG_USAGE)
    value = None if content is None else _read(content)
    with store_to_read(settings) as connection:
        key = find_session(connection, settings, session).key
    request, state = str(uuid.uuid4()), Path(settings.state_dir)
    event = ArtifactAddRequested(request, time.time(), key, kind, name, value, path)
    made = record(event, event.at)
    if isinstance(made, str):
        fail(made, NOT_SO if kind and name and (content or path) else WRONG_USAGE)
    document = dump_request(event)
    if len(document) > MAXIMUM_REQUEST:
        fail(_TOO_LONG, WRONG_USAGE)
    put(state, request, document)
    status = once_taken_up(state, lambda: _decided(settings, request)) or "asked"
    identifier = artifact_id(key, kind, name)
    if as_json:
        print_json({"id": identifier, "status": status})
    else:
        click.echo(safe(identifier))
    if status == "asked" and holder(state) is not None:
        note("the daemon has not stored it yet: `runward status` says why")
    elif status == "asked":
        note_without_daemon(state)


def _read(path: str) -> JsonValue:
    with opened(path) as stream:
        content = stream.read(MAXIMUM_REQUEST + 1)
    if len(content) > MAXIMUM_REQUEST:
        fail(_TOO_LONG, WRONG_USAGE)
    value = read_json(content)
    if isinstance(value, NotJson):
        fail(f"{path}: is not JSON: {value.message.removeprefix('not JSON: ')}", NOT_SO)
    return value


def _decided(settings: Settings, request: str) -> Literal["added"] | None:
    with store_to_read(settings) as connection:
        refused = why_refused(connection, request)
        is_over = is_decided(connection, request)
    if refused is not None:
        fail(refused, NOT_SO)
    return "added" if is_over else None
