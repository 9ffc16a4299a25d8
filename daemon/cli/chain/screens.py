"""`chain runs` and `chain approvals` on a terminal."""

import json
import sqlite3
from collections.abc import Iterator, Sequence

import click

from runward.config.problem import counted
from runward.daemon.cli.terminal.lists import ROOMY
from runward.daemon.cli.terminal.output import printing, width
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import Column, flowed, table_lines
from runward.daemon.store.tables.approvals import ApprovalRow
from runward.daemon.store.tables.chain_runs import ChainRunRow
from runward.daemon.views.chain_rows import command_asked, run_rows
from runward.daemon.views.text import age, took
from runward.handlers.left_files import as_lines


def run_columns(connection: sqlite3.Connection, runs: Sequence[ChainRunRow]) -> list[Column]:
    """The chain runs, each with the signs of its steps."""
    terminal = terminal_here()
    rows = run_rows(connection, runs, terminal.now)
    columns = [
        Column("STATE", [terminal.state(each.row.state) for each in rows]),
        Column("AGE", [age(each.row.at, terminal.now) for each in rows], 3),
        Column("TOOK", [took(each.row.took) for each in rows], 4),
        Column("RUN", [terminal.id(each.row.id) for each in rows]),
        Column("CHAIN", [terminal.text(each.chain) for each in rows], 1),
        Column("STEPS", ["".join(map(terminal.sign, each.steps)) for each in rows], 2),
        Column("WHAT", [terminal.text(each.what) for each in rows]),
    ]
    is_roomy = terminal.columns >= ROOMY or printing("is_wide") or printing("heads")
    return columns if is_roomy else [each for each in columns if each.head != "TOOK"]


def approval_lines(rows: Sequence[ApprovalRow]) -> list[str]:
    """What waits for a person, each with its whole command: nobody approves what was cut."""
    terminal = terminal_here()
    columns = [
        Column("APPROVAL", [terminal.text(each.id) for each in rows]),
        Column("AGE", [age(each.asked_at, terminal.now) for each in rows], 2),
        Column("FOR", [terminal.text(f"{each.chain}/{each.step_id()}") for each in rows], 1),
        Column("COMMAND", [" " * _LEAST_COMMAND for _ in rows]),
    ]
    head, *leads = table_lines(columns, terminal.columns, terminal.ellipsis)
    # Where the command begins: below its head, if that was not left out of a narrow terminal.
    plain = click.unstyle(head)
    at = min(max(plain.find("COMMAND"), 2), terminal.columns // 2)
    lines = [head]
    for row, lead in zip(rows, leads, strict=True):
        lines += _approval(row, lead, at, terminal)
    commands = f"runward chain approve {rows[0].id} (or: chain deny)"
    lines += flowed(commands, "Next: ", "      ", terminal.columns)
    return [
        *lines,
        *flowed(
            "runward chain approvals --all (the files that each covers)", "All:  ", "      ", terminal.columns
        ),
    ]


_LEAST_COMMAND = 12


def _approval(row: ApprovalRow, lead: str, at: int, terminal: Terminal) -> Iterator[str]:
    first, indent = f"{lead}{' ' * (at - width(lead))}", " " * at
    if width(lead) >= at:
        yield lead
        first = indent
    yield from flowed(terminal.command(command_asked(row)), first, indent, terminal.columns)
    left = len(as_lines(json.loads(row.shown)))
    if left:
        covers = f"covers {counted(left, 'file', 'files')} that the steps before it left"
        yield from flowed(covers, indent, indent, terminal.columns)
