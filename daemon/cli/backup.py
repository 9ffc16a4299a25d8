"""`runward backup` and `runward restore`: a consistent copy of the store, and the store replaced with one."""

import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.shell.context import own_settings, pass_settings
from runward.daemon.cli.terminal.live import InPlace
from runward.daemon.cli.terminal.options import NamedPath, json_option
from runward.daemon.cli.terminal.output import fail, note, print_json, print_text, safe
from runward.daemon.store.ownership import StateDirectoryHeld, hold, prepare
from runward.daemon.store.reading import STORE, StoreRefused, exists
from runward.daemon.views.text import local, size
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.backup import Plan
    from runward.daemon.store.moving import Moves


_FIRST_AFTER: Final = 0.2


@click.command()
@click.argument("file", type=NamedPath(path_type=Path, dir_okay=False, readable=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@json_option()
@pass_settings
def backup(settings: Settings, file: Path, force: bool, as_json: bool) -> None:
    """Write a consistent, checked copy of the store to FILE, even while the daemon runs.

    The copy contains the record: sessions, events, verdicts, pending work. It does not contain run directories.

    \b
    Example:
      runward backup ~/runward-backup.db
    """
    from runward.daemon.backup import BackupExists, Damaged, back_up
    from runward.daemon.store.transaction import StoreMalformed, malformed_is_told

    state = Path(settings.state_dir)
    store, target = state / STORE, Path(os.path.abspath(file))
    if not exists(str(state)):
        fail(f"there is no store in {state}: no daemon has run there yet", NOT_FOUND)
    if _is_of_the_store(target, store):
        fail(f"{target} is the store itself: name another file", WRONG_USAGE)
    began = time.monotonic()
    shown = InPlace(_FIRST_AFTER)

    def tell(done: int, of: int) -> None:
        """This many of these pages are copied; then they are checked."""
        progress = "copied, checking it" if done == of else f"{done * 100 // max(1, of)} % copied"
        shown.tell(lambda: progress, is_last=done == of)

    try:
        with malformed_is_told():
            copy = back_up(store, target, replace=force, tell=tell)
    except BackupExists:
        fail(f"{target} exists: name another file, or use --force to replace it", WRONG_USAGE)
    except StoreRefused as error:
        fail(str(error), WRONG_SETTINGS)
    except Damaged as error:
        fail(f"the store's copy is not sound, and was not kept: {error}; see docs/backup.md", NOT_SO)
    except StoreMalformed as error:
        fail(f"{store} can't be copied: {error}", TRY_AGAIN)
    except FileNotFoundError as error:
        fail(f"{target} can't be written: {error.strerror}: make its directory first", NOT_FOUND)
    except (OSError, sqlite3.Error) as error:
        fail(f"{target} can't be written: {error}", TRY_AGAIN)
    finally:
        shown.erase()
    value: dict[str, JsonValue] = {
        "file": str(target),
        "size": copy.size,
        "version": copy.version,
        "epoch": copy.epoch,
        "sessions": copy.sessions,
        "events": copy.head.seq,
        "head": copy.head.hash,
        "last_event_at": iso(copy.last_at),
        "duration_s": round(time.monotonic() - began, 3),
    }
    if as_json:
        print_json(value)
        return
    print_text(
        f"{target}: {counted(copy.sessions, 'session', 'sessions')}, {counted(copy.head.seq, 'event', 'events')} up to {local(copy.last_at)},"
        f" {size(copy.size)}; checked"
    )
    # It is done all the same: a copy there helps against a bad restore, if not against a bad disk.
    if target.parent == state:
        note("it is on the same disk as the store: if that disk fails, both are lost")


def _is_of_the_store(target: Path, store: Path) -> bool:
    """Whether `target` is one of the store's own files, under whatever name."""
    own = [store, *(store.with_name(f"{STORE}-{end}") for end in ("wal", "shm"))]
    return any(os.path.realpath(target) == os.path.realpath(each) for each in own)


def _moves(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> "Moves":
    from runward.daemon.store.moving import Moves, asked

    try:
        return Moves(tuple(asked(given)))
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error


@click.command()
@click.argument("file", type=NamedPath(path_type=Path, readable=False))
@click.option(
    "--moved",
    metavar="OLD=NEW",
    multiple=True,
    callback=_moves,
    help="What was below OLD when the backup was made is below NEW now. May be given several times.",
)
@click.option("--as-is", is_flag=True, help="Restore it even if directories that it knows don't exist.")
@click.option("--dry-run", is_flag=True, help="Only check FILE and show what would be done.")
@json_option()
@click.pass_context
def restore(
    context: click.Context, file: Path, moved: "Moves", as_is: bool, dry_run: bool, as_json: bool
) -> None:
    """Replace the store with the backup FILE. The old store is kept in the same directory.

    The daemon must be stopped. When it starts again, it looks at every run again: runs that were judged after the backup
    are judged again, and no line is written twice.

    The state directory must be that of the backup, and the roots must exist at its paths. --moved restores a record whose
    directories were moved, also to another machine.

    \b
    Example:
      runward restore ~/runward-backup.db --dry-run
      runward restore ~/runward-backup.db --moved /home/ann=/home/bea
    """
    from runward.daemon.backup import Damaged, MadeElsewhere, examine_for, plan_restore, restore

    state = Path(own_settings(context).state_dir)
    backup, now = Path(os.path.abspath(file)), time.time()
    if not backup.is_file():
        fail(f"{backup} does not exist or is not a file", NOT_FOUND)
    try:
        examined = examine_for(state, backup, moved, is_as_is=as_is)
        prepare(state)
        # Held from before the plan to the end: a daemon that started meanwhile would write what the plan doesn't know.
        ownership = hold(state)
        try:
            plan = plan_restore(state, backup, examined, now, moved)
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
        "version": plan.examined.version,
        "sessions": plan.examined.sessions,
        "events": plan.examined.head.seq,
        "head": plan.examined.head.hash,
        "last_event_at": iso(plan.examined.last_at),
        "newer_events": None if plan.current is None else plan.current.newer,
        "kept": None if plan.kept is None else str(plan.kept),
        "epoch": plan.epoch,
        "moves": [{"old": old, "new": new} for old, new in plan.moves.pairs],
        "starts_given_up": list(plan.starts),
        "jobs_held": [job.id for job in plan.jobs],
        "approvals": [
            {
                "approval_id": each.id,
                "chain_run_id": each.run,
                "chain": each.chain,
                "step": {"index": each.step, "id": each.step_id()},
            }
            for each in plan.approvals
        ],
    }


def _tell(plan: "Plan", dry_run: bool) -> None:
    will, affected = "would be " if dry_run else "", plan.examined
    print_text(
        f"{will}restored: {counted(affected.sessions, 'session', 'sessions')}, {counted(affected.head.seq, 'event', 'events')} up to {local(affected.last_at)},"
        f" from {safe(str(plan.backup))}"
    )
    if plan.kept is not None:
        print_text(f"{will}kept: the previous store, as {safe(str(plan.kept))}")
    if plan.current is not None:
        print_text(_newer(plan.current.newer))
    for old, new in plan.moves.pairs:
        print_text(f"{will}moved: what was below {safe(old)} is below {safe(new)}")
    for name in plan.starts:
        print_text(
            f"{will}given up: the start of {safe(name)}, which may have begun; request it again if you need it"
        )
    for job in plan.jobs:
        print_text(
            f"{will}held: job {job.id} ({safe(job.handler)} of {safe(job.lane)}), which may have been done since;"
            f" `runward queue show {job.id}` shows more"
        )
    for each in plan.approvals:
        print_text(
            f"waits for a person: step {safe(each.step_id())} of {safe(each.run)} ({safe(each.chain)});"
            " `runward chain approvals` shows it"
        )
    if not dry_run:
        print_text("next: start the daemon; it looks at every run again, and writes no line twice")


def _newer(newer: int | None) -> str:
    if newer is None:
        return "the previous store can't be read, so it is not known what the backup lacks"
    return f"the previous store had {newer:,} later events; what is still on disk is judged again"
