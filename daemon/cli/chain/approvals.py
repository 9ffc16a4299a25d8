"""`runward chain approvals`, `approve` and `deny`: what waits for a person, and the person's answer."""

import json
import shlex
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import click

from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TIMED_OUT, WRONG_USAGE
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.shell.finding import LAST, refuse_ambiguous, refuse_empty, refuse_unknown
from runward.daemon.cli.shell.request_waiting import once_taken_up
from runward.daemon.cli.terminal.output import fail, note, print_json, print_table, safe
from runward.daemon.store import reading_chains
from runward.daemon.store.reading_chains import ApprovalRow
from runward.daemon.views.approvals import approval_as_json, step_id
from runward.daemon.views.text import ago
from runward.handlers.left_files import ELSEWHERE, as_lines, paths_in, unbound, why_not_without

SHOWN_LINES: Final = 20
"""Files of an approval that the table is followed by."""


def print_approvals(rows: Sequence[ApprovalRow], *, as_json: bool) -> None:
    """As JSON, or as a table."""
    if as_json:
        print_json([approval_as_json(each) for each in rows])
    elif not rows:
        click.echo("nothing waits for a person")
    else:
        table = [
            (
                safe(each.id),
                safe(each.chain),
                safe(step_id(each)),
                safe(shlex.join(json.loads(each.shown)["argv"])),
                ago(each.asked_at, time.time()),
            )
            for each in rows
        ]
        print_table(("APPROVAL", "CHAIN", "STEP", "COMMAND", "ASKED"), table)
        for each in rows:
            _print_left(each)


def _print_left(row: ApprovalRow) -> None:
    """What the steps before this one left, and what of that an approval can't cover."""
    shown = json.loads(row.shown)
    lines = as_lines(shown)
    if lines:
        click.echo(f"\n{safe(row.id)} covers")
    for line in lines[:SHOWN_LINES]:
        click.echo(f"  {safe(line)}")
    if len(lines) > SHOWN_LINES:
        click.echo(f"  and {len(lines) - SHOWN_LINES} more: see --json")
    if lines:
        click.echo(f"  but not {ELSEWHERE}")
    for path, what in unbound(shown).items():
        note(f"{safe(path)} {what}: look at it, and approve with --without {safe(shlex.quote(path))}")


def answer(
    settings: Settings,
    text: str,
    decision: Literal["approved", "denied"],
    said: str,
    without: tuple[str, ...] = (),
    *,
    as_json: bool,
) -> None:
    """Leave the answer in the inbox, and wait for the decision if a daemon runs. Exits 1 if it does not count."""
    from runward.daemon.inbox.approval_answers import put_answer
    from runward.daemon.store.ownership import holder

    with store_to_read(settings) as connection:
        row = _find(connection, text)
    if row.status != "asked":
        fail(f"{row.id} is {row.status} already{_by(row)}", NOT_SO)
    shown = json.loads(row.shown)
    unknown = [each for each in without if each not in paths_in(shown)]
    if unknown:
        fail(f"{', '.join(unknown)}: no such file is among what was shown", WRONG_USAGE)
    why = why_not_without(shown, without) if decision == "approved" else None
    if why is not None:
        fail(why, NOT_SO)
    state = Path(settings.state_dir)
    request = put_answer(state, row, decision, said, without)
    decided = once_taken_up(state, lambda: _decided(settings, row.id, request))
    if decided is None and holder(state) is not None:
        fail("the daemon has not decided yet; the answer is kept", TIMED_OUT)
    status = decided or "asked"
    if as_json:
        print_json(
            {"approval_id": row.id, "chain_run_id": row.run, "status": status, "without": list(without)}
        )
        return
    click.echo(f"{safe(row.id)} of {safe(row.run)} is {decision}")
    if status == "asked":
        note(
            "no daemon is running: the answer is stored, and counts once a daemon has compared what was shown"
        )


def _decided(settings: Settings, approval: str, request: str) -> str | None:
    """What was decided, or None yet. Exits 1 if the answer was refused."""
    from runward.daemon.inbox import approval_answers

    with store_to_read(settings) as connection:
        found = approval_answers.decision(connection, approval, request)
    if found is not None and found.refused is not None:
        fail(found.refused, NOT_SO)
    return None if found is None else found.status


def _by(row: ApprovalRow) -> str:
    return f", by {row.decided_by}" if row.decided_by else ""


def _find(connection: sqlite3.Connection, text: str) -> ApprovalRow:
    """The approval that is meant: of this id, or the open one of the chain run of this id. Exits 1, 2 or 3."""
    refuse_empty(text)
    waiting = reading_chains.open_approvals(connection)
    if text == LAST:
        if not waiting:
            fail("nothing waits for a person", NOT_FOUND)
        return waiting[-1]
    found = reading_chains.approvals_called(connection, text)
    if not found:
        runs = reading_chains.chain_runs_called(connection, text, 2)
        if len(runs) == 1:
            fail(f"{runs[0].id} does not wait for approval: it is {runs[0].status}", NOT_SO)
        refuse_unknown("approval", text, [each.id for each in waiting])
    open_now = [each for each in found if each.id in {one.id for one in waiting}]
    exact = [each for each in found if each.id == text]
    fitting = exact or open_now or found[-1:]
    if len(fitting) > 1:
        refuse_ambiguous(text, [each.id for each in fitting])
    return fitting[0]
