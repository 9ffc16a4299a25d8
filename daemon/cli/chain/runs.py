"""Runs of chains: `chain runs`, `chain run`, and what waits for a person: `chain approvals`, `approve` and `deny`."""

import json
import shlex
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final, Literal

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TIMED_OUT, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import (
    ask_daemon,
    new_request,
    note_if_late,
    note_without_daemon,
    once_taken_up,
)
from runward.daemon.cli.shell.context import is_daemon_up, pass_settings, store_to_read
from runward.daemon.cli.shell.finding import (
    LAST,
    Noun,
    find_called,
    refuse_ambiguous,
    refuse_empty,
    refuse_unknown,
)
from runward.daemon.cli.terminal.options import (
    Moment,
    json_option,
    limit_option,
    listed,
    no_pager_option,
    watched,
)
from runward.daemon.cli.terminal.output import (
    Columns,
    at_home,
    coloured,
    columns_there,
    fail,
    fitting,
    in_pager,
    is_screen,
    note,
    print_json,
    print_lines,
    print_list,
    print_one,
    print_text,
    printing,
    safe,
    with_host,
)
from runward.daemon.cli.terminal.tables import flowed, flowed_rows
from runward.daemon.store.tables import chain_runs
from runward.daemon.store.tables.approvals import (
    ApprovalRow,
    approvals_called,
    approvals_of_run,
    open_approvals,
)
from runward.daemon.store.tables.chain_runs import ChainRunRow, ChainStepRow, chain_steps, name_of_cause
from runward.daemon.store.tables.events import why_refused
from runward.daemon.store.tables.invocations import invocations_of
from runward.daemon.views.chain_runs import (
    CHAIN_RUN_STATUSES,
    AskedRun,
    asked_as_json,
    asked_run,
    defined_steps,
    details_as_json,
    newest_asked_run,
    session_id_of,
)
from runward.daemon.views.text import ago, local
from runward.handlers.left_files import ELSEWHERE, as_lines, paths_in, unbound, why_not_without


@click.command()
@click.argument("name", required=False, shell_complete=completing.chains)
@click.option("--status", type=click.Choice(CHAIN_RUN_STATUSES), help="Show only those with this status.")
@click.option("--since", type=Moment(), help="Show only those that were fired since then.")
@limit_option
@listed(("STATE", "AGE", "TOOK", "RUN", "CHAIN", "STEPS", "WHAT"))
@json_option()
@pass_settings
def runs(
    settings: Settings,
    name: str | None,
    status: str | None,
    since: float | None,
    limit: int,
    as_json: bool,
) -> None:
    """List chain runs, the newest first.

    \b
    Example:
      runward chain runs --status failed
    """
    with store_to_read(settings) as connection:
        rows = chain_runs.chain_runs(connection, name, status, since, limit or -1)
        columns = None
        if rows and not as_json and is_screen():
            from runward.daemon.cli.chain.screens import run_columns  # programs do without it

            columns = run_columns(connection, rows)
    if columns is not None:
        from runward.daemon.cli.terminal.lists import print_screen

        print_screen(columns)
        return
    print_list(rows, _RUN_COLUMNS, as_json, value=ChainRunRow.as_json, nothing="no chain runs")


_RUN_COLUMNS: Final[Columns[ChainRunRow]] = {
    "RUN": lambda row: safe(row.id),
    "CHAIN": lambda row: safe(row.chain),
    "STATUS": lambda row: coloured(row.status),
    "REASON": lambda row: safe(row.reason_code),
    "STEP": lambda row: str(row.current_step),
    "FIRED": lambda row: ago(row.created_at, time.time()),
}


@click.group("run", cls=Group)
def chain_run() -> None:
    """Show or cancel one run of a chain.

    \b
    Example:
      runward chain run show @last
    """


@chain_run.command("show")
@click.argument("identifier", metavar="ID", shell_complete=completing.chain_runs)
@no_pager_option
@json_option()
@watched
@pass_settings
def show_run(settings: Settings, identifier: str, as_json: bool) -> None:
    """Show the status of a chain run and of each step. ID is its id, a prefix of it, or @last.

    \b
    Example:
      runward chain run show @last
    """

    state = Path(settings.state_dir)
    asked = newest_asked_run(state) if identifier == LAST else asked_run(state, identifier)
    if asked is not None:
        if as_json:
            print_json(asked_as_json(asked))
        else:
            print_lines(fitting("\n".join(asked_lines(asked, is_up=is_daemon_up(settings)))))
        return
    with store_to_read(settings) as connection:
        row = find_run(connection, identifier)
        steps = chain_steps(connection, row.id)
        cause = name_of_cause(connection, row.id)
        invocations = invocations_of(connection, row.id)
        approvals = approvals_of_run(connection, row.id)
    if as_json:
        print_json(details_as_json(row, steps, invocations, approvals))
    else:
        print_lines(lines_of(row, steps, cause, approvals))


@chain_run.command("cancel")
@click.argument("identifier", metavar="ID", shell_complete=completing.chain_runs)
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the record.")
@json_option()
@pass_settings
def cancel_run(settings: Settings, identifier: str, reason: str, as_json: bool) -> None:
    """Cancel a chain run, and end the process tree of its step.

    It is durable when this returns, whether or not a daemon runs. If one runs, this waits until the request is accepted,
    or refused because the run is over (exit code 1).

    \b
    Example:
      runward chain run cancel @last --reason "the wrong branch"
    """

    state = Path(settings.state_dir)
    asked = newest_asked_run(state) if identifier == LAST else asked_run(state, identifier)
    if asked is not None:
        run = asked.id
    else:
        with store_to_read(settings) as connection:
            row = find_run(connection, identifier)
        if row.status not in ("running", "waiting_approval"):
            fail(f"{row.id} is {row.status} already", 1)
        run = row.id
    # A run that was only asked for is cancelled, too: the daemon takes up the older request first.
    is_cancelled = request_cancel(settings, run, reason, before_it_began=asked is not None)
    print_one(
        as_json,
        {"chain_run_id": run, "status": "cancelled" if is_cancelled else "asked"},
        f"{run} is {'' if is_cancelled else 'to be '}cancelled",
    )
    if not is_cancelled:
        note_without_daemon(settings)


def lines_of(
    row: ChainRunRow, steps: Sequence[ChainStepRow], cause: str, approvals: Mapping[int, str]
) -> list[str]:
    """A chain run as a person reads it; `cause` is the name of the event that fired it."""
    said = [
        f"chain run {safe(row.id)} of {safe(row.chain)}: {coloured(row.status)} ({safe(row.reason_code)})",
        at_home(safe(row.reason_summary)),
        f"fired by {safe(cause)} at {local(row.created_at)}",
        "",
    ]
    room = columns_there()
    lines = [line for text in said for line in flowed(text, "", "  ", room)]
    tries = {each.step: each for each in steps}
    table: list[tuple[str, ...]] = []
    for number, defined in enumerate(defined_steps(row)):
        standing = tries.get(number)
        reason = "" if standing is None else standing.reason_summary or standing.reason_code or ""
        table.append(
            (
                f"  {number}",
                safe(str(defined.get("id", f"step{number}"))),
                safe(str(defined.get("skill", defined.get("action")))),
                coloured("pending" if standing is None else standing.status),
                "-" if standing is None else safe(_where(standing)),
                at_home(safe(reason)),
            )
        )
    lines += flowed_rows(table, room)
    for each in steps:
        if each.status == "waiting_approval" and each.step in approvals:
            approval = safe(approvals[each.step])
            what = f"`runward chain approve {approval}` lets it run, `runward chain deny` ends it"
            lines += ["", *flowed(what, "", "  ", room)]
    return lines


def _where(standing: ChainStepRow) -> str:
    """The session of a try, and the other host that it is on."""
    session = session_id_of(standing) or "-"
    return session if standing.host is None else f"{session} on {standing.host}"


def asked_lines(run: AskedRun, *, is_up: bool) -> list[str]:
    """The same for people."""
    why = "the daemon has not processed it yet" if is_up else "no daemon is running: start `runward daemon`"
    return [
        f"chain run {safe(run.id)} of {safe(run.chain)}: asked",
        f"{safe(run.said_by)} asked for it at {local(run.at)}; {why}",
    ]


def find_run(connection: sqlite3.Connection, text: str) -> ChainRunRow:
    """The chain run that `text` means: an id, the beginning of one, or @last. Exits 2 or 3."""
    return find_called(connection, _CHAIN_RUN, text)


_CHAIN_RUN: Final = Noun(
    "chain run",
    lambda store, text: chain_runs.chain_runs_called(store, text, 9),
    newest=lambda store: chain_runs.chain_runs(store, None, None, None, 1),
    none_yet="no chain was ever fired",
)


def request_cancel(settings: Settings, run: str, reason: str, *, before_it_began: bool = False) -> bool:
    """Leave the request in the inbox, durably. Whether a daemon has accepted it by now. Exits 1 if it refused it.

    With `before_it_began` the run itself was only asked for so far.
    """
    from runward.handlers.model.chains import ChainRunCancelRequested

    event = new_request(ChainRunCancelRequested, run, reason, before_it_began=before_it_began)
    request = ask_daemon(settings, event)

    def accepted(connection: sqlite3.Connection) -> bool | None:
        # Of the run itself: that its step is no session yet refuses nothing, since the step never begins then.
        refused = why_refused(connection, request, run)
        matching = chain_runs.chain_runs_called(connection, run, 1)
        if refused is not None:
            fail(refused, NOT_SO)
        return True if matching and matching[0].status == "cancelled" else None

    is_accepted = once_taken_up(settings, accepted) is True
    if not is_accepted:
        note_if_late(settings)
    return is_accepted


SHOWN_LINES: Final = 20
"""Files of an approval that the table is followed by."""


def print_approvals(
    rows: Sequence[ApprovalRow], host: str | None, *, as_json: bool, is_whole: bool = False
) -> None:
    """As JSON, or as a table, with the files of each below it; a terminal gets a screen, unless it is to be whole.

    A table whose columns were asked for stands alone.
    """
    is_table = bool(printing("heads") or printing("is_wide"))
    if rows and not as_json and not is_whole and not is_table and sys.stdout.isatty():
        from runward.daemon.cli.chain.screens import approval_lines

        print_lines(approval_lines(rows))
        for each in rows:
            _note_unbound(json.loads(each.shown))
        return
    nothing = "nothing waits for a person"
    with nullcontext() if as_json else in_pager():
        print_list(
            rows, with_host(APPROVAL_COLUMNS, host), as_json, value=ApprovalRow.as_json, nothing=nothing
        )
        for each in () if as_json or (is_table and not is_whole) else rows:
            _print_left(each)


APPROVAL_COLUMNS: Final[Columns[ApprovalRow]] = {
    "APPROVAL": lambda row: safe(row.id),
    "CHAIN": lambda row: safe(row.chain),
    "STEP": lambda row: safe(row.step_id()),
    "COMMAND": lambda row: safe(shlex.join(json.loads(row.shown)["argv"])),
    "ASKED": lambda row: ago(row.asked_at, time.time()),
}


def _print_left(row: ApprovalRow) -> None:
    """What the steps before this one left, and what of that an approval can't cover."""
    shown = json.loads(row.shown)
    lines = as_lines(shown)
    if lines:
        print_text(f"\n{safe(row.id)} covers")
    for line in lines[:SHOWN_LINES]:
        print_text(f"  {safe(line)}")
    if len(lines) > SHOWN_LINES:
        print_text(f"  and {len(lines) - SHOWN_LINES} more: see --json")
    if lines:
        print_text(f"  but not {ELSEWHERE}")
    _note_unbound(shown)


def _note_unbound(shown: dict[str, JsonValue]) -> None:
    """What of the files an approval can't cover."""
    for path, what in unbound(shown).items():
        note(f"{safe(path)} {what}: look at it, and approve with --without {safe(shlex.quote(path))}")


def answer(
    settings: Settings,
    text: str,
    decision: Literal["approved", "denied"],
    note_given: str,
    without: tuple[str, ...] = (),
    *,
    as_json: bool,
) -> None:
    """Leave the answer in the inbox, and wait for the decision if a daemon runs. Exits 1 if it does not count."""
    from runward.daemon.inbox.approval_answers import answer_request

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
    request = ask_daemon(settings, answer_request(row, decision, note_given, without))
    decided = once_taken_up(settings, lambda connection: _decided(connection, row.id, request))
    # None also means that no daemon runs. Then the answer waits in the inbox, and nothing failed.
    if decided is None and is_daemon_up(settings):
        fail("the daemon has not decided yet; the answer is kept", TIMED_OUT)
    status = decided or "asked"
    if as_json:
        print_json(
            {"approval_id": row.id, "chain_run_id": row.run, "status": status, "without": list(without)}
        )
        return
    print_text(f"{safe(row.id)} of {safe(row.run)} is {decision}")
    if status == "asked":
        note(
            "no daemon is running: the answer is stored, and counts once a daemon has compared what was shown"
        )


def _decided(connection: sqlite3.Connection, approval: str, request: str) -> str | None:
    """What was decided, or None yet. Exits 1 if the answer was refused."""
    from runward.daemon.inbox import approval_answers

    decided = approval_answers.decision(connection, approval, request)
    if decided is not None and decided.refused is not None:
        fail(decided.refused, NOT_SO)
    return None if decided is None else decided.status


def _by(row: ApprovalRow) -> str:
    return f", by {row.decided_by}" if row.decided_by else ""


def _find(connection: sqlite3.Connection, text: str) -> ApprovalRow:
    """The approval that is meant: of this id, or the open one of the chain run of this id. Exits 1, 2 or 3."""
    refuse_empty(text)
    waiting = open_approvals(connection)
    if text == LAST:
        if not waiting:
            fail("nothing waits for a person", NOT_FOUND)
        return waiting[-1]
    candidates = approvals_called(connection, text)
    if not candidates:
        runs = chain_runs.chain_runs_called(connection, text, 2)
        if len(runs) == 1:
            fail(f"{runs[0].id} does not wait for approval: it is {runs[0].status}", NOT_SO)
        refuse_unknown("approval", text, [each.id for each in waiting])
    open_now = [each for each in candidates if each.id in {one.id for one in waiting}]
    exact = [each for each in candidates if each.id == text]
    fitting = exact or open_now or candidates[-1:]
    if len(fitting) > 1:
        refuse_ambiguous(text, [each.id for each in fitting])
    return fitting[0]
