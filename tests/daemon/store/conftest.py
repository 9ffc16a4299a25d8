"""A store by plain SQL, as anybody may open it who has the rights."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from runward.daemon.store.schema import migrate


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An empty store with its keys and triggers in force; a module that needs another one makes its own."""
    migrate(tmp_path / "runward.db")
    with closing(sqlite3.connect(tmp_path / "runward.db", isolation_level=None)) as connection:
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma recursive_triggers = on")
        yield connection
