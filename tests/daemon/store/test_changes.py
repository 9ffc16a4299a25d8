"""Whether anything was committed since the last look."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from runward.daemon.store.changes import Changes
from runward.daemon.store.reading import STORE


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store with one table, and somebody who writes to it."""
    with closing(sqlite3.connect(tmp_path / STORE, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode=wal")
        connection.execute("create table things (name text)")
        yield connection


def test_a_commit_of_others_is_seen_once(tmp_path: Path, writer: sqlite3.Connection) -> None:
    changes = Changes(str(tmp_path))
    assert changes.has_changed(), "all is new at first"
    assert not changes.has_changed()
    writer.execute("insert into things values ('a')")
    assert changes.has_changed()
    assert not changes.has_changed()
    writer.execute("begin")
    writer.execute("insert into things values ('b')")
    assert not changes.has_changed(), "it is not committed"
    writer.execute("rollback")
    assert not changes.has_changed()
    changes.close()


def test_watching_the_store_keeps_no_one_from_a_checkpoint(
    tmp_path: Path, writer: sqlite3.Connection
) -> None:
    changes = Changes(str(tmp_path))
    assert changes.has_changed()
    writer.execute("insert into things values ('a')")
    assert changes.has_changed()
    busy, _, _ = writer.execute("pragma wal_checkpoint(truncate)").fetchone()
    assert busy == 0
    changes.close()


def test_another_file_in_its_place_is_seen(tmp_path: Path, writer: sqlite3.Connection) -> None:
    changes = Changes(str(tmp_path))
    assert changes.has_changed()
    writer.execute("pragma wal_checkpoint(truncate)")
    shutil.copy(tmp_path / STORE, tmp_path / "other")
    os.replace(tmp_path / "other", tmp_path / STORE)
    assert changes.has_changed()
    assert not changes.has_changed()
    os.unlink(tmp_path / STORE)
    assert changes.has_changed()
    assert not changes.has_changed(), "it is still gone"
    changes.close()


def test_what_is_no_store_is_new_each_time(tmp_path: Path) -> None:
    (tmp_path / STORE).write_text("no database, though it is long enough to look like one " * 20)
    changes = Changes(str(tmp_path))
    assert changes.has_changed()
    assert changes.has_changed(), "the next read says what is wrong"
    changes.close()
