"""Backups: whole, consistent and checked, beside anyone who writes; or not there at all."""

import os
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from runward.daemon.backup import BackupExists, Damaged, back_up, examine
from runward.daemon.store.hash_chain import GENESIS_HEAD, Head, link
from runward.daemon.store.reading import StoreRefused
from runward.daemon.store.schema import migrate, migrations
from runward.handlers.model.requests import ScanRequested

PROBLEM = "insert into problems (path, message, since) values (?, ?, 0)"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of several slices."""
    path = tmp_path / "runward.db"
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany(PROBLEM, [(f"before {number}", "x" * 4000) for number in range(1500)])
        connection.commit()
    return path


def problems(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        (count,) = connection.execute("select count(*) from problems").fetchone()
    return int(count)


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir() if not each.name.startswith("runward.db"))


def test_a_copy_is_that_of_its_beginning_though_somebody_commits_between_all_slices(
    store: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy.db"
    slices = []
    with closing(sqlite3.connect(store, isolation_level=None, timeout=0)) as writer:

        def commit(done: int, of: int) -> None:
            slices.append((done, of))
            writer.execute(PROBLEM, (f"beside {done}", "x"))  # at once, or it raises: nobody waits for a copy

        found = back_up(store, target, tell=commit)
    assert len(slices) >= 5
    assert [done for done, _ in slices] == sorted({done for done, _ in slices}), "it began anew"
    assert problems(target) == 1500
    assert problems(store) == 1500 + len(slices)
    assert found == examine(target)
    assert (found.version, found.epoch, found.head) == (migrations()[-1].number, 0, GENESIS_HEAD)
    assert found.size == target.stat().st_size


def test_a_copy_is_one_file_for_this_user_alone(store: Path, tmp_path: Path) -> None:
    back_up(store, tmp_path / "copy.db")
    assert problems(tmp_path / "copy.db") == 1500
    assert names(tmp_path) == ["copy.db"]
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


def test_what_is_there_is_replaced_only_when_told_so(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("dear")
    with pytest.raises(BackupExists):
        back_up(store, target)
    assert target.read_text() == "dear"
    back_up(store, target, replace=True)
    assert problems(target) == 1500
    assert names(tmp_path) == ["copy.db"]


def test_what_came_under_the_name_meanwhile_is_left_alone(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"

    def put_something_there(done: int, of: int) -> None:
        target.write_text("dear")

    with pytest.raises(BackupExists):
        back_up(store, target, tell=put_something_there)
    assert target.read_text() == "dear"
    assert names(tmp_path) == ["copy.db"]


def test_a_copy_that_breaks_off_leaves_nothing_behind(store: Path, tmp_path: Path) -> None:
    (tmp_path / "old.db").write_text("dear")

    def end(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(store, tmp_path / "old.db", replace=True, tell=end)
    assert names(tmp_path) == ["old.db"]
    assert (tmp_path / "old.db").read_text() == "dear"


def test_a_store_whose_chain_is_broken_gives_no_backup(store: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("insert into events values (1, 'k', 't', 1, 'l', 0, 0, null, 0, '{}', 'no hash')")
        connection.commit()
    with pytest.raises(Damaged, match="the chain of events breaks at 1"):
        back_up(store, tmp_path / "copy.db")
    assert names(tmp_path) == []


def test_a_newer_store_is_not_copied(store: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("pragma user_version = 9999")
    with pytest.raises(StoreRefused, match="9999"):
        back_up(store, tmp_path / "copy.db")
    assert names(tmp_path) == []


@pytest.mark.parametrize("cut", [0, 20, 100, 5000, 200_000])
def test_a_file_that_was_cut_is_no_sound_store(store: Path, tmp_path: Path, cut: int) -> None:
    back_up(store, tmp_path / "copy.db")
    os.truncate(tmp_path / "copy.db", cut)
    with pytest.raises(Damaged):
        examine(tmp_path / "copy.db")
    assert names(tmp_path) == ["copy.db"]


def test_a_file_whose_log_lies_beside_it_is_none(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(PROBLEM, ("a", "b"))
        connection.commit()
        with pytest.raises(Damaged, match=r"runward\.db-wal"):
            examine(store)


def test_a_newer_copy_is_told_from_a_damaged_one(store: Path, tmp_path: Path) -> None:
    back_up(store, tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        connection.execute("pragma user_version = 9999")
    with pytest.raises(StoreRefused, match="9999"):
        examine(tmp_path / "copy.db")


def add_events(path: Path, count: int) -> list[Head]:
    """So many events, chained; returns the chain's ends from its beginning on."""
    heads = [GENESIS_HEAD]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for number in range(1, count + 1):
            event = ScanRequested(f"scan {number}", float(number))
            each = link(heads[-1], event, float(number), None, 0)
            connection.execute(
                "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
                " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(each.seq, event.key, event.type, event.version, event.lane, event.at, each.recorded_at),
                    *(each.cause, each.depth, each.payload, each.hash),
                ),
            )
            heads.append(Head(each.seq, each.hash))
    return heads


@pytest.mark.parametrize("gone", [(2, 3), (3, 4), (1, 1), (1, 4)], ids=str)
def test_a_store_whose_old_events_were_pruned_is_sound(
    store: Path, tmp_path: Path, gone: tuple[int, int]
) -> None:
    heads = add_events(store, 4)
    first, last = gone
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("delete from events where seq between ? and ?", gone)
        with pytest.raises(Damaged, match="chain of events breaks") if last < 4 else nullcontext():
            back_up(store, tmp_path / "torn.db")
        connection.execute("insert into absent_events values (?, ?, ?)", (last, first, heads[last].hash))
    assert back_up(store, tmp_path / "copy.db").head == heads[4]
