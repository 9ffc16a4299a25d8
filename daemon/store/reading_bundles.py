"""The store as commands read the bundles of sessions: their receipts, in the order of the chain."""

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from runward.handlers.bundle.part import Part, load_parts


class BundleRow(NamedTuple):
    """A receipt as the store has it. `facts` and `summary` are JSON; without a `placed_at` its parts are not in place yet."""

    seq: int
    session_key: str
    attempt: int
    receipt_hash: str | None
    prev: str | None
    directory: str
    parts: tuple[Part, ...]
    facts: str
    summary: str | None
    problem: str | None
    placed_at: float | None
    place_problem: str | None


_COLUMNS = "seq, session_key, attempt, receipt_hash, prev, directory, parts, facts, summary, problem, placed_at, place_problem"


def bundle_of(connection: sqlite3.Connection, key: str, attempt: int) -> BundleRow | None:
    """What is recorded of the bundle of an attempt; None where none is."""
    row = connection.execute(
        f"select {_COLUMNS} from receipts where session_key = ? and attempt = ?",  # noqa: S608 # our own words
        (key, attempt),
    ).fetchone()
    return None if row is None else _row(row)


def chain(connection: sqlite3.Connection) -> Iterator[BundleRow]:
    """Every row, in the order of the chain."""
    for row in connection.execute(f"select {_COLUMNS} from receipts order by seq"):  # noqa: S608 # our own words
        yield _row(row)


def job_state(connection: sqlite3.Connection, key: str, attempt: int) -> str | None:
    """The state of the job that writes the bundle of this attempt; None where none is owed."""
    row = connection.execute(
        "select j.state from events e join jobs j on j.event = e.seq"
        " where e.key = ? || '#' || ? || '/finished' and j.handler = 'bundle/write'",
        (key, attempt),
    ).fetchone()
    return None if row is None else str(row[0])


def _row(row: tuple[object, ...]) -> BundleRow:
    seq, key, attempt, digest, prev, directory, parts, *rest = row
    return BundleRow(seq, key, attempt, digest, prev, directory, load_parts(str(parts)), *rest)  # type: ignore[arg-type] # the schema's own types
