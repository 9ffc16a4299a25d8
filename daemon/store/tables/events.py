"""The events: one hash chain, each fact once under its key."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from runward.daemon.store.hash_chain import GENESIS_HEAD, Head
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.daemon.store.values import as_int, listed
from runward.handlers.model.effects import Emit
from runward.handlers.model.events import AfterTime

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_SESSION_EVENT: Final = re.compile(r"(.+)#([0-9]{1,9})/.+", re.DOTALL)
"""The key of an event of an attempt: its session's, and its attempt's number."""


async def head(store: Store) -> Head:
    """The end of the chain of events: the next one follows it."""
    last = await store.read(
        "select * from (select seq, hash from events order by seq desc limit 1)"
        " union all select * from (select last, hash from absent_events order by last desc limit 1) order by 1 desc"
    )
    return Head(as_int(last[0][0]), str(last[0][1])) if last else GENESIS_HEAD


async def known_events(store: Store, keys: Iterable[str]) -> frozenset[str]:
    """Those of the keys under which an event is recorded, or was before it was pruned."""
    asked = list(keys)
    attempts = attempts_of(asked)
    # One query, because verdicts wait for the answer.
    rows = await store.read(
        "select key, null from events where key in (select value from json_each(?1)) union all"
        " select session_key, attempt from tombstones where session_key in (select value from json_each(?2))",
        (listed(asked), listed({session for session, _ in attempts.values()})),
    )
    recorded = {str(key) for key, attempt in rows if attempt is None}
    pruned = {str(session): as_int(attempt) for session, attempt in rows if attempt is not None}
    return frozenset(recorded).union(
        key for key, (session, attempt) in attempts.items() if attempt <= pruned.get(session, 0)
    )


def attempts_of(keys: Iterable[str]) -> dict[str, tuple[str, int]]:
    """For those of these event keys that belong to an attempt: its session, and its number."""
    found = ((key, _SESSION_EVENT.fullmatch(key)) for key in keys)
    return {key: (match[1], int(match[2])) for key, match in found if match is not None}


def _waits(lane: str) -> bool:
    return True  # the turn that decided this may be working on other jobs of the lane


def _emit(batch: "Batch", job: Job, effect: Emit) -> None:
    depth = 0 if isinstance(effect.event, AfterTime) else job.depth + 1
    batch.add_event(effect.event, None, _waits, job.event.key, depth)


EVENTS: Final = Table(writes=(INSERT,), appliers={Emit: _emit})
