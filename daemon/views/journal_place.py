"""Where a session's journal is on the disk, for the commands that show and check it."""

import os

from runward.daemon.store.reading_sessions import SessionRow
from runward.handlers.journal.place import journal_directory


def journal_place(state: str, row: SessionRow) -> str:
    """The directory of the session's journal, absolute; `state` is the state directory."""
    return os.path.join(state, journal_directory(row.layout, row.key, row.path))
