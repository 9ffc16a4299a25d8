"""Runs that Runward starts: orders to start them, what their launchers recorded, and their worktrees."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import row_of, rows_by_key, rows_of, select, values_of
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import listed
from runward.handlers.subjects import START, of_start

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.approvals import Workplace
    from runward.handlers.model.invocations import GiveUpStart, RemoveWorktree, StartRun, WithdrawStart
    from runward.handlers.model.sessions import Launch


class StartRow(NamedTuple):
    """A run that was ordered.

    `state` is `owed`, `begun` or `failed`; `ended_at` is when it was settled (Unix seconds).
    """

    key: str
    event: int
    session_key: str
    name: str
    directory: str
    state: str
    why: str | None
    ended_at: float | None


def start_of(connection: sqlite3.Connection, key: str) -> StartRow | None:
    """What was ordered under `key`, a request's name."""
    return _start_where(connection, "key = ?", key)


def start_called(connection: sqlite3.Connection, name: str) -> StartRow | None:
    """The order for the run called `name`; None if it was refused or never requested."""
    return _start_where(connection, "name = ? order by event desc", name)


def start_of_session(connection: sqlite3.Connection, session_key: str) -> StartRow | None:
    """The order that started a session, if there was one."""
    return _start_where(connection, "session_key = ? order by event", session_key)


def _start_where(connection: sqlite3.Connection, which: str, value: str) -> StartRow | None:
    query = select(StartRow, f"from starts where {which} limit 1")
    return row_of(StartRow, connection.execute(query, (value,)).fetchone())


def runs_called(connection: sqlite3.Connection, text: str, limit: int) -> list[str]:
    """Names of requested runs, including refused ones: the one called `text`, or those that begin with it."""
    wanted = of_start(text)
    for query in (_CALLED, _BEGINNING):
        subjects = values_of(str, connection.execute(query, (wanted, limit)))
        if subjects:
            return [subject.removeprefix(START) for subject in subjects]
    return []


_CALLED: Final = "select distinct subject from decisions where subject = ?1 limit ?2"


_BEGINNING: Final = (
    "select distinct subject from decisions where subject >= ?1 and substr(subject, 1, length(?1)) = ?1"
    " order by subject desc limit ?2"
)


INSERT_START: Final = Write(
    "insert into starts (key, event, session_key, name, directory, effect, state) values (?, ?, ?, ?, ?, ?, 'owed')"
)

START_BEGUN: Final = "update starts set state = 'begun', ended_at = ? where key = ? and state = 'owed'"
"""It began. A start that was withdrawn meanwhile stays withdrawn, and its run is told to end when it is seen."""

NOTE_BEGUN: Final = Write(START_BEGUN, exact=False)
"""The same, in the transaction that records its launch."""

GIVE_UP: Final = Write(
    "update starts set state = case state when 'owed' then 'failed' else state end, why = ?,"
    " ended_at = coalesce(ended_at, ?) where key = ? and (state = 'owed' or state = 'begun' and why is null)",
    exact=False,
)
"""It never begins; or it began, and its directory vanished before anyone looked at it."""

WITHDRAW: Final = Write(
    "update starts set state = 'failed', why = ?, ended_at = ? where session_key = ? and state = 'owed'",
    exact=False,
)

UNREADABLE: Final = "its stored data can no longer be read: request it again if you need it"

_NOT_LINKED: Final = (
    "x.invocation_id is null"
    " and exists (select 1 from invocations i where i.session_key = x.key and i.status = 'running')"
)
"""Whether a session `x` was ordered for an invocation and is not linked to it."""


class OwedStart(NamedTuple):
    """A run that must begin, or never can: then `why` says so, and it would be owed for ever if nobody settled it."""

    key: str
    session: str
    why: str | None
    stored: bytes

    def order(self) -> StartRun | None:
        """What was ordered. None if a restore gave it up, or if it is unreadable."""
        if self.why is not None:
            return None
        try:
            return load_start(self.stored.decode())
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


async def owed_starts(store: Reader) -> list[OwedStart]:
    """The open starts, in the order of their events; those from an earlier daemon may have begun."""
    query = select(
        OwedStart,
        "from starts where state = 'owed' order by event, key",
        session="session_key",
        # As bytes: a damaged text must make its own start hopeless, not fail the query for all of them.
        stored="cast(effect as blob)",
    )
    return rows_of(OwedStart, await store.read(query))


def load_start(text: str) -> StartRun:
    """The order that was stored as `text`. Raises `ValueError`, `TypeError` or `KeyError` if it is not an order."""
    from runward.handlers.model.invocations import StartRun

    fields = json.loads(text)
    return StartRun(
        **{
            **fields,
            "command": tuple(fields["command"]),
            "environment": tuple((name, value) for name, value in fields["environment"]),
            "metadata": tuple((name, value) for name, value in fields["metadata"]),
            "worktree": tuple(fields["worktree"]) if fields.get("worktree") else None,
        }
    )


class UnseenRun(NamedTuple):
    """A run that has begun, and whose session is not in the store or not linked to its invocation."""

    session: str
    directory: str


async def unseen_runs(store: Reader) -> dict[str, UnseenRun]:
    """The runs that have begun and have no linked session yet, by the keys of their starts; not those known to be gone."""
    query = select(
        UnseenRun,
        "from starts s indexed by starts_unseen where s.state = 'begun' and s.why is null and s.is_seen = 0"  # noqa: S608 # our own words
        f" and not exists (select 1 from sessions x where x.key = s.session_key and not ({_NOT_LINKED}))"
        " and not exists (select 1 from tombstones x where x.session_key = s.session_key)",
        "s",
        by="s.key",
        session="s.session_key",
    )
    return rows_by_key(UnseenRun, await store.read(query))


async def begun_starts(store: Reader, keys: Iterable[str]) -> frozenset[str]:
    """Those of these keys of starts that are marked as begun."""
    rows = await store.read(
        "select key from starts where key in (select value from json_each(?)) and state = 'begun'",
        (listed(keys),),
    )
    return frozenset(values_of(str, rows))


async def seen_sessions(store: Reader, keys: Iterable[str]) -> dict[str, bool]:
    """Those of these session keys that belong to an existing or a former session, and whether its invocation is missing."""
    rows = await store.read(
        f"select x.key, {_NOT_LINKED} from sessions x where x.key in (select value from json_each(?1))"  # noqa: S608 # our own words
        " union all select session_key, 0 from tombstones where session_key in (select value from json_each(?1))",
        (listed(keys),),
    )
    return dict(rows_of(tuple[str, bool], rows))


async def workplaces(store: Reader, sessions: Iterable[str]) -> dict[str, Workplace]:
    """Where the commands of steps were ordered to start, by the keys of their sessions."""
    from runward.handlers.model.approvals import Workplace

    query = select(
        Workplace,
        "from starts t join chain_steps c on c.session_key = t.session_key"
        " where t.session_key in (select value from json_each(?)) and json_valid(t.effect)",
        by="t.session_key",
        cwd="t.effect ->> '$.cwd'",
        worktree="iif(t.effect ->> '$.worktree[0]' is null, null, t.name)",
        ordered_at="c.started_at",
        begun_at="iif(t.state = 'begun', t.ended_at, null)",
    )
    return rows_by_key(Workplace, await store.read(query, (listed(sessions),)))


def _start(batch: Batch, job: Job, effect: StartRun) -> None:
    from runward.handlers.model.stored import as_json

    directory, content = f"{effect.root}/{effect.name}", as_json(effect)
    batch.row(INSERT_START, (effect.key, job.seq, effect.session, effect.name, directory, content))


def _withdraw(batch: Batch, job: Job, effect: WithdrawStart) -> None:
    batch.row(WITHDRAW, (effect.why, effect.at, effect.session_key))


def _give_up(batch: Batch, job: Job, effect: GiveUpStart) -> None:
    batch.row(GIVE_UP, (effect.why, effect.at, effect.key))


def table() -> Table:
    """What effects make of orders to start."""
    from runward.handlers.model.approvals import WorkplaceOf
    from runward.handlers.model.invocations import GiveUpStart, StartRun, WithdrawStart

    return Table(
        writes=(INSERT_START, NOTE_BEGUN, GIVE_UP, WITHDRAW),
        answers={WorkplaceOf: answers_by(workplaces, lambda asked: asked.session_key)},
        appliers={StartRun: _start, GiveUpStart: _give_up, WithdrawStart: _withdraw},
        goes_with_session=("delete from starts where session_key = ?",),
        moved=("update starts set directory = moved(directory), effect = moved_json(effect)",),
        goes_with_event=("delete from starts where event = ?",),
    )


INSERT_LAUNCH: Final = Write(
    "insert into launches (id, session_key, at, seal, contract_json, timeout, grace, launcher, process, cgroup)"
    # A launcher leaves the same launch again when everything is over.
    " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 where not exists (select 1 from launches where id = ?1)",
    exact=False,
)


async def last_launches(store: Reader, keys: Iterable[str]) -> dict[str, Launch]:
    """What the launchers of these sessions' runs recorded last, by session key."""
    return _by_session(await store.read(_launches(), (listed(keys),)))


def last_read(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Launch]:
    """The same, for commands."""
    return _by_session(connection.execute(_launches(), (listed(keys),)))


def _launches() -> str:
    from runward.handlers.model.sessions import Launch

    # Oldest first, so that in the dictionary made of it the last launch of a session remains.
    which = "from json_each(?) asked join launches on session_key = asked.value order by at, launches.rowid"
    return select(Launch, which, by="session_key")


def _by_session(rows: Iterable[tuple[Any, ...]]) -> dict[str, Launch]:
    from runward.handlers.model.sessions import Launch

    return rows_by_key(Launch, rows)


def launches() -> Table:
    """The same of launches."""
    from runward.handlers.model.sessions import LaunchOf

    return Table(
        writes=(INSERT_LAUNCH,),
        answers={LaunchOf: answers_by(last_launches, lambda asked: asked.key)},
        goes_with_session=("delete from launches where session_key = ?",),
    )


# Owed only once, and only if the order made one: a run is removed by what was ordered, not by what lies on the disk.
INSERT_WORKTREE: Final = Write(
    "insert into worktrees (session_key, event, name, repo) select s.session_key, ?2, s.name, s.effect ->> '$.worktree[0]'"
    " from starts s where s.session_key = ?1 and s.effect ->> '$.worktree[0]' is not null"
    " and not exists (select 1 from worktrees w where w.session_key = ?1)",
    exact=False,
)
"""The order of the run says whether it has a worktree, and its repository."""


WORKTREE_REMOVED: Final = (
    "update worktrees set removed_at = ?, note = ? where session_key = ? and removed_at is null"
)


class OwedRemoval(NamedTuple):
    """A worktree that is still to be removed: `name` is its run's name, and its own in the directory of worktrees."""

    session_key: str
    name: str
    repo: str


async def owed_removals(store: Reader) -> list[OwedRemoval]:
    """The worktrees that are still to be removed, in order."""
    which = "from worktrees where removed_at is null order by event, session_key"
    return rows_of(OwedRemoval, await store.read(select(OwedRemoval, which)))


def _remove(batch: Batch, job: Job, effect: RemoveWorktree) -> None:
    batch.row(INSERT_WORKTREE, (effect.session_key, job.seq))


def worktrees() -> Table:
    """The same of worktrees."""
    from runward.handlers.model.invocations import RemoveWorktree

    return Table(
        writes=(INSERT_WORKTREE,),
        appliers={RemoveWorktree: _remove},
        goes_with_session=("delete from worktrees where session_key = ?",),
        moved=("update worktrees set repo = moved(repo)",),
    )
