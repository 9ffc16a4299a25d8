"""Runs that have to begin, and that they did or never will."""

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic_core import to_json

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.daemon.store.values import as_bytes
from runward.handlers.effects import StartRun
from runward.handlers.starts.effects import GiveUpStart

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into starts (key, event, session_key, name, directory, effect, state) values (?, ?, ?, ?, ?, ?, 'owed')"
)

BEGUN: Final = "update starts set state = 'begun', ended_at = ? where key = ? and state = 'owed'"
"""It began; exact, so that nobody says it twice."""

GIVE_UP: Final = Write(
    "update starts set state = 'failed', why = ?, ended_at = ? where key = ? and state = 'owed'", exact=False
)


class OwedStarts(NamedTuple):
    """The runs that have to begin, and the keys and sessions of those whose order can't be read any more."""

    orders: list[StartRun]
    unreadable: list[tuple[str, str]]


async def owed_starts(store: Store) -> OwedStarts:
    """What is owed, in the order of its events; what an earlier daemon owed may have begun."""
    rows = await store.read(
        "select key, session_key, cast(effect as blob) from starts where state = 'owed' order by event, key"
    )
    owed = OwedStarts([], [])
    for key, session, effect in rows:
        try:
            owed.orders.append(load_start(as_bytes(effect).decode()))
        except (ValueError, TypeError, KeyError, RecursionError):
            owed.unreadable.append((str(key), str(session)))
    return owed


def load_start(text: str) -> StartRun:
    """The order that was stored as `text`. Raises `ValueError`, `TypeError` or `KeyError` for what is none."""
    fields = json.loads(text)
    return StartRun(
        **{
            **fields,
            "command": tuple(fields["command"]),
            "environment": tuple((name, value) for name, value in fields["environment"]),
            "metadata": tuple((name, value) for name, value in fields["metadata"]),
        }
    )


def _start(batch: "Batch", job: Job, effect: StartRun) -> None:
    directory, content = f"{effect.root}/{effect.name}", to_json(effect._asdict()).decode()
    batch.row(INSERT, (effect.key, job.seq, effect.session, effect.name, directory, content))


def _give_up(batch: "Batch", job: Job, effect: GiveUpStart) -> None:
    batch.row(GIVE_UP, (effect.why, effect.at, effect.key))


async def given_up_in_silence(store: Store) -> list[tuple[str, str, str]]:
    """Key, session and reason of the starts that a restore gave up: no event says so yet."""
    rows = await store.read(
        "select s.key, s.session_key, s.why from starts s where s.state = 'failed'"
        " and s.ended_at in (select at from restores)"
        " and not exists (select 1 from events e where e.key = s.key || '/failed')"
    )
    return [(str(key), str(session), str(why)) for key, session, why in rows]


STARTS: Final = Table(
    writes=(INSERT, GIVE_UP),
    appliers={StartRun: _start, GiveUpStart: _give_up},
    goes_with_session=("delete from starts where session_key = ?",),
)
