"""What sessions produced, as commands read it: as it was verified, and as it was hashed since."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from runward.daemon.store.schema import migrate
from runward.daemon.store.tables.files import HashedFile, KeptFile, kept_files

SESSION = (
    "insert into sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at, reason_code,"
    " reason_summary, evidence_refs, artifacts_path)"
    " values (?, 's', 'native', 'runs', '/r', 'agent', 'completed', ?, 'live', 1.0, 'c', 's', '[]', '/a')"
)
ATTEMPT = "insert into attempts (session_key, attempt, started_at, status, produced) values (?, ?, 1.0, 'completed', ?)"
FILE = "insert into files values (?, ?, ?, ?, ?, ?, ?, ?, 9.0)"
DIGEST = "ab" * 32


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A session `k` whose second attempt produced two files of which one is hashed, and one that produced nothing."""
    migrate(tmp_path / "runward.db")
    connection = sqlite3.connect(tmp_path / "runward.db", isolation_level=None)
    connection.executemany(SESSION, [("k", 2), ("none", 1)])
    earlier, last = '[["z","z.md",1,2]]', '[["z","z.md",3,4],["a","a.md",5,-6]]'
    connection.executemany(ATTEMPT, [("k", 1, earlier), ("k", 2, last), ("none", 1, None)])
    connection.execute(FILE, ("k", 1, "z", "z.md", 1, 2, DIGEST, None))
    connection.execute(FILE, ("k", 2, "a", "a.md", 7, 8, DIGEST, "changed"))
    yield connection
    connection.close()


def test_the_files_of_the_last_attempt_are_read_in_the_contracts_order(store: sqlite3.Connection) -> None:
    assert kept_files(store, ["k"]) == {
        "k": [
            KeptFile("z", "z.md", 3, 4, None),
            KeptFile("a", "a.md", 5, -6, HashedFile(7, 8, DIGEST, "changed", 9.0)),
        ]
    }


def test_a_session_that_produced_nothing_or_is_not_known_has_none(store: sqlite3.Connection) -> None:
    assert kept_files(store, ["none", "nobody", "it's"]) == {}
    assert list(kept_files(store, ["none", "k", "k"])) == ["k"]
    assert kept_files(store, []) == {}
