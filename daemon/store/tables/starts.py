"""Runs that have to begin, and that they did or never will."""

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic_core import to_json

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.daemon.store.values import as_bytes
from runward.handlers.effects import StartRun

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into starts (key, event, session_key, name, directory, effect, state) values (?, ?, ?, ?, ?, ?, 'owed')"
)

ENDED: Final = "update starts set state = ?, why = ?, ended_at = ? where key = ? and state = 'owed'"
"""What became of a start; exact, so that nobody says it twice."""


class OwedStarts(NamedTuple):
    """The runs that have to begin, and the keys of those whose order can't be read any more."""

    orders: list[StartRun]
    unreadable: list[str]


async def owed_starts(store: Store) -> OwedStarts:
    """What is owed, in the order of its events; what an earlier daemon owed may have begun."""
    rows = await store.read(
        "select key, cast(effect as blob) from starts where state = 'owed' order by event, key"
    )
    owed = OwedStarts([], [])
    for key, effect in rows:
        try:
            owed.orders.append(load_start(as_bytes(effect).decode()))
        except (ValueError, TypeError, KeyError, RecursionError):
            owed.unreadable.append(str(key))
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


STARTS: Final = Table(
    writes=(INSERT,),
    appliers={StartRun: _start},
    goes_with_session=("delete from starts where session_key = ?",),
)
