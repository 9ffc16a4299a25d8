"""`runward backup`: a consistent copy of the store, the daemon up or down."""

import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Final

import click

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import fail, note, print_json
from runward.daemon.store.reading import STORE, exists
from runward.daemon.views.text import iso, local, size

_ERASE: Final = "\r\x1b[K"
_EVERY: Final = 0.2


@click.command()
@click.argument("file", type=NamedPath(path_type=Path, dir_okay=False, readable=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def backup(context: click.Context, file: Path, force: bool, as_json: bool) -> None:
    """Write a consistent, checked copy of the store to FILE, even while the daemon runs.

    The copy contains the record: sessions, events, verdicts, pending work. It does not contain run directories.

    \b
    Example:
      runward backup ~/runward-backup.db
    """
    from runward.daemon.backup.back_up import BackupExists, Damaged, back_up
    from runward.daemon.store.reading import StoreRefused
    from runward.daemon.store.transaction import StoreMalformed, malformed_is_told

    state = Path(settings_in_force(context).state_dir)
    store, target = state / STORE, Path(os.path.abspath(file))
    if not exists(str(state)):
        fail(f"there is no store in {state}: no daemon has run there yet", NOT_FOUND)
    if _is_of_the_store(target, store):
        fail(f"{target} is the store itself: name another file", WRONG_USAGE)
    began = time.monotonic()
    shown = _Shown(sys.stderr.isatty())
    try:
        with malformed_is_told():
            found = back_up(store, target, replace=force, tell=shown.tell)
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
        "size": found.size,
        "version": found.version,
        "epoch": found.epoch,
        "sessions": found.sessions,
        "events": found.head.seq,
        "head": found.head.hash,
        "last_event_at": iso(found.last_at),
        "duration_s": round(time.monotonic() - began, 3),
    }
    if as_json:
        print_json(value)
        return
    click.echo(
        f"{target}: {counted(found.sessions, 'session', 'sessions')}, {counted(found.head.seq, 'event', 'events')} up to {local(found.last_at)},"
        f" {size(found.size)}; checked"
    )
    if target.parent == state:
        note("it is on the same disk as the store: if that disk fails, both are lost")


def _is_of_the_store(target: Path, store: Path) -> bool:
    """Whether `target` is one of the store's own files, under whatever name."""
    own = [store, *(store.with_name(f"{STORE}-{end}") for end in ("wal", "shm"))]
    return any(os.path.realpath(target) == os.path.realpath(each) for each in own)


class _Shown:
    """The progress, updated in place, on the terminal of anyone who waits."""

    def __init__(self, is_shown: bool) -> None:
        self._next = time.monotonic() + _EVERY if is_shown else float("inf")
        self._has_shown = False

    def tell(self, done: int, of: int) -> None:
        """This many of these pages are copied; then they are checked."""
        now = time.monotonic()
        if now >= self._next or (done == of and self._has_shown):
            said = "copied, checking it" if done == of else f"{done * 100 // max(1, of)} % copied"
            click.echo(f"{_ERASE}{said}", nl=False, err=True)
            self._next, self._has_shown = now + _EVERY, True

    def erase(self) -> None:
        """Leave the terminal as it was."""
        if self._has_shown:
            click.echo(_ERASE, nl=False, err=True)
