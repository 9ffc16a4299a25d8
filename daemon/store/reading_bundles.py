"""The bundles of sessions, as commands read them from the store: their receipts, in the order of the chain."""

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from runward.handlers.model.part import Part, load_parts


class BundleRow(NamedTuple):
    """A receipt as stored. `facts` and `summary` are JSON; without a `placed_at` its parts are not in place yet."""

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
_SIGNED = (
    "(select s.part from signings s where s.session_key = receipts.session_key and s.attempt = receipts.attempt"
    " and s.signature is not null order by s.id desc limit 1)"
)
"""The receipt's file as it was last signed, if somebody requested that."""


def bundle_of(connection: sqlite3.Connection, key: str, attempt: int) -> BundleRow | None:
    """What is recorded about the bundle of an attempt; None if nothing is."""
    row = connection.execute(
        f"select {_COLUMNS}, {_SIGNED} from receipts where session_key = ? and attempt = ?",  # noqa: S608 # our own words
        (key, attempt),
    ).fetchone()
    return None if row is None else _row(row)


def bundles_of_id(connection: sqlite3.Connection, session_id: str) -> list[BundleRow]:
    """What is recorded about the bundles of the sessions with this id, of all attempts."""
    rows = connection.execute(
        f"select {_COLUMNS}, {_SIGNED} from receipts"  # noqa: S608 # our own words
        " where session_key in (select key from sessions where session_id = ?) order by seq",
        (session_id,),
    )
    return [_row(row) for row in rows]


def bundle_in(connection: sqlite3.Connection, directory: str, attempt: int) -> BundleRow | None:
    """What is recorded about the bundle of an attempt whose parts were put into this directory."""
    row = connection.execute(
        f"select {_COLUMNS}, {_SIGNED} from receipts where directory = ? and attempt = ? order by seq desc limit 1",  # noqa: S608 # our own words
        (directory, attempt),
    ).fetchone()
    return None if row is None else _row(row)


def chain(connection: sqlite3.Connection) -> Iterator[BundleRow]:
    """Every row, in the order of the chain."""
    for row in connection.execute(f"select {_COLUMNS}, {_SIGNED} from receipts order by seq"):  # noqa: S608 # our own words
        yield _row(row)


def job_state(connection: sqlite3.Connection, key: str, attempt: int) -> str | None:
    """The state of the job that writes the bundle of this attempt; None if there is no such job."""
    row = connection.execute(
        "select j.state from events e join jobs j on j.event = e.seq"
        " where e.key = ? || '#' || ? || '/finished' and j.handler = 'bundle/write'",
        (key, attempt),
    ).fetchone()
    return None if row is None else str(row[0])


def growing(connection: sqlite3.Connection, key: str, attempt: int) -> tuple[bool, str | None]:
    """Whether part of this attempt's replay was shown while it ran, and why it grows no further."""
    row = connection.execute(
        "select problem from replays where session_key = ? and attempt = ?", (key, attempt)
    ).fetchone()
    return row is not None, None if row is None else row[0]


class SigningRow(NamedTuple):
    """The result of a request to sign a receipt: the signature or the problem, once it is settled."""

    is_settled: bool
    signature: str | None
    problem: str | None


def signing(connection: sqlite3.Connection, event: int) -> SigningRow | None:
    """The result of the request that was recorded as this event; None if it has led to no signing yet."""
    row = connection.execute(
        "select settled_at is not null, signature, problem from signings where event = ?", (event,)
    ).fetchone()
    return None if row is None else SigningRow(bool(row[0]), row[1], row[2])


def _row(row: tuple[object, ...]) -> BundleRow:
    seq, key, attempt, digest, prev, directory, parts, *rest, signed = row
    found = load_parts(str(parts))
    if signed is not None:
        (anew,) = load_parts(f"[{signed}]")
        found = tuple(anew if each.name == anew.name else each for each in found)
    return BundleRow(seq, key, attempt, digest, prev, directory, found, *rest)  # type: ignore[arg-type] # the schema's own types
