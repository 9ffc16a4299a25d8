"""`chain fire`: the order, its result, and with `--wait` the end of the run."""

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
from runward.daemon.cli.exits import BY_STATUS, NOT_SO
from runward.daemon.cli.play.run import own_chain_run
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.shell.request_waiting import (
    AwayTime,
    note_without_daemon,
    once_taken_up,
    refuse_without_daemon,
)
from runward.daemon.cli.terminal.output import fail, note, print_json, safe
from runward.daemon.inbox.request_file import dump_request
from runward.daemon.inbox.spool import put
from runward.daemon.store.ownership import holder, prepare
from runward.daemon.store.reading_chains import ChainRunRow, chain_runs_called
from runward.daemon.store.reading_queue import why_refused
from runward.handlers.chains.advancing import run_id
from runward.handlers.model.chains import ChainFireRequested

_PERIOD: Final = 0.1
"""Seconds between two checks of the run's status."""


class Standing(NamedTuple):
    """The current state of the order: the run, or why there is none."""

    run: ChainRunRow | None = None
    refused: str | None = None

    @property
    def status(self) -> str:
        """The run's; before that `refused` or `asked`."""
        if self.refused is not None:
            return "refused"
        return "asked" if self.run is None else self.run.status

    @property
    def is_over(self) -> bool:
        """Whether nothing more will follow."""
        return self.status not in ("asked", "running", "waiting_approval")


def fire(
    settings: Settings, chain: Chain, fields: Mapping[str, JsonValue], *, waits: bool, as_json: bool
) -> None:
    """Leave the order in the inbox, and say which chain run it is. Exits 1 if it is refused."""
    request, state = str(uuid.uuid4()), Path(settings.state_dir)
    if waits and holder(state) is None:
        refuse_without_daemon()
    prepare(state)
    order = ChainFireRequested(request, time.time(), chain.name, dict(fields), by_run=own_chain_run())
    put(state, request, dump_request(order))
    run = run_id(f"{chain.name}@{request}")
    standing = once_taken_up(state, lambda: _standing(settings, request, run))
    if standing is None and holder(state) is not None:
        note("the daemon has not processed it yet: `runward status` says why")
    standing = standing or Standing()
    if waits:
        standing = _over(settings, request, run)
    status = standing.status
    if as_json:
        print_json({"chain_run_id": run, "status": status, "problem": standing.refused})
    elif standing.refused is not None:
        fail(standing.refused, NOT_SO)
    else:
        click.echo(run)
        if waits:
            assert standing.run is not None
            note(f"{status} ({safe(standing.run.reason_code)}): {safe(standing.run.reason_summary)}")
    if standing.refused is not None:
        sys.exit(NOT_SO)
    if standing.run is None:
        note_without_daemon(state)
    if waits:
        sys.exit(BY_STATUS[status])


def _over(settings: Settings, request: str, run: str) -> Standing:
    """The result of the run."""
    away = AwayTime(Path(settings.state_dir))
    while True:
        standing = _standing(settings, request, run)
        if standing is not None and standing.is_over:
            return standing
        away.check()
        time.sleep(_PERIOD)


def _standing(settings: Settings, request: str, run: str) -> Standing | None:
    with store_to_read(settings) as connection:
        return _read(connection, request, run)


def _read(connection: sqlite3.Connection, request: str, run: str) -> Standing | None:
    found = chain_runs_called(connection, run, 1)
    if found:
        return Standing(found[0])
    refused = why_refused(connection, request)
    return None if refused is None else Standing(refused=refused)
