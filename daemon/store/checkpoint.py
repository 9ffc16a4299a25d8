"""Checkpoints: moving committed data from the log into the database, in parallel with the verdicts.

By default SQLite does this inside a commit, which then takes many times as long. So a separate connection does it
whenever the log has grown. The writer's own checkpoints start at a size that the log doesn't reach as long as this
connection keeps up.
"""

import os
import sqlite3
from pathlib import Path
from typing import Final

WORTH_IT: Final = 4 << 20
"""Bytes of the log from which on a checkpoint is worth its syncs."""

WRITER_PAGES: Final = 20_000
"""Pages of the log at which the writer would do a checkpoint itself: 80 MB."""


class Checkpointer:
    """Checkpoints one store. Its calls block: make them in a thread, one at a time."""

    def __init__(self, path: Path) -> None:
        self._log = f"{path}-wal"
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)

    def is_due(self) -> bool:
        """Whether the log has grown enough."""
        try:
            return os.stat(self._log).st_size > WORTH_IT
        except OSError:
            return False

    def run(self) -> bool:
        """Move what can be moved without waiting for readers; returns whether that was everything.

        Raises `sqlite3.Error` if the disk refuses.
        """
        _, in_log, moved = self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
        return bool(in_log == moved)

    def close(self) -> None:
        self._connection.close()
