"""Migrations: forward only, each whole, with a backup before."""

import os
import sqlite3
from pathlib import Path

import pytest

from runward.daemon.store import schema as migrating
from runward.daemon.store.reading import StoreRefused
from runward.daemon.store.schema import Migration, migrate, migrations

LATER = Migration(9001, "9001_later.sql", "create table later (id integer primary key) strict;")


def schema_of(path: Path) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("select type, name, sql from sqlite_master order by name").fetchall()
        return [(*row, str(connection.execute("pragma user_version").fetchone()[0])) for row in found]
    finally:
        connection.close()


def run(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    try:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    finally:
        connection.close()


def with_steps(monkeypatch: pytest.MonkeyPatch, *steps: Migration) -> None:
    monkeypatch.setattr(migrating, "migrations", lambda: steps)


def test_the_migrations_are_numbered_from_31_without_a_gap() -> None:
    assert [each.number for each in migrations()] == list(range(31, 31 + len(migrations())))


def test_a_new_store_has_the_whole_schema_and_the_latest_version(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    assert migrate(path) == migrations()[-1].number
    names = {row[1] for row in schema_of(path)}
    assert {
        "daemon",
        "events",
        "jobs",
        "sessions",
        "attempts",
        "status_history",
        "decisions",
        "outbox",
    } <= names


def test_a_store_that_grew_step_by_step_is_like_a_fresh_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (*migrations(), LATER)
    for number in range(1, len(steps) + 1):
        with_steps(monkeypatch, *steps[:number])
        assert migrate(tmp_path / "grown.db") == steps[number - 1].number
    assert migrate(tmp_path / "fresh.db") == LATER.number
    assert schema_of(tmp_path / "grown.db") == schema_of(tmp_path / "fresh.db")


def test_every_table_is_strict(tmp_path: Path) -> None:
    migrate(tmp_path / "runward.db")
    connection = sqlite3.connect(tmp_path / "runward.db")
    tables = connection.execute("pragma table_list").fetchall()
    connection.close()
    loose = [
        name
        for _, name, kind, _, _, strict in tables
        if kind == "table" and not strict and "sqlite" not in name
    ]
    assert loose == []


def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    run(path, "update daemon set epoch = 5")
    before = schema_of(path)
    assert migrate(path) == migrations()[-1].number
    assert schema_of(path) == before
    assert sorted(each.name for each in tmp_path.iterdir() if "before" in each.name) == []


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    run(path, "pragma user_version = 9999")
    content = path.read_bytes()
    with pytest.raises(StoreRefused, match="9999"):
        migrate(path)
    assert path.read_bytes() == content


def test_a_backup_is_made_before_a_migration_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    run(path, "update daemon set epoch = 5")
    before = schema_of(path)
    known = migrations()
    with_steps(monkeypatch, *known, LATER)
    migrate(path)
    (backup,) = tmp_path.glob(f"runward.before-upgrade-{known[-1].number:04d}-*.db")
    assert schema_of(backup) == before
    connection = sqlite3.connect(backup)
    assert connection.execute("select epoch from daemon").fetchone() == (5,)
    connection.close()
    assert backup.stat().st_mode & 0o777 == 0o600


def test_only_the_backups_of_the_last_upgrades_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runward.db"
    for name in ("0001-20200101T000000Z", "0003-20190101T000000Z", "0007-20210101T000000Z"):
        (tmp_path / f"runward.before-upgrade-{name}.db").write_text("a backup")
    (tmp_path / "runward.before-upgrade-mine.db").write_text("somebody's own")
    known = migrations()
    migrate(path)
    with_steps(monkeypatch, *known, LATER)
    migrate(path)
    kept = sorted(each.name.removeprefix("runward.before-upgrade-") for each in tmp_path.glob("*.before-*"))
    assert [name[:4] for name in kept] == ["0007", f"{known[-1].number:04d}", "mine"]


def test_a_copy_that_the_disk_refuses_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    before = schema_of(path)

    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with_steps(monkeypatch, *migrations(), LATER)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        migrate(path)
    assert schema_of(path) == before
    assert [each.name for each in tmp_path.iterdir() if "before" in each.name] == []


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    before = schema_of(path)
    broken = Migration(
        9002,
        "9002_broken.sql",
        "create table half (id integer) strict; create table half (id integer) strict;",
    )
    with_steps(monkeypatch, *migrations(), LATER, broken)
    with pytest.raises(sqlite3.Error):
        migrate(path)
    names = {row[1] for row in schema_of(path)}
    assert "later" in names
    assert "half" not in names
    assert {row[-1] for row in schema_of(path)} == {"9001"}
    assert {row[1] for row in before} < names


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        migrate(path)


def test_no_other_user_can_read_a_store_or_what_sqlite_puts_next_to_it(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    earlier = os.umask(0o022)
    try:
        migrate(path)
        reader = sqlite3.connect(path)
        reader.execute("select * from daemon").fetchall()  # makes the log and its index
        modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
        reader.close()
    finally:
        os.umask(earlier)
    assert modes == dict.fromkeys(("runward.db", "runward.db-wal", "runward.db-shm"), 0o600)


def test_what_others_could_read_since_an_earlier_version_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    reader = sqlite3.connect(path)
    reader.execute("select * from daemon").fetchall()
    for each in tmp_path.iterdir():
        each.chmod(0o644)
    migrate(path)
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    reader.close()
