"""Lists of the exchange and of shows: they are read in parts, and no part reads a whole table."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from runward.daemon.store.reading_exchange import (
    LAST,
    WantedActions,
    latest_actions,
    latest_entries,
    principals,
    shared_artifacts,
)
from runward.daemon.store.reading_shows import plays_of, show_in, shows

READERS: dict[str, Callable[[Any], object]] = {
    "actions": lambda store: latest_actions(store, WantedActions(limit=9)),
    "actions of a principal": lambda store: latest_actions(store, WantedActions("ann", limit=9)),
    "actions on an artifact": lambda store: latest_actions(store, WantedActions(artifact="note", limit=9)),
    "the ledger": lambda store: latest_entries(store, None, LAST, 9),
    "the ledger of an account": lambda store: latest_entries(store, "ann", LAST, 9),
    "artifacts": lambda store: shared_artifacts(store, after="a", limit=9),
    "principals": lambda store: principals(store, after="a", limit=9, most_artifacts=9),
    "a principal": lambda store: principals(store, "ann"),
    "a show": lambda store: show_in(store, "/shows/a"),
    "the plays of a show": lambda store: plays_of(store, "/shows/a", "b", 9),
}


class Planned:
    """Collects how SQLite would carry out each statement."""

    def __init__(self, store: sqlite3.Connection) -> None:
        self._store = store
        self.steps: list[str] = []

    def execute(self, sql: str, values: Any = ()) -> list[tuple[object, ...]]:
        self.steps += [row[3] for row in self._store.execute(f"explain query plan {sql}", values)]
        return []


@pytest.mark.parametrize("name", READERS)
def test_a_list_is_read_by_an_index(store: sqlite3.Connection, name: str) -> None:
    tables = {name for (name,) in store.execute("select name from sqlite_schema where type = 'table'")}
    planned = Planned(store)
    READERS[name](planned)
    scanned = {step.split()[1] for step in planned.steps if step.startswith("SCAN")}
    assert planned.steps
    assert not scanned & {*tables, "p", "s", "t", "e", "i", "x", "c"}, planned.steps


def test_the_ledger_is_read_from_its_end_in_parts(store: sqlite3.Connection) -> None:
    for seq, (giver, taker) in enumerate(
        [("mint", "ann"), ("mint", "bob"), ("ann", "bob"), ("mint", "ann")], 1
    ):
        store.execute(
            "insert into ledger_entries values (?, 1.0, 'k', ?, ?, 'scrip', 1, '')", (seq, giver, taker)
        )

    def parts(account: str | None) -> list[list[int]]:
        found, before = [], LAST
        while entries := latest_entries(store, account, before, 2):
            found.append([each.seq for each in entries])
            before = entries[0].seq
        return found

    assert parts(None) == [[3, 4], [1, 2]]
    assert parts("ann") == [[3, 4], [1]]
    assert parts("bob") == [[2, 3]]


def test_shows_are_read_in_parts_and_those_that_began_at_once_by_their_paths(
    store: sqlite3.Connection,
) -> None:
    store.execute("pragma foreign_keys = off")
    for number, (show, at) in enumerate([("/a", 1.0), ("/b", 2.0), ("/c", 2.0), ("/c", 5.0), ("/d", 3.0)]):
        store.execute(
            "insert into sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at,"
            " reason_code, reason_summary, evidence_refs, artifacts_path)"
            " values (?, 's', 'show', 'runs', '/r', 'agent', 'running', 1, 'live', 1.0, 'c', 's', '[]', '/a')",
            (f"k{number}",),
        )
        store.execute(
            "insert into plays (session_key, show, topic, name, depends_on, created_at, updated_at)"
            " values (?, ?, ?, 'p', '[]', ?, ?)",
            (f"k{number}", show, show.strip("/"), at, at),
        )
    found, after = [], None
    while part := shows(store, after, 2):
        found.append([each.path for each in part])
        after = (part[-1].created_at, part[-1].path)
    assert found == [["/d", "/b"], ["/c", "/a"]]
    assert [each.path for each in shows(store)] == ["/d", "/b", "/c", "/a"]
    assert show_in(store, "/c") == shows(store)[2]
