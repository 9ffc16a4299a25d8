"""Backups: a consistent, examined copy of the store in one file, taken while a daemon keeps writing."""

import os
from contextlib import closing
from pathlib import Path

from runward.daemon.backup.examine import Examined, examine
from runward.daemon.disk.copying import Tell, copied, tell_nobody
from runward.daemon.disk.durable import sync_directory
from runward.daemon.store.reading import open_to_read


class BackupExists(Exception):
    """Something already has the backup's name."""


def back_up(store: Path, target: Path, *, replace: bool = False, tell: Tell = tell_nobody) -> Examined:
    """Make a sound copy of `store` at `target`, for this user only; returns what is in it.

    The copy appears whole or not at all: it is written under a temporary name next to it, examined, synced, renamed.
    Raises `BackupExists` (only without `replace`), `Damaged` if the copy isn't sound, `StoreUnreadable`,
    `sqlite3.Error` and `OSError`.
    """
    if not replace and os.path.lexists(target):
        raise BackupExists(str(target))
    with closing(open_to_read(str(store))) as source, copied(source, target, tell) as copy:
        found = examine(copy)
        if replace:
            os.rename(copy, target)
        else:
            _rename_anew(copy, target)
    sync_directory(target.parent)
    return found


def _rename_anew(copy: Path, target: Path) -> None:
    """Rename to an unused name, even if somebody creates it meanwhile. Raises `BackupExists`."""
    try:
        os.link(copy, target)
    except FileExistsError:
        raise BackupExists(str(target)) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise BackupExists(str(target)) from None
        os.rename(copy, target)
