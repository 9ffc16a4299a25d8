"""Ordered runs: whether they have begun, or never will."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.values import as_bytes, as_float, listed
from runward.handlers.model.approvals import Workplace, WorkplaceOf
from runward.handlers.model.starts import GiveUpStart, StartRun, WithdrawStart
from runward.handlers.model.stored import as_json

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into starts (key, event, session_key, name, directory, effect, state) values (?, ?, ?, ?, ?, ?, 'owed')"
)

BEGUN: Final = "update starts set state = 'begun', ended_at = ? where key = ? and state = 'owed'"
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


def _start(batch: "Batch", job: Job, effect: StartRun) -> None:
    directory, content = f"{effect.root}/{effect.name}", as_json(effect)
    batch.row(INSERT, (effect.key, job.seq, effect.session, effect.name, directory, content))


def _withdraw(batch: "Batch", job: Job, effect: WithdrawStart) -> None:
    batch.row(WITHDRAW, (effect.why, effect.at, effect.session_key))


def _give_up(batch: "Batch", job: Job, effect: GiveUpStart) -> None:
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
    writes=(INSERT, GIVE_UP, WITHDRAW),
    answers={WorkplaceOf: answers_by(workplaces, lambda asked: asked.session_key)},
    appliers={StartRun: _start, GiveUpStart: _give_up, WithdrawStart: _withdraw},
    goes_with_session=("delete from starts where session_key = ?",),
    goes_with_event=("delete from starts where event = ?",),
)
