"""Runs that Runward starts: orders to start and to end them, what their launchers recorded, and their worktrees."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import Row, Value, as_bytes, as_float, as_int, listed, stored_text
from runward.handlers.model.approvals import Workplace, WorkplaceOf
from runward.handlers.model.invocations import GiveUpStart, RemoveWorktree, StartRun, WithdrawStart
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.requests import CancelRun
from runward.handlers.model.sessions import (
    Cancellation,
    CancellationOf,
    EndTree,
    Launch,
    LaunchOf,
    RunProcesses,
)
from runward.handlers.model.stored import Stored, as_json

INSERT_START: Final = Write(
    "insert into starts (key, event, session_key, name, directory, effect, state) values (?, ?, ?, ?, ?, ?, 'owed')"
)

START_BEGUN: Final = "update starts set state = 'begun', ended_at = ? where key = ? and state = 'owed'"
"""It began. A start that was withdrawn meanwhile stays withdrawn, and its run is told to end when it is seen."""

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


class OwedStarts(NamedTuple):
    """The runs that must begin, and those that never can."""

    orders: list[StartRun]
    hopeless: list["Hopeless"]


class Hopeless(NamedTuple):
    """A start that a restore gave up, or whose order is unreadable."""

    key: str
    session: str
    why: str


async def owed_starts(store: Store) -> OwedStarts:
    """The open starts, in the order of their events; those from an earlier daemon may have begun."""
    rows = await store.read(
        "select key, session_key, why, cast(effect as blob) from starts where state = 'owed' order by event, key"
    )
    owed = OwedStarts([], [])
    for key, session, why, effect in rows:
        if why is not None:
            owed.hopeless.append(Hopeless(str(key), str(session), str(why)))
            continue
        try:
            owed.orders.append(load_start(as_bytes(effect).decode()))
        except (ValueError, TypeError, KeyError, RecursionError):
            owed.hopeless.append(Hopeless(str(key), str(session), UNREADABLE))
    return owed


def load_start(text: str) -> StartRun:
    """The order that was stored as `text`. Raises `ValueError`, `TypeError` or `KeyError` if it is not an order."""
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


def _start(batch: Batch, job: Job, effect: StartRun) -> None:
    directory, content = f"{effect.root}/{effect.name}", as_json(effect)
    batch.row(INSERT_START, (effect.key, job.seq, effect.session, effect.name, directory, content))


def _withdraw(batch: Batch, job: Job, effect: WithdrawStart) -> None:
    batch.row(WITHDRAW, (effect.why, effect.at, effect.session_key))


def _give_up(batch: Batch, job: Job, effect: GiveUpStart) -> None:
    batch.row(GIVE_UP, (effect.why, effect.at, effect.key))


class UnseenRun(NamedTuple):
    """A run that has begun, and whose session is not in the store or not linked to its invocation."""

    session: str
    directory: str


async def unseen_runs(store: Store) -> dict[str, UnseenRun]:
    """The runs that have begun and have no linked session yet, by the keys of their starts; not those known to be gone."""
    rows = await store.read(
        "select s.key, s.session_key, s.directory from starts s where s.state = 'begun' and s.why is null"  # noqa: S608 # our own words
        f" and not exists (select 1 from sessions x where x.key = s.session_key and not ({_NOT_LINKED}))"
        " and not exists (select 1 from tombstones x where x.session_key = s.session_key)"
    )
    return {str(key): UnseenRun(str(session), str(directory)) for key, session, directory in rows}


async def begun_starts(store: Store, keys: Iterable[str]) -> frozenset[str]:
    """Those of these keys of starts that are marked as begun."""
    rows = await store.read(
        "select key from starts where key in (select value from json_each(?)) and state = 'begun'",
        (listed(keys),),
    )
    return frozenset(str(key) for (key,) in rows)


async def seen_sessions(store: Store, keys: Iterable[str]) -> dict[str, bool]:
    """Those of these session keys that belong to an existing or a former session, and whether its invocation is missing."""
    rows = await store.read(
        f"select x.key, {_NOT_LINKED} from sessions x where x.key in (select value from json_each(?1))"  # noqa: S608 # our own words
        " union all select session_key, 0 from tombstones where session_key in (select value from json_each(?1))",
        (listed(keys),),
    )
    return {str(key): bool(is_missing) for key, is_missing in rows}


async def workplaces(store: Store, sessions: Iterable[str]) -> dict[str, Workplace]:
    """Where the commands of steps were ordered to start, by the keys of their sessions."""
    rows = await store.read(
        "select t.session_key, t.effect ->> '$.cwd', iif(t.effect ->> '$.worktree[0]' is null, null, t.name),"
        " c.started_at, iif(t.state = 'begun', t.ended_at, null)"
        " from starts t join chain_steps c on c.session_key = t.session_key"
        " where t.session_key in (select value from json_each(?)) and json_valid(t.effect)",
        (listed(sessions),),
    )
    return {
        str(key): Workplace(
            str(cwd),
            None if worktree is None else str(worktree),
            as_float(ordered),
            None if begun is None else as_float(begun),
        )
        for key, cwd, worktree, ordered, begun in rows
    }


STARTS: Final = Table(
    writes=(INSERT_START, GIVE_UP, WITHDRAW),
    answers={WorkplaceOf: answers_by(workplaces, lambda asked: asked.session_key)},
    appliers={StartRun: _start, GiveUpStart: _give_up, WithdrawStart: _withdraw},
    goes_with_session=("delete from starts where session_key = ?",),
    goes_with_event=("delete from starts where event = ?",),
)


INSERT_LAUNCH: Final = Write(
    "insert into launches (id, session_key, at, seal, contract_json, timeout, grace, launcher, process, cgroup)"
    # A launcher leaves the same launch again when everything is over.
    " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 where not exists (select 1 from launches where id = ?1)",
    exact=False,
)


# Oldest first, so that in the dictionary made of it the last launch of a session remains.
_LAST: Final = (
    "select session_key, at, seal, contract_json, launcher, process, timeout, cgroup from json_each(?) asked"
    " join launches on session_key = asked.value order by at, launches.rowid"
)


async def last_launches(store: Store, keys: Iterable[str]) -> dict[str, Launch]:
    """What the launchers of these sessions' runs recorded last, by session key."""
    return _by_session(await store.read(_LAST, (listed(keys),)))


def last_read(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Launch]:
    """The same, for commands."""
    return _by_session(connection.execute(_LAST, (listed(keys),)).fetchall())


def _by_session(rows: Iterable[Row]) -> dict[str, Launch]:
    return {
        str(key): Launch(
            as_float(at),
            str(seal),
            None if contract is None else str(contract),
            RecordedProcess(*json.loads(str(launcher))),
            RecordedProcess(*json.loads(str(process))),
            None if timeout is None else as_float(timeout),
            None if cgroup is None else str(cgroup),
        )
        for key, at, seal, contract, launcher, process, timeout, cgroup in rows
    }


LAUNCHES: Final = Table(
    writes=(INSERT_LAUNCH,),
    answers={LaunchOf: answers_by(last_launches, lambda asked: asked.key)},
    goes_with_session=("delete from launches where session_key = ?",),
)


INSERT_CANCELLATION: Final = Write(
    "insert into cancellations (event, session_key, attempt, directory, processes, said_by, reason, timeout)"
    " values (?, ?, ?, ?, ?, ?, ?, ?)"
)

CANCELLATION_DONE: Final = "update cancellations set carried_out_at = ?, told = ?, outcome = ? where event = ? and carried_out_at is null"

_PROCESSES: Final = Stored(RunProcesses)


class OwedCancellation(NamedTuple):
    """A row of `cancellations` that is still to be carried out."""

    event: int
    key: str
    directory: str
    processes: RunProcesses
    said_by: str
    reason: str
    is_kill: bool = False
    """Whether its processes are killed without being asked to end: its time is up, or they are all that is left of it."""


async def orders_for(store: Store, keys: Iterable[str]) -> dict[tuple[str, int], Cancellation]:
    """For each attempt of these sessions, the last order to end it that its process got or may still get.

    An order from nobody without a timeout killed what a run left that was over.
    """
    rows = await store.read(
        "select session_key, attempt, said_by, reason, carried_out_at is null, timeout from cancellations"
        " where session_key in (select value from json_each(?)) and told is not 0"
        " and (timeout is not null or said_by <> '') order by event",
        (listed(keys),),
    )
    return {
        (str(key), as_int(attempt)): Cancellation(
            str(said_by), str(reason), bool(is_owed), None if timeout is None else as_float(timeout)
        )
        for key, attempt, said_by, reason, is_owed, timeout in rows
    }


async def owed_cancellations(store: Store) -> list[OwedCancellation]:
    """The orders to end runs that are not carried out yet, in order."""
    rows = await store.read(
        "select event, session_key, directory, cast(processes as blob), said_by, reason,"
        " timeout is not null or said_by = '' from cancellations"
        " where carried_out_at is null order by event"
    )
    return [
        OwedCancellation(
            as_int(event),
            str(key),
            str(directory),
            _named(named),
            str(said_by),
            str(reason),
            bool(is_kill),
        )
        for event, key, directory, named, said_by, reason, is_kill in rows
    ]


def _named(stored: Value) -> RunProcesses:
    """Whom an order is for; nobody if that can't be read, and the order's outcome then says so."""
    try:
        return _PROCESSES.load(stored_text(stored))
    except ValueError:
        return RunProcesses(None, None, None)


def _cancel(batch: Batch, job: Job, effect: CancelRun) -> None:
    row = (job.seq, effect.key, effect.attempt, effect.directory)
    facts = (as_json(effect.processes), effect.said_by, effect.reason, None)
    batch.row(INSERT_CANCELLATION, (*row, *facts))


def _end_tree(batch: Batch, job: Job, effect: EndTree) -> None:
    row = (job.seq, effect.key, effect.attempt, effect.directory)
    batch.row(INSERT_CANCELLATION, (*row, as_json(effect.processes), "", "", effect.timeout))


async def _orders(
    store: Store, asked: Sequence[CancellationOf], jobs: Sequence[Job]
) -> Mapping[CancellationOf, Cancellation | None]:
    orders = await orders_for(store, [each.key for each in asked])
    return {each: orders.get((each.key, each.attempt)) for each in asked}


CANCELLATIONS: Final = Table(
    writes=(INSERT_CANCELLATION,),
    appliers={CancelRun: _cancel, EndTree: _end_tree},
    answers={CancellationOf: _orders},
    goes_with_session=("delete from cancellations where session_key = ?",),
)


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


async def owed_removals(store: Store) -> list[OwedRemoval]:
    """The worktrees that are still to be removed, in order."""
    rows = await store.read(
        "select session_key, name, repo from worktrees where removed_at is null order by event, session_key"
    )
    return [OwedRemoval(str(key), str(name), str(repo)) for key, name, repo in rows]


def _remove(batch: Batch, job: Job, effect: RemoveWorktree) -> None:
    batch.row(INSERT_WORKTREE, (effect.session_key, job.seq))


WORKTREES: Final = Table(
    writes=(INSERT_WORKTREE,),
    appliers={RemoveWorktree: _remove},
    goes_with_session=("delete from worktrees where session_key = ?",),
)
