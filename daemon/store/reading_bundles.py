"""The bundles of sessions, as commands read them from the store: receipts in the order of their chain, and what replays are made of."""

import json
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.reading import STORE, open_to_read
from runward.daemon.store.remembered_fields import FOLLOWED_ATTEMPT, FOLLOWED_LINES
from runward.daemon.store.tables.prunings import PROGRESS
from runward.handlers.model.part import Part, load_parts
from runward.handlers.sessions.stored_fields import TRACED_SIZE, WATCHED

if TYPE_CHECKING:
    from runward.handlers.calls import BeganAndEnded, Told


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
    recorded = load_parts(str(parts))
    if signed is not None:
        (anew,) = load_parts(f"[{signed}]")
        recorded = tuple(anew if each.name == anew.name else each for each in recorded)
    return BundleRow(seq, key, attempt, digest, prev, directory, recorded, *rest)  # type: ignore[arg-type] # the schema's own types


_TAKEN: Final = (
    "select e.payload ->> 'text', e.payload ->> 'at', a.at, a.action_type, a.result, a.sandbox, e.payload ->> 'attempt'"
    " from actions a join events e on e.seq = a.seq where a.key = ?"
)


class LastTold(NamedTuple):
    """The last action of a run in its replay: its line, and when its result came (Unix seconds)."""

    line: int = 0
    at: float = 0.0


NOTHING: Final = LastTold()


def actions_taken(connection: sqlite3.Connection, session_key: str) -> int:
    """How many of a run's intents have a result."""
    asked = f"select f.done from {PROGRESS} f where f.session_key = ?"  # noqa: S608 # our own words
    row = connection.execute(asked, (session_key,)).fetchone()
    return 0 if row is None else int(row[0])


def told_actions(
    connection: sqlite3.Connection, session_key: str, count: int, last: LastTold = NOTHING
) -> "Iterator[Told]":
    """The first `count` actions of a run as calls with their results, one after another: only one is held at a time.

    Those up to the `last` one are left out.
    """
    from runward.handlers.exchange.results import TakenAction, told_by_action  # `session show` does without

    before = last.at
    row = connection.execute("select run from intent_files where session_key = ?", (session_key,)).fetchone()
    run = session_key if row is None or row[0] is None else str(row[0])
    for line in range(last.line + 1, count + 1):
        row = connection.execute(_TAKEN, (f"{run}#intent/{line}",)).fetchone()
        if row is None:
            continue
        text, read_at, at, action_type, result, sandbox, attempt = row
        taken = TakenAction(line, text, read_at, at, action_type, json.loads(result), sandbox, attempt)
        called, returned = told_by_action(taken, before)
        before = returned.at or before
        yield called
        yield returned


def told_actions_in(state: Path, session_key: str, count: int, last: LastTold = NOTHING) -> "Generator[Told]":
    """The same from the store in `state`, which isn't opened if `count` is 0.

    Raises `sqlite3.Error` and `StoreUnreadable`.
    """
    if count > last.line:
        with closing(open_to_read(str(state / STORE))) as connection:
            yield from told_actions(connection, session_key, count, last)


ATTEMPTS: Final = (
    "select a.session_key, a.attempt, a.started_at, a.ended_at, e.hash, e.payload ->> 'log_before',"  # noqa: S608 # our own words
    " case when n.key is not null then n.payload ->> 'log_before'"
    "  when c.phase <> 'over' or not json_valid(c.state) then null"
    "  when s.layout = 'native' then"
    f" case when c.state ->> '{WATCHED['attempt']}' = a.attempt then c.state ->> '{TRACED_SIZE}' end"
    f"  when c.state ->> '{FOLLOWED_ATTEMPT}' = a.attempt then c.state ->> '{FOLLOWED_LINES}' end"
    " from attempts a join sessions s on s.key = a.session_key"
    " left join events e on e.key = a.session_key || '#' || a.attempt || '/started'"
    " left join events n on n.key = a.session_key || '#' || (a.attempt + 1) || '/started'"
    " left join cursors c on c.key = case s.layout when 'native' then substr(a.session_key, 8) else a.session_key end"
)
"""Attempts, each with how much of the session's log comes before it, and before what comes after it. The next
attempt says that, or the last look (`Watched.traced`, `Followed.lines`)."""


def attempts_of(connection: sqlite3.Connection, key: str) -> "list[BeganAndEnded]":
    """The attempts of a session, in order."""
    from runward.handlers.calls import BeganAndEnded

    rows = connection.execute(f"{ATTEMPTS} where a.session_key = ? order by a.attempt", (key,))
    return [BeganAndEnded(*row) for _, *row in rows]


def finished_hash(connection: sqlite3.Connection, key: str, attempt: int) -> str | None:
    """The hash of the event of an attempt's verdict; None if its record is pruned."""
    row = connection.execute(
        "select hash from events where key = ? || '#' || ? || '/finished'", (key, attempt)
    ).fetchone()
    return None if row is None else str(row[0])
