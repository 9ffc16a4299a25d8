"""A store with very many rows: copies of what a daemon recorded, under names of their own. By its own road they take hours.

Triggers are left out while sessions are copied, for they hold a daemon to its order. What they count is counted anew. Those of
jobs stay: they mark what may run.
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from runward.handlers.model.files import signature_of
from runward.handlers.usage.counting import HOUR

_OF_A_RUN: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "sessions": ("substr(key, 13)", ("key", "session_id", "path", "artifacts_path")),
    "cursors": ("directory", ("key", "directory", "session_key")),
    "packed": ("substr(session_key, 13)", ("session_key",)),
    "receipts": ("substr(session_key, 13)", ("session_key", "directory")),
}
"""Tables of packed sessions: where a row has its run's name (after `native:runs/`), and the columns that contain it."""

_OF_A_FINISHED_RUN: Final[Mapping[str, str]] = {
    "sessions": "key",
    "attempts": "session_key",
    "status_history": "session_key",
    "cursors": "session_key",
}
"""What a start reads of runs that are over, and the column that says whose a row is. Events and decisions are not copied."""

_BLOCKS_A_COMMIT: Final = 50


def copy_sessions(database: Path, count: int) -> None:
    """Make so many sessions out of the packed ones of the runs 0 to n - 1, which are all that there is."""
    with _opened(database, _OF_A_RUN) as connection:
        ((few,),) = connection.execute("select count(*) from sessions").fetchall()
        statements = [_copying(connection, table, run, named) for table, (run, named) in _OF_A_RUN.items()]
        for block in range(1, count // few):
            for statement in statements:
                connection.execute(statement, {"step": block * few})
            if block % _BLOCKS_A_COMMIT == 0:
                connection.commit()
        connection.execute("delete from session_counts")
        connection.execute("insert into session_counts select status, count(*) from sessions group by status")


def _copying(connection: sqlite3.Connection, table: str, run: str, named: tuple[str, ...]) -> str:
    """What copies the table's rows as they are now; `:step` is added to the number of each run, and to row numbers."""
    connection.execute(f"create temp table original_{table} as select *, {run} as run from {table}")
    renamed = "'run-' || printf('%07d', cast(substr(run, 5) as integer) + :step)"
    values = [
        f"replace({column}, run, {renamed})"
        if column in named
        else ("seq + :step" if column == "seq" else f'"{column}"')
        for column in _columns(connection, table)
    ]
    return f"insert into {table} select {', '.join(values)} from original_{table}"


def copy_finished(database: Path, root: Path, original: str, runs: Sequence[str]) -> None:
    """Have the store know these finished runs, which stand in `root`, as it knows the original; each by its own documents."""

    def remembered(state: str, run: str) -> str:
        value = json.loads(state)
        value[0] = [[name, _signature(f"{root}/{run}/{name}")] for name, _ in value[0]]
        return json.dumps(value, separators=(",", ":"))

    with _opened(database, _OF_A_FINISHED_RUN) as connection:
        connection.create_function("remembered", 2, remembered)
        connection.execute("create temp table copies (run)")
        connection.executemany("insert into copies values (?)", ((run,) for run in runs))
        for table, whose in _OF_A_FINISHED_RUN.items():
            values = {
                column: f"case typeof({column}) when 'text' then replace({column}, :original, run) else {column} end"
                for column in _columns(connection, table)
                if column != "id"  # it numbers itself
            }
            if table == "cursors":
                values["state"] = "remembered(state, run)"
            connection.execute(
                f"insert into {table} ({', '.join(values)}) select {', '.join(values.values())}"
                f" from {table}, copies where {whose} = :key",
                {"original": original, "key": f"native:runs/{original}"},
            )
        connection.execute("delete from session_counts")
        connection.execute("insert into session_counts select status, count(*) from sessions group by status")


def _signature(path: str) -> list[int]:
    return [*signature_of(os.stat(path))]


def add_usage(database: Path, recent: int, older: int) -> None:
    """Add what so many sessions used in one hour each: `recent` ones in the last days, `older` ones before the last 30."""
    now = int(time.time() // HOUR)
    values = "'claude-opus-4-8', 'standard', 0, 0, 1, 800, 0, 0, 0, 160, null"
    with _opened(database) as connection:
        for name, count, end, hours in (
            ("recent", recent, now, 100),
            ("older", older, now - 24 * 30, 24 * 300),
        ):
            connection.execute(
                f"with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {count})"
                f" insert into usage select {end} - n % {hours}, '{name}:' || n, {values} from numbers"
            )


def copy_job(database: Path, handler: str, count: int, run_after: float) -> None:
    """Have copies of one job of this handler wait until then, each with an event and a lane of its own."""
    with _opened(database) as connection:
        query = f"select id, event from jobs where handler = '{handler}' limit 1"
        ((job, event),) = connection.execute(query).fetchall()
        ((last,),) = connection.execute("select max(seq) from events").fetchall()
        numbers = (
            f"with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {count})"
        )
        changed = {"seq": f"{last} + n", "key": "key || '/copy-' || n", "lane": "lane || '/copy-' || n"}
        values = [changed.get(column, f'"{column}"') for column in _columns(connection, "events")]
        connection.execute(
            f"insert into events {numbers} select {', '.join(values)} from events, numbers where seq = {event}"
        )
        changed = {
            "id": f"({last} + n) * 32 + {job % 32}",
            "event": f"{last} + n",
            "lane": "lane || '/copy-' || n",
            "state": "'waiting'",
            "run_after": str(run_after),
        }
        values = [changed.get(column, f'"{column}"') for column in _columns(connection, "jobs")]
        connection.execute(
            f"insert into jobs {numbers} select {', '.join(values)} from jobs, numbers where id = {job}"
        )


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"pragma table_info({table})").fetchall()]


@contextmanager
def _opened(database: Path, without_triggers_of: Iterable[str] = ()) -> Iterator[sqlite3.Connection]:
    """A connection that syncs nothing, for a store that no daemon uses."""
    tables = [*without_triggers_of]
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma journal_mode = off")
        connection.execute("pragma synchronous = off")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma cache_size = -500000")
        marks = ", ".join("?" * len(tables))
        query = f"select name, sql from sqlite_master where type = 'trigger' and tbl_name in ({marks})"
        triggers = connection.execute(query, tables).fetchall()
        for name, _ in triggers:
            connection.execute(f"drop trigger {name}")
        yield connection
        for _, sql in triggers:
            connection.execute(sql)
        connection.commit()
        connection.execute("pragma journal_mode = wal")
