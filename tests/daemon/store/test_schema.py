"""A store whose schema somebody changed is refused: by a restore, a backup, the daemon and the doctor."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.daemon.doctor.examined import findings, installation, results
from tests.daemon.store.test_upgrades import VERSIONS, load

from runward.daemon.backup import Damaged, examine
from runward.daemon.doctor import state
from runward.daemon.store.schema import difference, migrate

LIE = (
    "create trigger lie after update of status on sessions when new.status = 'failed'"
    " begin update sessions set status = 'completed' where key = new.key; end"
)
CHANGES = {
    LIE: "the trigger 'lie' is not Runward's",
    "drop trigger attempts_end_once": "the trigger 'attempts_end_once' is missing",
    "drop trigger events_are_facts; create trigger events_are_facts before update on events"
    " when 0 begin select 1; end": "the trigger 'events_are_facts' differs from what Runward creates",
    "create view spy as select 1": "the view 'spy' is not Runward's",
    "create table more (a)": "the table 'more' is not Runward's",
    "drop index sessions_started": "the index 'sessions_started' is missing",
}


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(script)
        connection.execute("pragma wal_checkpoint(truncate)")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_of_any_version_has_the_schema_that_it_was_given(tmp_path: Path, version: int) -> None:
    load(version, tmp_path / "runward.db")
    for expected in (version, migrate(tmp_path / "runward.db", keep=False)):
        with closing(sqlite3.connect(tmp_path / "runward.db")) as connection:
            if expected != version or version == VERSIONS[-1]:
                assert difference(connection, expected) is None
    load(version, tmp_path / "again.db")
    with closing(sqlite3.connect(tmp_path / "again.db")) as connection:
        assert difference(connection, version) is None


@pytest.mark.parametrize(("script", "said"), CHANGES.items(), ids=CHANGES.values())
def test_whatever_was_changed_is_named(tmp_path: Path, script: str, said: str) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    change(path, script)
    with pytest.raises(Damaged, match=said):
        examine(path)
    assert "failed" in results(findings(state.examine_store, installation(tmp_path)))


def test_what_sqlite_itself_keeps_of_an_analysis_is_nobodys_change(tmp_path: Path) -> None:
    migrate(tmp_path / "runward.db")
    change(tmp_path / "runward.db", "analyze")
    examine(tmp_path / "runward.db")


def test_a_key_comes_before_the_other_columns_of_its_table(tmp_path: Path) -> None:
    """SQLite 3.40 takes others for NULL otherwise, when it checks a table without a rowid: a backup would be refused."""
    migrate(tmp_path / "runward.db")
    with closing(sqlite3.connect(tmp_path / "runward.db")) as connection:
        tables = connection.execute("select name, sql from sqlite_schema where type = 'table'").fetchall()
        columns = {
            name: [
                is_key > 0 for (is_key,) in connection.execute(f"select pk from pragma_table_info('{name}')")
            ]
            for name, sql in tables
            if "without rowid" in sql.lower()
        }
    assert len(columns) > 10
    assert [name for name, keys in columns.items() if keys != sorted(keys, reverse=True)] == []
