"""No statement of a running daemon reads a whole table that grows with what it has recorded."""

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.store.in_memory import InMemory, asked

from runward.daemon.store import journals, packing, pruning
from runward.daemon.store.due_jobs import next_due, next_due_in_background
from runward.daemon.store.schema import make_empty
from runward.daemon.store.store import Store, Transaction
from runward.daemon.store.tables import chain_runs, places, receipts, starts
from runward.daemon.store.tables.all import GO_WITH_CHAIN_RUN
from runward.daemon.store.transaction import Row, Statement, Value

FEW_ROWS: Final = frozenset({"daemon", "roots", "problems", "chains", "schedules"})
"""Tables with a row for each thing that the settings name."""


class Planned:
    """Collects how SQLite carries out each statement."""

    def __init__(self) -> None:
        self._store = sqlite3.connect(":memory:", check_same_thread=False)
        make_empty(self._store)
        names = self._store.execute("select name, sql from sqlite_schema where type in ('table', 'index')")
        schema: dict[str, str] = {name: sql or "" for name, sql in names}
        self._tables = {name for name, sql in schema.items() if sql.startswith("create table")}
        # An index with a condition has only what is owed, or open.
        self._of_what_is_open = {name for name, sql in schema.items() if "where" in sql.split()}
        self.statements: set[str] = set()
        self.scans: list[tuple[str, str]] = []

    def close(self) -> None:
        self._store.close()

    def add(self, sql: str, values: Sequence[Value] = ()) -> None:
        if sql in self.statements:
            return
        self.statements.add(sql)
        names = dict(re.findall(r"(?:from|join|update|into)\s+(\w+)\s+(?:as\s+)?(\w+)", sql))
        aliases = {alias: table for table, alias in names.items()}
        for *_, step in self._store.execute(f"explain query plan {sql}", values):
            if "AUTOMATIC" in step:  # an index that is made of the whole table, for this one question
                self.scans.append((step, sql))
            match = re.fullmatch(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", step)
            if match is None:
                continue
            table = match[1] if match[1] in self._tables else aliases.get(match[1])
            # The first rows of an order are no whole table.
            is_part = match[2] in self._of_what_is_open or re.search(
                r"order by [\w.]+ desc limit|limit 1\b", sql
            )
            if table in self._tables - FEW_ROWS and not is_part:
                self.scans.append((step, sql))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Iterable[Planned]:
    """The plans of all that the daemon reads and writes."""
    read, read_inside, write = Store.read, Transaction.read, Transaction.write

    async def noted(store: Store, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        plans.add(sql, values)
        return await read(store, sql, values)

    async def noted_inside(transaction: Transaction, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        plans.add(sql, values)
        return await read_inside(transaction, sql, values)

    def noted_writes(transaction: Transaction, statements: Iterable[Statement]) -> None:
        kept = list(statements)
        for each in kept:
            for row in each.rows[:1]:
                plans.add(each.sql, row)
        write(transaction, kept)

    with closing(Planned()) as plans:
        monkeypatch.setattr(Store, "read", noted)
        monkeypatch.setattr(Transaction, "read", noted_inside)
        monkeypatch.setattr(Transaction, "write", noted_writes)
        yield plans


def run(base: Path, name: str, **documents: object) -> None:
    directory = base / "runs" / name
    (directory / "artifacts").mkdir(parents=True, exist_ok=True)
    (directory / "artifacts" / "report.md").write_text("well")
    for document, content in documents.items():
        (directory / f"{document}.json").write_text(json.dumps(content))


async def ask_all(running: Daemon) -> None:
    """What a daemon asks only in places where runs are launched, linked, signed, repaired, packed or pruned."""
    store = running.store
    await starts.unseen_runs(store)
    await chain_runs.offered(store)
    await journals.under_repair(store)
    await places.announced_sessions(store, ["a"])
    await receipts.owed_signings(store, 0, 9)
    await next_due(store)
    await next_due_in_background(store, 1.0)
    await packing.sessions_to_pack(store, packing.FIRST_TO_PACK, 1e12, 10, 1e12)
    await pruning.sessions_to_prune(store, pruning.FIRST, 1e12, 1e12, 10, 1e12)


async def test_a_daemon_reads_by_index(tmp_path: Path, planned: Planned) -> None:
    expected = {
        "id": "report",
        "path": "report.md",
        "required": True,
        "description": "",
        "source": "playbook",
    }
    begun = {"schema": "runward-run-v1", "contract": {"expected": [expected]}}
    clock, processes = StillClock(), ToldProcesses()
    async with daemon(tmp_path, clock, processes) as running:
        run(tmp_path, "delivers", run=begun, exit={"exit_code": 0})
        run(tmp_path, "goes-on", run=begun)
        await running.settle()
        run(tmp_path, "goes-on", exit={"exit_code": 1})
        await running.settle()
        await ask_all(running)
        await running.stop()
    async with daemon(tmp_path, clock, processes) as running:
        await running.settle()
        assert await running.rows("select status from sessions where key = 'native:runs/goes-on'") == [
            ("failed",)
        ]
    for sql in GO_WITH_CHAIN_RUN:
        planned.add(sql, ("a",))
    assert len(planned.statements) > 50
    assert planned.scans == []


def begin(database: sqlite3.Connection, number: int, invocation: str | None) -> str:
    """A run that was ordered and began, and its session, linked to this invocation or to none."""
    key = f"native:runs/r{number}"
    database.execute(
        "insert into events (seq, key, type, version, lane, at, recorded_at, payload, hash)"
        " values (?1, ?2, 'x', 1, ?2, 1, 1, '{}', '')",
        (number, key),
    )
    database.execute(
        "insert into starts (key, event, session_key, name, directory, effect, state, ended_at)"
        " values (?2, ?1, ?2, ?2, '/r', '{}', 'begun', 1)",
        (number, key),
    )
    database.execute(
        "insert into invocations (id, skill, status, session_key, created_at) values (?1, 's', 'running', ?2, 1)",
        (f"inv_{number}", key),
    )
    database.execute(
        "insert into sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at,"
        " reason_code, reason_summary, evidence_refs, artifacts_path, invocation_id)"
        " values (?1, ?1, 'native', 'runs', ?1, 'agent', 'running', 1, 'live', 1, 'c', 's', '[]', '/a', ?2)",
        (key, invocation),
    )
    return key


def unseen(database: sqlite3.Connection) -> tuple[set[str], int]:
    """The runs that nobody saw yet, and the steps that SQLite took to find them."""
    steps = count()
    database.set_progress_handler(lambda: next(steps) < 0, 1)
    keys = set(asked(starts.unseen_runs(InMemory(database))))
    database.set_progress_handler(None, 1)
    return keys, next(steps)


def test_a_start_of_the_daemon_costs_the_same_however_many_runs_it_started_before() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        make_empty(database)
        waits = begin(database, 1, None)
        begin(database, 2, "inv_2")
        few = unseen(database)
        for number in range(3, 1000):
            begin(database, number, f"inv_{number}")
        assert unseen(database) == few == ({waits}, few[1])
        database.execute("update sessions set invocation_id = 'inv_1' where key = ?", (waits,))
        assert unseen(database)[0] == set()
