"""Which jobs may run now, and when the next one may: questions whose cost doesn't grow with the jobs that wait.

A lane stops at its first job that is held or not due yet. So what may run is found from the heads of the lanes, the first
open job of each, which triggers of the database mark (migration 33). Heads that were always due are taken in their own
order, others in the order in which they became due. An index has both orders, so no more heads are read than are asked for.
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from runward.daemon.store.batch import Job
from runward.daemon.store.rows import columns, rows_of, value_of
from runward.daemon.store.tables.jobs import PAYLOAD
from runward.daemon.store.transaction import Reader, Row, listed
from runward.handlers.subjects import BACKGROUND, SCHEDULED


class _DueRow(NamedTuple):
    """A job that may run, with its event as it is stored."""

    id: int
    seq: int
    type: str
    version: int
    payload: str
    hash: str
    depth: int
    handler: str
    lane: str
    tries: int


_DUE_COLUMNS: Final = columns(
    _DueRow,
    "j",
    seq="j.event",
    payload=PAYLOAD,
    **{name: f"e.{name}" for name in ("type", "version", "hash", "depth")},
)

# The words of these conditions are those of the indexes in migration 33: SQLite uses a partial index only then. `indexed by`
# makes it refuse a query rather than read the table.
_HEADS: Final = "from jobs indexed by {index} where is_head = 1 and state = 'waiting'"
_FOREGROUND: Final = (
    _HEADS.format(index="jobs_next")
    + f" and lane not glob '{BACKGROUND}*' and (lane glob '{SCHEDULED}*') = {{scheduled}}"
)
_BACKGROUND: Final = (
    _HEADS.format(index="jobs_next_in_background")
    + f" and lane glob '{BACKGROUND}*' and is_large = {{large}}"
)
_NOT_IN: Final = " and lane not in (select value from json_each(?{}))"


def _due_heads(heads: str, until: str = "?1") -> str:
    """At most `?2` of the heads that are due, twice: of those that always were, and of those that became due."""
    return (
        f"select id, lane from (select id, lane {heads} and run_after <= 0 order by run_after, id limit ?2)"  # noqa: S608 # our own words
        f" union all select id, lane from (select id, lane {heads} and run_after > 0 and run_after <= {until}"
        " order by run_after, id limit ?2)"
    )


_CHOSEN: Final = (
    f" select {_DUE_COLUMNS} from chosen c cross join jobs j on j.id = c.id join events e on e.seq = j.event"  # noqa: S608 # our own words
    " order by j.id"
)

# The recursion merges the lanes: it takes the first of all jobs that are next, and then the one behind it in its lane.
_DUE_IN_FOREGROUND: Final = (
    f"with recursive chosen (id, lane) as ({_due_heads(_FOREGROUND.format(scheduled=0))}"  # noqa: S608 # our own words
    f" union all {_due_heads(_FOREGROUND.format(scheduled=1), until='min(?1, ?3)')}"
    " union all select j.id, j.lane from chosen c cross join jobs j on j.id = ("
    "  select min(b.id) from jobs b indexed by jobs_open"
    "  where b.lane = c.lane and b.id > c.id and b.state in ('waiting', 'held'))"
    f" where j.state = 'waiting' and j.run_after <= iif(j.lane glob '{SCHEDULED}*', min(?1, ?3), ?1)"
    f" order by 1 limit ?2){_CHOSEN}"
)

# In the background only the heads: a later job of a lane must see what the one before it decided.
_SHORT_ONES: Final = (
    f"with heads (id, lane) as ({_due_heads(_BACKGROUND.format(large=0) + _NOT_IN.format(3) + _NOT_IN.format(4))}),"  # noqa: S608 # our own words
    f" chosen as (select id from heads order by id limit ?2){_CHOSEN}"
)
_LONG_ONES: Final = (
    f"with heads (id, lane) as ({_due_heads(_BACKGROUND.format(large=1) + _NOT_IN.format(3))}"  # noqa: S608 # our own words
    " union all select j.id, j.lane from json_each(?4) k cross join jobs j indexed by jobs_open on j.lane = k.value"
    f" where j.state in ('waiting', 'held') and is_head = 1 and state = 'waiting' and run_after <= ?1 and is_large = 0"
    f" and lane glob '{BACKGROUND}*'{_NOT_IN.format(3)}),"
    f" chosen as (select id from heads order by id limit ?2){_CHOSEN}"
)


def _next(heads: str) -> str:
    return f"select min(run_after) at {heads}"  # our own words


_NEXT_IN_FOREGROUND: Final = (
    f"select min(at) from ({_next(_FOREGROUND.format(scheduled=0))}"  # noqa: S608 # our own words
    f" union all {_next(_FOREGROUND.format(scheduled=1))} and run_after <= ?)"
)
_NEXT_IN_BACKGROUND: Final = (
    f"select min(at) from ({_next(_BACKGROUND.format(large=0))} and run_after > ?1"  # noqa: S608 # our own words
    f" union all {_next(_BACKGROUND.format(large=1))} and run_after > ?1)"
)


async def next_due(store: Reader, horizon: float = math.inf) -> float | None:
    """When the next job at the head of its lane is due in the foreground (Unix seconds); None if none waits.

    No schedule comes after the `horizon`.
    """
    ((due,),) = await store.read(_NEXT_IN_FOREGROUND, (horizon,))
    return value_of(float, (due,))


async def next_due_in_background(store: Reader, after: float) -> float | None:
    """When the first job at the head of its lane in the background is due after this moment (both Unix seconds)."""
    (due,) = await store.read(_NEXT_IN_BACKGROUND, (after,))
    return value_of(float, due)


class Due(NamedTuple):
    """Jobs that may run now; and those whose event can't be read, with the reason."""

    jobs: list[Job]
    broken: list[tuple[int, str]]


async def due_jobs(store: Reader, now: float, limit: int, horizon: float = math.inf) -> Due:
    """What may run now in the foreground, in order. No schedule comes after the `horizon` (Unix seconds)."""
    return _due(await store.read(_DUE_IN_FOREGROUND, (now, limit, horizon)))


async def due_in_background(
    store: Reader, now: float, limit: int, long: Iterable[str], without: Iterable[str], *, are_long: bool
) -> Due:
    """What may run now in the background, the first job of each lane, in none of the lanes `without`.

    It takes long, or doesn't: what is in the lanes `long`, and what reads more than `LARGE` bytes.
    """
    given = (now, limit, listed(sorted(without)), listed(sorted(long)))
    return _due(await store.read(_LONG_ONES if are_long else _SHORT_ONES, given))


def _due(rows: Iterable[Row]) -> Due:
    from runward.handlers.model.events import UnknownEvent
    from runward.handlers.registry import load_payload

    jobs, broken = [], []
    for row in rows_of(_DueRow, rows):
        try:
            event = load_payload(row.type, row.version, row.payload)
        except UnknownEvent as error:
            # An event that can't be read holds its own job; the others go on.
            broken.append((row.id, str(error)))
            continue
        job = Job(
            id=row.id,
            seq=row.seq,
            event=event,
            event_hash=row.hash,
            depth=row.depth,
            handler=row.handler,
            lane=row.lane,
            tries=row.tries,
        )
        jobs.append(job)
    return Due(jobs, broken)
