"""Lists of outcomes, of the exchange and of shows: they are read in parts, and no part reads a whole table."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from runward.daemon.store.reading import LAST, search_end
from runward.daemon.store.tables import shared_artifacts as shared_artifacts_table
from runward.daemon.store.tables.actions import WantedActions, latest_actions
from runward.daemon.store.tables.approvals import approvals_called
from runward.daemon.store.tables.artifacts import Wanted as Outcomes
from runward.daemon.store.tables.artifacts import artifacts, artifacts_called, newest_artifacts
from runward.daemon.store.tables.chain_runs import chain_runs, chain_runs_called, runs_by_status
from runward.daemon.store.tables.invocations import Wanted as Invocations
from runward.daemon.store.tables.invocations import invocations, invocations_called, invocations_of
from runward.daemon.store.tables.ledger import latest_entries
from runward.daemon.store.tables.notices import notices, notices_called
from runward.daemon.store.tables.principals import principals
from runward.daemon.store.tables.shared_artifacts import some_artifacts
from runward.daemon.store.tables.shows import plan_of, plays_of, show_in, shows, shows_called
from runward.daemon.store.tables.triggers import newest_firings

READERS: dict[str, Callable[[Any], object]] = {
    "actions": lambda store: latest_actions(store, WantedActions(limit=9)),
    "actions of a principal": lambda store: latest_actions(store, WantedActions("ann", limit=9)),
    "actions on an artifact": lambda store: latest_actions(store, WantedActions(artifact="note", limit=9)),
    "the ledger": lambda store: latest_entries(store, None, LAST, 9),
    "the ledger of an account": lambda store: latest_entries(store, "ann", LAST, 9),
    "artifacts": lambda store: some_artifacts(store, None, None, with_deleted=False, after="a", limit=9),
    "artifacts of an owner": lambda store: some_artifacts(
        store, "ann", "x", with_deleted=True, after="a", limit=9
    ),
    "principals": lambda store: principals(store, after="a", limit=9, most_artifacts=9),
    "a principal": lambda store: principals(store, "ann"),
    "outcomes": lambda store: newest_artifacts(store, Outcomes(since=1.0, limit=9), (5.0, "a")),
    "outcomes of a kind": lambda store: newest_artifacts(store, Outcomes("gate_verdict", "false", limit=9)),
    "outcomes of a session": lambda store: newest_artifacts(store, Outcomes(session="k", limit=9)),
    "outcomes of a chain run": lambda store: newest_artifacts(store, Outcomes(chain_run="r", limit=9)),
    "chain runs": lambda store: chain_runs(store, None, "failed", 1.0, 9, (5.0, "a")),
    "runs of a chain": lambda store: chain_runs(store, "c", None, None, 9, (5.0, "a")),
    "chain runs with an id": lambda store: chain_runs_called(store, "cr_", 9),
    "approvals with an id": lambda store: approvals_called(store, "ap_"),
    "the end of a search": lambda store: search_end(store, "invocations", 5.0),
    "the end of a search in a chain": lambda store: search_end(store, "chain_runs", None, "c"),
    "invocations": lambda store: invocations(store, Invocations("s", since=1.0, limit=9, after=(5.0, "a"))),
    "invocations with an id": lambda store: invocations_called(store, "inv_"),
    "invocations of a chain run": lambda store: invocations_of(store, "r"),
    "firings of a chain": lambda store: newest_firings(store, "c", 9),
    "all outcomes of a session": lambda store: artifacts(store, Outcomes(session="k")),
    "outcomes with an id": lambda store: artifacts_called(store, "ar_"),
    "notices with an id": lambda store: notices_called(store, "nt_"),
    "notices": lambda store: notices(store, None, 9),
    "older notices": lambda store: notices(store, None, 9, (5.0, "a")),
    "shows": lambda store: shows(store, None, 9),
    "older shows": lambda store: shows(store, (5.0, "/a"), 9),
    "shows of a topic": lambda store: shows_called(store, "a"),
    "the plan of a show": lambda store: plan_of(store, "/shows/a"),
    "a show": lambda store: show_in(store, "/shows/a"),
    "the plays of a show": lambda store: plays_of(store, "/shows/a", "b", 9),
}


class _Rows(list[tuple[Any, ...]]):
    """No rows."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        return []

    def fetchone(self) -> None:
        return None


class Planned:
    """Collects how SQLite would carry out each statement."""

    def __init__(self, store: sqlite3.Connection) -> None:
        self._store = store
        self.steps: list[str] = []

    def execute(self, sql: str, values: Any = ()) -> _Rows:
        self.steps += [row[3] for row in self._store.execute(f"explain query plan {sql}", values)]
        return _Rows()


BY_INDEX = frozenset({"shows", "notices"})
"""Readers that begin with the first row of an index, which the plan calls a scan: `limit` ends it."""


@pytest.mark.parametrize("name", READERS)
def test_a_list_is_read_by_an_index(store: sqlite3.Connection, name: str) -> None:
    tables = {name for (name,) in store.execute("select name from sqlite_schema where type = 'table'")}
    planned = Planned(store)
    READERS[name](planned)
    scanned = {
        step.split()[1]
        for step in planned.steps
        if step.startswith("SCAN") and not (name in BY_INDEX and "USING INDEX" in step)
    }
    assert planned.steps
    assert not scanned & {*tables, "p", "s", "t", "e", "i", "x", "c"}, planned.steps


@pytest.mark.parametrize(
    "name",
    [
        *("actions", "artifacts", "artifacts of an owner", "outcomes", "outcomes of a kind", "notices"),
        *("older notices", "the plan of a show", "principals"),
    ],
)
def test_a_part_of_a_long_list_is_read_in_its_order_and_not_sorted(
    store: sqlite3.Connection, name: str
) -> None:
    planned = Planned(store)
    READERS[name](planned)
    assert not [step for step in planned.steps if "TEMP B-TREE" in step], planned.steps


def test_chain_runs_are_counted_by_what_is_shown_of_them(store: sqlite3.Connection) -> None:
    store.execute("pragma foreign_keys = off")
    ran = ("completed", "completed", "running", "waiting_approval", "waiting_approval", "waiting_approval")
    for number, status in enumerate(ran):
        store.execute(
            "insert into chain_runs (id, chain, event, fired_by, definition, trigger_event, status, reason_code,"
            " reason_summary, current_step, created_at, updated_at) values (?1, 'c', 1, ?1, '', '', ?2, '', '', 0, 1, 1)",
            (f"r{number}", status),
        )
    for step in (0, 1):
        store.execute(
            "insert into approvals (id, run, step, status, asked_at, shown, shown_hash)"
            " values (?, 'r3', ?, 'asked', 1, '', '')",
            (f"a{step}", step),
        )
    assert runs_by_status(store) == {"completed": 2, "running": 3, "waiting_approval": 1}
    store.execute("update chain_runs set status = 'failed' where id = 'r2'")
    store.execute("delete from chain_runs where id = 'r0'")
    assert runs_by_status(store) == {"completed": 1, "failed": 1, "running": 2, "waiting_approval": 1}


@pytest.fixture
def outcomes(store: sqlite3.Connection) -> sqlite3.Connection:
    """Seven outcomes, named by the times when they came; the third was changed after the others."""
    store.execute("pragma foreign_keys = off")
    for at in range(1, 8):
        store.execute(
            "insert into artifacts (id, session_key, kind, name, passed, is_known, place, created_at, updated_at)"
            " values (?1, 'k', ?2, ?1, ?3, 1, 0, ?4, ?5)",
            (f"o{at}", "even" if at % 2 == 0 else "odd", at < 3, float(at), 9.0 if at == 3 else float(at)),
        )
    return store


def parts(store: sqlite3.Connection, wanted: Outcomes) -> list[list[str]]:
    found, part = [], newest_artifacts(store, wanted)
    while True:
        found.append([each.id for each in part.rows])
        if part.last is None:
            return found
        part = newest_artifacts(store, wanted, part.last)


def test_outcomes_are_read_in_parts_and_each_part_shows_what_changed_last_first(
    outcomes: sqlite3.Connection,
) -> None:
    assert parts(outcomes, Outcomes(limit=3)) == [["o7", "o6", "o5"], ["o3", "o4", "o2"], ["o1"]]
    assert parts(outcomes, Outcomes(kind="even", limit=2)) == [["o6", "o4"], ["o2"]]
    assert parts(outcomes, Outcomes(passed="true", limit=9)) == [["o2", "o1"]]
    assert parts(outcomes, Outcomes(since=6.0, limit=9)) == [["o3", "o7", "o6"]]
    (whole,) = parts(outcomes, Outcomes(limit=9))
    assert whole == [each.id for each in artifacts(outcomes, Outcomes())]


def test_a_search_for_rare_outcomes_looks_at_so_many_and_can_go_on(
    outcomes: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runward.daemon.store.tables.artifacts.MOST_READ", 3)
    part = newest_artifacts(outcomes, Outcomes(passed="true", limit=9))
    assert (part.rows, part.is_searched) == ([], True)
    assert parts(outcomes, Outcomes(passed="true", limit=9)) == [[], ["o2"], ["o1"]]


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


@pytest.fixture
def artifacts_of_two(store: sqlite3.Connection) -> sqlite3.Connection:
    """Nine artifacts, whose owners and types take turns; every third one is deleted."""
    store.execute("insert into contents (hash, content) values ('h', '')")
    for number in range(1, 10):
        store.execute(
            "insert into shared_artifacts (id, type, content, code, owner_id, created_at, updated_at, executable, price,"
            " depends_on, has_standing, can_execute, version, deleted_at)"
            " values ('a' || ?1, ?2, 'h', 'h', ?3, 1, 1, 0, 0, '[]', 0, 0, 1, ?4)",
            (
                number,
                "even" if number % 2 == 0 else "odd",
                "ann" if number < 5 else "bob",
                1.0 if number % 3 == 0 else None,
            ),
        )
    return store


def parts_of_artifacts(
    store: sqlite3.Connection, owner: str | None, kind: str | None, limit: int, *, with_deleted: bool = False
) -> list[list[str]]:
    found, after = [], ""
    while True:
        part = some_artifacts(store, owner, kind, with_deleted=with_deleted, after=after, limit=limit)
        found.append([each.id for each in part.rows])
        if part.last is None:
            return found
        after = part.last


def test_artifacts_of_the_exchange_are_read_in_parts(artifacts_of_two: sqlite3.Connection) -> None:
    store = artifacts_of_two
    assert parts_of_artifacts(store, None, None, 4) == [["a1", "a2", "a4", "a5"], ["a7", "a8"]]
    assert parts_of_artifacts(store, "ann", None, 2) == [["a1", "a2"], ["a4"]]
    assert parts_of_artifacts(store, None, "even", 9) == [["a2", "a4", "a8"]]
    assert parts_of_artifacts(store, "ann", "odd", 9, with_deleted=True) == [["a1", "a3"]]


def test_a_search_for_rare_artifacts_looks_at_so_many_and_can_go_on(
    artifacts_of_two: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = artifacts_of_two
    monkeypatch.setattr(shared_artifacts_table, "MOST_READ", 2)
    assert parts_of_artifacts(store, None, "even", 9) == [["a2"], ["a4"], [], ["a8"], []]
    assert parts_of_artifacts(store, "bob", "even", 9) == [[], ["a8"], []]
    part = some_artifacts(store, "bob", "even", with_deleted=False, after="", limit=9)
    assert (part.rows, part.last, part.is_searched) == ([], "a6", True)


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
    # A show is as old as the first of its plays that is left, and goes with its last one.
    store.execute("delete from plays where session_key = 'k2'")
    store.execute("delete from plays where session_key = 'k1'")
    (left,) = [each for each in shows(store) if each.path == "/c"]
    assert (left.plays, left.created_at) == (1, 5.0)
    assert [each.path for each in shows(store)] == ["/c", "/d", "/a"]
