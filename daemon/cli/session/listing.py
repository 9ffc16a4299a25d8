"""`runward session list`."""

import time
from collections.abc import Sequence
from typing import Final

import click

from runward.config.settings import Settings
from runward.daemon.cli.session.filters import session_filters
from runward.daemon.cli.session.finding import how_to_judge
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.terminal.options import (
    Moment,
    fleet_options,
    json_option,
    listed,
    without_fleet,
)
from runward.daemon.cli.terminal.output import (
    coloured,
    is_screen,
    note,
    print_json,
    print_table,
    print_text,
    safe,
)
from runward.daemon.store.tables import session_lists
from runward.daemon.store.tables.sessions import About, SessionRow, about_of, verification_of
from runward.daemon.views.sessions import (
    NOT_KNOWN,
    is_unknown,
    newest_sessions,
    sessions_as_json,
    silence,
)
from runward.daemon.views.text import ago, duration, tokens
from runward.daemon.views.unjudged import NOT_JUDGED

HEADS: Final = ("SESSION", "STATUS", "REASON", "VERIFIED", "DELIVERY", "EVIDENCE", "STARTED", "TOOK")
ABOUT_HEADS: Final = ("CWD", "MODEL", "TOKENS", "PROMPT")
"""The columns that are added if there are foreign sessions in the list."""
_CONTRACT_PROBLEM: Final = "contract?"
_SHOWN: Final = 32
"""Characters of a prompt, and of a directory before only its last two names are shown."""


@click.command("list")
@session_filters
@click.option(
    "--since",
    type=Moment(),
    metavar="TIME",
    help="Show only those that started since then: 2h, today, a date.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Show at most the N newest; 0: all.",
)
@click.option(
    "--steps", "has_steps", is_flag=True, help="Show each step of a chain instead of the chain run."
)
@click.option(
    "--each",
    "has_each",
    is_flag=True,
    help="Show agents that were started in a launched run, and sub-agents, too.",
)
@fleet_options
@listed(("STATE", "AGE", "TOOK", "HOST", "SESSION", "FOR", "DIRECTORY", "MODEL", "TOKENS", "COST", "WHAT"))
@json_option()
@pass_settings
def list_sessions(
    settings: Settings,
    wanted: session_lists.Wanted,
    since: float | None,
    limit: int,
    has_steps: bool,
    has_each: bool,
    is_fleet: bool,
    hosts: tuple[str, ...],
    as_json: bool,
) -> None:
    """List sessions with their status, the newest first.

    If a filter is given several times, a session has to match one of its values.

    On a terminal, what waits, works or is idle comes first, and --limit counts the others. A chain run is one row, and so is
    a launched run with its agent; with a filter, each session is.

    With --fleet, the list is that of the fleet's database, and each session is a row, with its host. Exit code 1: this machine
    belongs to no fleet, or the database refuses. 75: it can't be reached.

    \b
    Example:
      runward session list --failed --since 2h
      runward session list --json --limit 1
      runward session list --fleet --failed
    """
    wanted = wanted._replace(since=since)
    if is_fleet:
        from runward.daemon.cli.session.of_fleet import print_fleet  # few hosts have one

        print_fleet(settings, wanted, hosts, limit, as_json)
        return
    without_fleet(hosts)
    if not as_json and is_screen():
        from runward.daemon.cli.session.table import print_sessions  # programs do without it

        print_sessions(settings, wanted, limit, has_steps=has_steps, has_each=has_each)
        return
    with store_to_read(settings) as connection:
        rows, is_cut = newest_sessions(connection, settings, wanted, limit)
        shown = sessions_as_json(connection, settings, rows) if as_json else None
    if shown is not None:
        print_json(shown)
    elif not rows:
        print_text("no sessions")
    else:
        _print_list(settings, rows)
    if is_cut:
        say_that_there_are_more(limit)


def say_that_there_are_more(limit: int) -> None:
    """On stderr, so that a program that counts the lines isn't misled."""
    note(f"there are more than these {limit}, the newest: `--limit 0` shows all")


def _print_list(settings: Settings, rows: Sequence[SessionRow]) -> None:
    now = time.time()
    table = [HEADS, *(_row(row, now) for row in rows)]
    if any(row.about is not None for row in rows):
        further = [ABOUT_HEADS, *(about_cells(about_of(row)) for row in rows)]
        table = [(*facts, *more) for facts, more in zip(table, further, strict=True)]
    print_table(table[0], table[1:])
    # Notes go below the table, to stderr: a program that reads stdout gets the rows alone.
    if any(row.not_judged_yet for row in rows):
        note(f"{NOT_JUDGED}: what the run's own files say; {how_to_judge(settings)}")
    if any(is_unknown(row) for row in rows):
        note(f"running?: {NOT_KNOWN}; `runward session show ID` says what to do about it")
    if any(row.contract_problem is not None for row in rows):
        note(
            f"{_CONTRACT_PROBLEM}: the contract that the run names can't be used, or only in part;"
            " `runward session show ID` says why"
        )


def _row(row: SessionRow, now: float) -> tuple[str, ...]:
    verification = verification_of(row)
    verified = str(verification["status"]) if isinstance(verification, dict) else "-"
    if row.contract_problem is not None:
        verified = _CONTRACT_PROBLEM if verified == "-" else f"{coloured(verified)}, {_CONTRACT_PROBLEM}"
    took = (row.finished_at or now) - row.started_at
    return (
        safe(row.session_id),
        _status(row),
        safe(row.reason_code),
        verified if row.contract_problem is not None else coloured(verified),
        coloured(row.delivery or "-"),
        _evidence(row, now),
        ago(row.started_at, now),
        duration(max(0.0, took)),
    )


def _evidence(row: SessionRow, now: float) -> str:
    if not is_unknown(row):
        return safe(row.ended_by or "-")
    silent = silence(row, now)
    return "-" if silent is None else f"silent {silent}"


def about_cells(about: About) -> tuple[str, ...]:
    """What a session is about, under `ABOUT_HEADS`."""
    cwd, prompt = about.cwd or "-", about.prompt or "-"
    return (
        safe(cwd if len(cwd) <= _SHOWN else "/".join(("…", *cwd.rsplit("/", 2)[1:]))),
        safe(about.model or "-"),
        tokens(about.usage) or "-",
        safe(prompt if len(prompt) <= _SHOWN else f"{prompt[: _SHOWN - 1]}…"),
    )


def _status(row: SessionRow) -> str:
    if row.not_judged_yet:
        return f"{coloured(row.status)}, {NOT_JUDGED}"
    if is_unknown(row):
        return f"{coloured(row.status)}?"
    return coloured(row.status) + (f", {row.activity}" if row.activity in ("idle", "waiting") else "")
