"""`runward restore`: replaces the store with a backup while the daemon is down."""

import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_SETTINGS
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import fail, print_json, safe
from runward.daemon.views.approvals import step_id
from runward.daemon.views.text import iso, local

if TYPE_CHECKING:
    from runward.daemon.backup.restore import Plan


@click.command()
@click.argument("file", type=NamedPath(path_type=Path, readable=False))
@click.option("--dry-run", is_flag=True, help="Only check FILE and show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def restore(context: click.Context, file: Path, dry_run: bool, as_json: bool) -> None:
    """Replace the store with the backup FILE. The old store is kept in the same directory.

    The daemon must be stopped. When it starts again, it looks at every run again: runs that were judged after the backup
    are judged again, and no line is written twice.

    The state directory must be that of the backup, and the roots must exist at its paths.

    \b
    Example:
      runward restore ~/runward-backup.db --dry-run
    """
    from runward.daemon.backup.back_up import Damaged
    from runward.daemon.backup.restore import MadeElsewhere, examine_for, plan_restore, restore
    from runward.daemon.store.ownership import StateDirectoryHeld, hold, prepare
    from runward.daemon.store.reading import StoreRefused

    state = Path(own_settings(context).state_dir)
    backup, now = Path(os.path.abspath(file)), time.time()
    if not backup.is_file():
        fail(f"{backup} does not exist or is not a file", NOT_FOUND)
    try:
        found = examine_for(state, backup)
        prepare(state)
        ownership = hold(state)
        try:
            plan = plan_restore(state, backup, found, now)
            if not dry_run:
                restore(state, plan, now)
        finally:
            ownership.release()
    except StateDirectoryHeld as error:
        fail(f"{error}", TRY_AGAIN)
    except StoreRefused as error:
        fail(str(error), WRONG_SETTINGS)
    except (Damaged, MadeElsewhere, ValueError) as error:  # the last: a packed session
        fail(f"nothing was changed: {error}", NOT_SO)
    except (OSError, sqlite3.Error) as error:
        fail(f"the store of {state} is unchanged: {error}", TRY_AGAIN)
    if as_json:
        print_json(_value(plan, dry_run))
    else:
        _tell(plan, dry_run)


def _value(plan: "Plan", dry_run: bool) -> JsonValue:
    return {
        "backup": str(plan.backup),
        "restored": not dry_run,
        "version": plan.found.version,
        "sessions": plan.found.sessions,
        "events": plan.found.head.seq,
        "head": plan.found.head.hash,
        "last_event_at": iso(plan.found.last_at),
        "newer_events": None if plan.current is None else plan.current.newer,
        "kept": None if plan.kept is None else str(plan.kept),
        "epoch": plan.epoch,
        "starts_given_up": list(plan.starts),
        "jobs_held": [job.id for job in plan.jobs],
        "approvals": [
            {
                "approval_id": each.id,
                "chain_run_id": each.run,
                "chain": each.chain,
                "step": {"index": each.step, "id": step_id(each)},
            }
            for each in plan.approvals
        ],
    }


def _tell(plan: "Plan", dry_run: bool) -> None:
    will, found = ("would be ", plan.found) if dry_run else ("", plan.found)
    click.echo(
        f"{will}restored: {counted(found.sessions, 'session', 'sessions')}, {counted(found.head.seq, 'event', 'events')} up to {local(found.last_at)},"
        f" from {safe(str(plan.backup))}"
    )
    if plan.kept is not None:
        click.echo(f"{will}kept: the previous store, as {safe(str(plan.kept))}")
    if plan.current is not None:
        click.echo(_newer(plan.current.newer))
    for name in plan.starts:
        click.echo(
            f"{will}given up: the start of {safe(name)}, which may have begun; request it again if you need it"
        )
    for job in plan.jobs:
        click.echo(
            f"{will}held: job {job.id} ({safe(job.handler)} of {safe(job.lane)}), which may have been done since;"
            f" `runward queue show {job.id}` shows more"
        )
    for each in plan.approvals:
        click.echo(
            f"waits for a person: step {safe(step_id(each))} of {safe(each.run)} ({safe(each.chain)});"
            " `runward chain approvals` shows it"
        )
    if not dry_run:
        click.echo("next: start the daemon; it looks at every run again, and writes no line twice")


def _newer(newer: int | None) -> str:
    if newer is None:
        return "the previous store can't be read, so it is not known what the backup lacks"
    return f"the previous store had {newer:,} later events; what is still on disk is judged again"
