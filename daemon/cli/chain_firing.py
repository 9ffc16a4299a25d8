"""`chain fire`: the order, what became of it, and with `--wait` the end of the run."""

import sqlite3
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from runward.config.chain import Chain
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.context import store_to_read
from runward.daemon.cli.exits import BY_STATUS, NOT_SO, TRY_AGAIN
from runward.daemon.cli.output import coloured, fail, note, print_json, safe
from runward.daemon.cli.play_run import own_chain_run
from runward.daemon.inbox.requests import dump_request
from runward.daemon.inbox.spool import put
from runward.daemon.store.ownership import holder, prepare
from runward.daemon.store.reading_chains import ChainRunRow, chain_runs_called, why_refused
from runward.handlers.chains.advancing import run_id
from runward.handlers.chains.events import ChainFireRequested

PATIENCE_S: Final = 30.0
"""Seconds that a daemon may take to take the order up."""

_AWAY: Final = 30.0
"""Seconds for which there may be no daemon: one that is started again takes less."""

_PERIOD: Final = 0.1


class Standing(NamedTuple):
    """What became of the order until now: the run, or why there is none."""

    run: ChainRunRow | None = None
    refused: str | None = None


def fire(
    settings: Settings, chain: Chain, fields: Mapping[str, JsonValue], *, waits: bool, as_json: bool
) -> None:
    """Leave the order in the inbox, and say which chain run it is. Exits 1 if it is refused."""
    request, state = str(uuid.uuid4()), Path(settings.state_dir)
    prepare(state)
    order = ChainFireRequested(request, time.time(), chain.name, dict(fields), by_run=own_chain_run())
    put(state, request, dump_request(order))
    run = run_id(f"{chain.name}@{request}")
    standing = _taken_up(settings, request, run)
    if waits and standing.refused is None:
        standing = _over(settings, request, run)
    status = (
        "refused"
        if standing.refused is not None
        else "asked"
        if standing.run is None
        else standing.run.status
    )
    if as_json:
        print_json({"chain_run_id": run, "status": status, "problem": standing.refused})
    elif standing.refused is not None:
        fail(standing.refused, NOT_SO)
    else:
        click.echo(run)
        if waits:
            assert standing.run is not None
            note(
                f"{coloured(status)} ({safe(standing.run.reason_code)}): {safe(standing.run.reason_summary)}"
            )
    if standing.refused is not None:
        sys.exit(NOT_SO)
    if waits:
        sys.exit(BY_STATUS[status])


def _taken_up(settings: Settings, request: str, run: str) -> Standing:
    """What became of the order, as soon as a running daemon says so; without one it is durable, and that is all."""
    state, patience = Path(settings.state_dir), time.monotonic() + PATIENCE_S
    while holder(state) is not None:
        standing = _standing(settings, request, run)
        if standing != Standing():
            return standing
        if time.monotonic() > patience:
            note("the daemon has not taken it up yet: `runward status` says what keeps it back")
            break
        time.sleep(_PERIOD / 4)
    return Standing()


def _over(settings: Settings, request: str, run: str) -> Standing:
    """What the run came to."""
    state, seen = Path(settings.state_dir), time.monotonic()
    while True:
        standing = _standing(settings, request, run)
        row = standing.run
        if standing.refused is not None or (
            row is not None and row.status not in ("running", "waiting_approval")
        ):
            return standing
        seen = time.monotonic() if holder(state) is not None else seen
        if time.monotonic() - seen > _AWAY:
            fail(
                "no daemon is running; the order is kept, and the chain run goes on once there is one",
                TRY_AGAIN,
            )
        time.sleep(_PERIOD)


def _standing(settings: Settings, request: str, run: str) -> Standing:
    with store_to_read(settings) as connection:
        return _read(connection, request, run)


def _read(connection: sqlite3.Connection, request: str, run: str) -> Standing:
    found = chain_runs_called(connection, run, 1)
    if found:
        return Standing(found[0])
    return Standing(refused=why_refused(connection, request))
