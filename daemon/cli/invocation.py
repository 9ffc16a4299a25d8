"""`runward invocation`: what was ordered, by chains and by people."""

import json
import time
from typing import Final

import click

from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.shell.finding import Noun, find_called
from runward.daemon.cli.terminal.options import filter_option, json_option, limit_option, listed, since_option
from runward.daemon.cli.terminal.output import (
    Columns,
    coloured,
    print_json,
    print_list,
    print_text,
    safe,
)
from runward.daemon.store.tables.artifacts import ArtifactRow, artifacts_of
from runward.daemon.store.tables.chain_runs import ChainStepRow
from runward.daemon.store.tables.invocations import InvocationRow, Wanted, invocations, invocations_called
from runward.daemon.views.chain_runs import (
    INVOCATION_STATUSES,
    invocation_as_json,
    invocation_summary,
    metadata_of,
    steps_of,
)
from runward.daemon.views.outcomes import shown_outcomes
from runward.daemon.views.text import ago


@click.group(cls=Group)
def invocation() -> None:
    """Show invocations: chain runs, the tries of their steps, playbooks that people ran, and plays of shows.

    \b
    Example:
      runward invocation list --skill codex-pr-review
    """


_COLUMNS: Final[Columns[InvocationRow]] = {
    "ID": lambda row: safe(row.id),
    "SKILL": lambda row: safe(row.skill),
    "STATUS": lambda row: coloured(row.status),
    "CHAIN RUN": lambda row: safe(row.chain_run_id or "-"),
    "STEP": lambda row: "-" if row.step_index is None else str(row.step_index),
    "TRY": lambda row: "-" if row.attempt is None else str(row.attempt),
    "SESSION": lambda row: safe((row.session_key or "-").rpartition("/")[2]),
    "WHEN": lambda row: ago(row.created_at, time.time()),
}


@invocation.command("list")
@filter_option(
    "--skill", "NAME", completing.playbooks, "those of this playbook or action; `chain`: chain runs"
)
@click.option("--status", type=click.Choice(INVOCATION_STATUSES), help="Show only those with this status.")
@filter_option("--chain-run", "ID", completing.chain_runs, "those of this chain run")
@since_option
@limit_option
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_invocations(
    settings: Settings,
    skill: str | None,
    status: str | None,
    chain_run: str | None,
    since: float | None,
    limit: int,
    as_json: bool,
) -> None:
    """List invocations, the newest first.

    \b
    Example:
      runward invocation list --status failed --since 7d
    """
    from runward.daemon.cli.chain.runs import find_run

    with store_to_read(settings) as connection:
        run = None if chain_run is None else find_run(connection, chain_run).id
        rows = invocations(connection, Wanted(skill, status, run, since, limit or -1))
    print_list(rows, _COLUMNS, as_json, value=invocation_summary, nothing="no invocations")


_INVOCATION: Final = Noun(
    "invocation",
    invocations_called,
    newest=lambda store: invocations(store, Wanted(limit=1)),
    none_yet="nothing was invoked yet",
)


@invocation.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.invocations)
@json_option()
@pass_settings
def show(settings: Settings, identifier: str, as_json: bool) -> None:
    """Show an invocation, its inputs, and its outcomes. ID is its id, a prefix of it, or @last.

    \b
    Example:
      runward invocation show @last
    """
    with store_to_read(settings) as connection:
        row = find_called(connection, _INVOCATION, identifier)
        outcomes, steps = artifacts_of(connection, row.id), steps_of(connection, row)
    if as_json:
        print_json(invocation_as_json(settings, row, steps, outcomes))
        return
    print_text("\n".join(_lines(row, steps, shown_outcomes(settings, outcomes))))


def _lines(row: InvocationRow, steps: list[ChainStepRow], outcomes: list[ArtifactRow]) -> list[str]:
    reason = f" ({safe(row.reason_code)})" if row.reason_code is not None else ""
    lines = [f"invocation {safe(row.id)} of {safe(row.skill)}: {coloured(row.status)}{reason}"]
    if row.chain_run_id is not None:
        place = "" if row.step_index is None else f", step {row.step_index}, try {row.attempt}"
        lines.append(f"chain run {safe(row.chain_run_id)} of {safe(row.chain or '?')}{place}")
    if row.session_key is not None:
        lines.append(f"session {safe(row.session_key.rpartition('/')[2])}")
    lines += [f"outcome {safe(each.id)}: {safe(each.kind)}, {safe(each.summary or '')}" for each in outcomes]
    metadata = json.dumps(metadata_of(row, steps), indent=2, ensure_ascii=False)
    return [*lines, *(safe(line) for line in metadata.splitlines())]
