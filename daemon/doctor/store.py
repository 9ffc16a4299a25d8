"""The store: whether it is sound, and has a version that this program reads."""

import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.store import reading
from runward.daemon.store.soundness import Soundness, quick_check, soundness, strange_schema

LARGE_LOG: Final = 256 << 20
"""A log of this many bytes is no longer being moved into the database: at most 64 MiB are kept."""

SHOWN: Final = 3
"""Complaints of SQLite's that are named: the others tell no more."""

_TAMPERED: Final = (
    "find out who changed it; stop the daemon, keep a copy of the file, then `runward restore BACKUP`"
)
_MIB: Final = 1 << 20
_MARGIN_S: Final = 1.0


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Version, size and log, then SQLite's own check of all pages."""
    try:
        if not reading.exists(installation.settings.state_dir):
            yield Finding("skipped", f"no daemon has run in {installation.state} yet: there is no store")
            return
        found = soundness(installation.state)
        yield _version(found)
        if found.version <= found.known and (strange := strange_schema(installation.state, found.version)):
            yield Finding(
                "failed", f"the store's schema is not the one that Runward created: {strange}", _TAMPERED
            )
        yield _pages(found, installation.state)
        yield _checked(installation, patience)
    except reading.StoreUnreadable as error:
        yield Finding("failed", str(error))
    except sqlite3.Error as error:
        fix = "check the disk; stop the daemon, then `runward restore BACKUP`"
        yield Finding("failed", f"{installation.state / reading.STORE} can't be read: {error}", fix)


def _version(found: Soundness) -> Finding:
    said = f"the store has version {found.version}; this program needs {found.known}"
    if found.version > found.known:
        return Finding("failed", f"{said}: a newer Runward wrote it", "install the newer one")
    if found.version < found.known:
        return Finding("warning", said, "start the daemon of this version, which brings it up to date")
    return Finding("ok", said)


def _pages(found: Soundness, state: Path) -> Finding:
    used, free = (found.page_size * count / _MIB for count in (found.pages, found.free_pages))
    log = found.log_bytes / _MIB
    said = f"{used:.1f} MiB ({free:.1f} MiB of it free), journal mode {found.journal_mode}, log {log:.1f} MiB"
    if found.journal_mode != "wal":
        return Finding("warning", said, "restart the daemon: it sets the mode to wal")
    if found.log_bytes > LARGE_LOG:
        who = f"fuser {shlex.quote(str(state / reading.STORE))}"
        fix = f"stop what keeps the store open for long (`{who}`), then restart the daemon"
        return Finding("warning", f"{said}, which isn't moved into the database", fix)
    return Finding("ok", said)


def _checked(installation: Installation, patience: Patience) -> Finding:
    complaints = quick_check(installation.state, max(patience.left() - _MARGIN_S, _MARGIN_S))
    if complaints is None:
        return Finding("skipped", "the store is too large to check in this time; no damage was found so far")
    if complaints:
        fix = "stop the daemon, keep a copy of the file, then `runward restore BACKUP`"
        return Finding("failed", f"the store is damaged: {'; '.join(complaints[:SHOWN])}", fix)
    return Finding("ok", "every page of the store is sound (quick_check)")
