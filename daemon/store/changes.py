"""Whether anything was committed to the store since the last look, without reading it."""

import os
import sqlite3

from runward.daemon.store.reading import STORE, uri_of


class Changes:
    """Watches the store of a state directory. SQLite counts the commits of others; a restore replaces the file.

    Any thread may use it, one at a time. The store's files are only ever opened by SQLite: if a process closes one of them,
    the system takes away the locks that its connections have there, and what they read may be written over meanwhile.
    """

    def __init__(self, state: str) -> None:
        self._path = os.path.join(state, STORE)
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._seen: int | None = None

    def has_changed(self) -> bool:
        """Whether there is something new since the last call; also if nobody can tell."""
        file = self._present()
        if file is None or file != self._file or self._connection is None:
            was_there = self._file is not None
            self.close()
            self._file = file
            if file is None:
                return was_there
            self._open()
        count = self._count()
        is_new = count is None or count != self._seen
        self._seen = count
        return is_new

    def close(self) -> None:
        """Let go of the store."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._file = self._seen = None

    def _present(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None  # the next read of the store says why
        return found.st_dev, found.st_ino

    def _open(self) -> None:
        try:
            self._connection = sqlite3.connect(
                f"{uri_of(self._path)}?mode=ro",
                uri=True,
                isolation_level=None,
                timeout=0,
                check_same_thread=False,
            )
        except sqlite3.Error:
            self._connection = None  # the next read of the store says why

    def _count(self) -> int | None:
        """SQLite's number for what others have committed; it holds no transaction, so that the store can be tidied up."""
        if self._connection is None:
            return None
        try:
            number: int = self._connection.execute("pragma data_version").fetchone()[0]
        except sqlite3.Error:
            self._connection.close()
            self._connection = None
            return None
        return number
