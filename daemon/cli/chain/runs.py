"""`runward chain runs` and `chain run show`: what chains did."""

import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.shell.finding import LAST, one_of
from runward.daemon.cli.shell.request_waiting import once_taken_up
from runward.daemon.cli.terminal.output import align, coloured, fail, note, safe
from runward.daemon.store import reading_chains
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_chains import ChainRunRow, ChainStepRow
from runward.daemon.store.reading_queue import why_refused
from runward.daemon.views.chain_runs import AskedRun, defined_steps, session_id_of
from runward.daemon.views.text import ago, local


def row_of(row: ChainRunRow) -> tuple[str, ...]:
    """A chain run as a row of the list."""
    return (
        safe(row.id),
        safe(row.chain),
        coloured(row.status),
        safe(row.reason_code),
        str(row.current_step),
        ago(row.created_at, time.time()),
    )


def lines_of(
    row: ChainRunRow, steps: Sequence[ChainStepRow], cause: str, approvals: Mapping[int, str]
) -> list[str]:
    """A chain run as a person reads it; `cause` is the name of the event that fired it."""
    lines = [
        f"chain run {safe(row.id)} of {safe(row.chain)}: {coloured(row.status)} ({safe(row.reason_code)})",
        safe(row.reason_summary),
        f"fired by {safe(cause)} at {local(row.created_at)}",
        "",
    ]
    tries = {each.step: each for each in steps}
    table: list[tuple[str, ...]] = []
    for number, defined in enumerate(defined_steps(row)):
        standing = tries.get(number)
        said = "" if standing is None else standing.reason_summary or standing.reason_code or ""
        table.append(
            (
                f"  {number}",
                safe(str(defined.get("id", f"step{number}"))),
                safe(str(defined.get("skill", defined.get("action")))),
                coloured("pending" if standing is None else standing.status),
                "-" if standing is None else safe(session_id_of(standing) or "-"),
                safe(said),
            )
        )
    lines += align(table)
    for each in steps:
        if each.status == "waiting_approval" and each.step in approvals:
            approval = safe(approvals[each.step])
            lines += ["", f"`runward chain approve {approval}` lets it run, `runward chain deny` ends it"]
    return lines


def asked_lines(run: AskedRun, *, is_up: bool) -> list[str]:
    """The same for people."""
    why = "the daemon has not processed it yet" if is_up else "no daemon is running: start `runward daemon`"
    return [
        f"chain run {safe(run.id)} of {safe(run.chain)}: asked",
        f"{safe(run.said_by)} asked for it at {local(run.at)}; {why}",
    ]


def find_run(connection: sqlite3.Connection, text: str) -> ChainRunRow:
    """The chain run that `text` means: an id, the beginning of one, or @last. Exits 2 or 3."""
    if text == LAST:
        newest = reading_chains.chain_runs(connection, None, None, None, 1)
        if not newest:
            fail("no chain was ever fired", NOT_FOUND)
        return newest[0]
    return one_of("chain run", text, reading_chains.chain_runs_called(connection, text, 9))


def request_cancel(settings: Settings, run: str, reason: str, *, before_it_began: bool = False) -> bool:
    """Leave the request in the inbox, durably. Whether a daemon has accepted it by now. Exits 1 if it refused it.

    With `before_it_began` the run itself was only asked for so far.
    """
    from runward.daemon.inbox.request_file import dump_request
    from runward.daemon.inbox.spool import put
    from runward.handlers.model.chains import ChainRunCancelRequested

    request, state = str(uuid.uuid4()), Path(settings.state_dir)
    event = ChainRunCancelRequested(request, time.time(), run, reason, before_it_began=before_it_began)
    put(state, request, dump_request(event))

    def accepted() -> bool | None:
        with store_to_read(settings) as connection:
            refused = why_refused(connection, request)
            found = reading_chains.chain_runs_called(connection, run, 1)
        if refused is not None:
            fail(refused, NOT_SO)
        return True if found and found[0].status == "cancelled" else None

    is_accepted = once_taken_up(state, accepted) is True
    if not is_accepted and holder(state) is not None:
        note("the daemon has not processed it yet: `runward status` says why")
    return is_accepted


def echo(lines: Sequence[str]) -> None:
    """Print the lines."""
    click.echo("\n".join(lines))
