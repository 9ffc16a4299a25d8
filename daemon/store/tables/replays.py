"""The replays of attempts: what is shown of them while they run, and what they are made of."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue, stored_json
from runward.config.root import NATIVE
from runward.daemon.store.batch import Write
from runward.daemon.store.reading import STORE, open_to_read
from runward.daemon.store.remembered_fields import ABOUT, FOLLOWED_ATTEMPT, FOLLOWED_LINES
from runward.daemon.store.rows import columns, elsewhere, groups_of, row_of, rows_of, select, value_of
from runward.daemon.store.tables.prunings import PROGRESS
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import Row, listed, stored_text
from runward.handlers.sessions.stored_fields import TRACED_SIZE, WATCHED

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.calls import BeganAndEnded, Told
    from runward.handlers.model.bundle import BegunReplay, Reported, Stretch


def growing(connection: sqlite3.Connection, key: str, attempt: int) -> tuple[bool, str | None]:
    """Whether part of this attempt's replay was shown while it ran, and why it grows no further."""
    row = connection.execute(
        "select problem from replays where session_key = ? and attempt = ?", (key, attempt)
    ).fetchone()
    return row is not None, value_of(str, row)


class LastTold(NamedTuple):
    """The last action of a run in its replay: its line, and when its result came (Unix seconds)."""

    line: int = 0
    at: float = 0.0


NOTHING: Final = LastTold()


def actions_taken(connection: sqlite3.Connection, session_key: str) -> int:
    """How many of a run's intents have a result."""
    asked = f"select f.done from {PROGRESS} f where f.session_key = ?"  # noqa: S608 # our own words
    return value_of(int, connection.execute(asked, (session_key,)).fetchone()) or 0


def told_actions(
    connection: sqlite3.Connection, session_key: str, count: int, last: LastTold = NOTHING
) -> Iterator[Told]:
    """The first `count` actions of a run as calls with their results, one after another: only one is held at a time.

    Those up to the `last` one are left out.
    """
    from runward.handlers.exchange.results import TakenAction, told_by_action  # `session show` does without

    before = last.at
    row = connection.execute("select run from intent_files where session_key = ?", (session_key,)).fetchone()
    run = value_of(str, row) or session_key
    query = select(
        TakenAction,
        "from actions a join events e on e.seq = a.seq where a.key = ?2",
        "a",
        line="?1",
        text="e.payload ->> 'text'",
        read_at="e.payload ->> 'at'",
        attempt="e.payload ->> 'attempt'",
    )
    # One query for each line: the contents of all actions together may be larger than the memory.
    for line in range(last.line + 1, count + 1):
        taken = row_of(TakenAction, connection.execute(query, (line, f"{run}#intent/{line}")).fetchone())
        if taken is None:
            continue
        called, returned = told_by_action(taken, before)
        before = returned.at or before
        yield called
        yield returned


def told_actions_in(state: Path, session_key: str, count: int, last: LastTold = NOTHING) -> Generator[Told]:
    """The same from the store in `state`, which isn't opened if `count` is 0.

    Raises `sqlite3.Error` and `StoreUnreadable`.
    """
    if count > last.line:
        with closing(open_to_read(str(state / STORE))) as connection:
            yield from told_actions(connection, session_key, count, last)


LOG_UP_TO: Final = (
    # What the next attempt recorded stands for ever. What was remembered at the last look is valid only when the run is
    # over: until then its log grows.
    "case when n.key is not null then n.payload ->> 'log_before'"
    "  when c.phase <> 'over' or not json_valid(c.state) then null"
    "  when s.layout = 'native' then"
    f" case when c.state ->> '{WATCHED['attempt']}' = a.attempt then c.state ->> '{TRACED_SIZE}' end"
    f"  when c.state ->> '{FOLLOWED_ATTEMPT}' = a.attempt then c.state ->> '{FOLLOWED_LINES}' end"
)
"""How much of the session's log comes before what comes after an attempt. The next attempt says that, or the last look
(`Watched.traced`, `Followed.lines`)."""


def _attempts(which: str) -> str:
    from runward.handlers.calls import BeganAndEnded

    return select(
        BeganAndEnded,
        "from attempts a join sessions s on s.key = a.session_key"
        " left join events e on e.key = a.session_key || '#' || a.attempt || '/started'"
        " left join events n on n.key = a.session_key || '#' || (a.attempt + 1) || '/started'"
        " left join cursors c on c.key = case s.layout when 'native' then substr(a.session_key, 8) else a.session_key end"
        f" where {which}",
        "a",
        by="a.session_key",
        hash="e.hash",
        log_before="e.payload ->> 'log_before'",
        log_up_to=LOG_UP_TO,
    )


def attempts_of(connection: sqlite3.Connection, key: str) -> list[BeganAndEnded]:
    """The attempts of a session, in order."""
    from runward.handlers.calls import BeganAndEnded

    rows = connection.execute(_attempts("a.session_key = ? order by a.attempt"), (key,))
    return [*groups_of(BeganAndEnded, rows).get(key, ())]


async def stretches(store: Reader, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Stretch]:
    """The start and end of each of these attempts, by session key and attempt."""
    from runward.handlers.calls import BeganAndEnded, stretch_of

    asked = list(attempts)
    which = "a.session_key in (select value from json_each(?)) order by a.session_key, a.attempt"
    rows = await store.read(_attempts(which), (listed(dict.fromkeys(key for key, _ in asked)),))
    known = groups_of(BeganAndEnded, rows)
    by_attempt = {(key, attempt): stretch_of(known.get(key, ()), attempt) for key, attempt in asked}
    return {each: stretch for each, stretch in by_attempt.items() if stretch is not None}


GONE: Final = Write("delete from replays where session_key = ? and attempt = ?", exact=False)
"""The receipt of the whole replay is recorded."""


GROW: Final = (
    "insert into replays (session_key, attempt, rules, issue_number, policy_bundle_id, steps, length, sha256, problem)"
    " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 from sessions where key = ?1 and attempt = ?2 and status = 'running'"
    " on conflict (session_key, attempt) do update set steps = excluded.steps, length = excluded.length,"
    " sha256 = excluded.sha256, problem = excluded.problem"
)
"""What will be written. Once the attempt is over this changes nothing: the bundle's job writes the rest."""


class RunningReplay(NamedTuple):
    """A session that runs, where its files are, and what is written of its replay. `place` is root and place.

    `state` is what is remembered of its files. Without `begun` nothing was written. `actions` are those
    in the exchange that have their results. `problem` says why nothing more is.
    """

    place: str
    key: str
    session_id: str
    layout: str
    path: str
    attempt: int
    state: str
    begun: BegunReplay | None
    actions: int
    problem: str | None


async def running_replays(store: Reader, places: Iterable[str]) -> list[RunningReplay]:
    """The sessions at these places (root and place) that run, as the last look found them."""
    from runward.handlers.model.bundle import Grown

    query = select(
        RunningReplay,
        "from json_each(?) asked"
        " left join places p on p.key = asked.value"
        " join cursors c on c.key = coalesce(p.session_key, asked.value) and c.phase = 'open'"
        " join sessions s on s.key = c.session_key and s.status = 'running' and s.origin = 'live'"
        " left join replays r on r.session_key = s.key and r.attempt = s.attempt"
        f" left join {PROGRESS} f on f.session_key = s.key",
        "s",
        by=f"r.rules, {columns(Grown, 'r')}",
        place="asked.value",
        state="cast(c.state as blob)",
        begun="null",
        actions="coalesce(f.done, 0)",
        problem="r.problem",
    )
    replays = []
    # Two rows stand side by side: what was shown (rules, and `Grown`), and the session.
    for row in await store.read(query, (listed(places),)):
        begun, facts = row[: 1 + len(Grown._fields)], row[1 + len(Grown._fields) :]
        (replay,) = rows_of(RunningReplay, [facts], state=stored_text, begun=elsewhere)
        replays.append(replay if begun[0] is None else replay._replace(begun=_begun(begun)))
    return replays


async def replay_lengths(store: Reader, keys: Iterable[str]) -> dict[tuple[str, int], int]:
    """The recorded lengths of these sessions' replays, in bytes."""
    rows = await store.read(
        "select session_key, attempt, length from replays where session_key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {(key, attempt): length for key, attempt, length in rows_of(tuple[str, int, int], rows)}


def grown_row(key: str, attempt: int, begun: BegunReplay, problem: str | None) -> Row:
    """The row for `GROW`."""
    from runward.handlers.model.stored import as_json

    grown = begun.grown
    return (
        key,
        attempt,
        as_json(begun.rules),
        grown.issue_number,
        grown.policy_bundle_id,
        stored_json(grown.steps).decode(),
        grown.length,
        grown.sha256,
        problem,
    )


async def begun_replays(
    store: Reader, attempts: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], BegunReplay]:
    """What was shown of the replays of these attempts, by session key and attempt."""
    from runward.handlers.model.bundle import Grown

    query = select(
        Grown,
        "from json_each(?) asked"
        " join replays r on r.session_key = asked.value ->> 0 and r.attempt = asked.value ->> 1",
        "r",
        by="r.session_key, r.attempt, r.rules",
    )
    rows = await store.read(query, (listed(attempts),))
    return {(str(key), int(str(attempt))): _begun(tuple(begun)) for key, attempt, *begun in rows}


def _begun(row: Row) -> BegunReplay:
    """What was shown of a replay: the rules, and the columns of `Grown`."""
    from runward.config.bundle import BundleRules
    from runward.handlers.model.bundle import BegunReplay, Grown
    from runward.handlers.model.stored import Stored

    (grown,) = rows_of(Grown, [row[1:]])
    return BegunReplay(grown, Stored(BundleRules).load(str(row[0])))


async def reported(store: Reader, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Reported]:
    """The data for the summaries of these attempts, by session key and attempt."""
    from runward.handlers.model.bundle import Reported

    rows = await store.read(
        "select s.key, asked.value ->> 1,"  # noqa: S608 # our own words
        " (select h.reason_summary from status_history h where h.session_key = s.key and h.attempt = asked.value ->> 1"
        "  order by h.id desc limit 1),"
        " (select json_group_array(a.summary) from artifacts a where a.session_key = s.key and a.summary is not null),"
        f" case when s.layout <> ? then json_extract(c.state, '{ABOUT}') end,"
        " (select json_extract(e.payload, '$.declaration.cwd') from events e where e.key = s.key || '#1/started')"
        " from json_each(?) asked join sessions s on s.key = asked.value ->> 0 left join cursors c on c.key = s.key",
        (NATIVE, listed(attempts)),
    )
    known = rows_of(tuple[str, int, str | None, tuple[str, ...], JsonValue, str | None], rows)
    by_attempt: dict[tuple[str, int], Reported] = {}
    for key, attempt, reason, changes, about, declared in known:
        cwd, _, _, given, made = about if isinstance(about, list) else (None,) * 5
        by_attempt[key, attempt] = Reported(
            reason or "",
            tuple(each for each in changes if each),
            (given, made) if isinstance(given, int) and isinstance(made, int) else None,
            next((each for each in (cwd, declared) if isinstance(each, str)), None),
        )
    return by_attempt


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.bundle import BegunReplayOf, Reported, ReportedOf, StretchOf

    return Table(
        writes=(GONE,),
        answers={
            BegunReplayOf: answers_by(begun_replays, lambda asked: (asked.key, asked.attempt)),
            StretchOf: answers_by(stretches, lambda asked: (asked.key, asked.attempt)),
            ReportedOf: answers_by(reported, lambda asked: (asked.key, asked.attempt), Reported()),
        },
        goes_with_session=("delete from replays where session_key = ?",),
    )
