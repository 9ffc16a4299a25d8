"""The queue: events, their jobs, and what was decided."""

import math
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from runward.config.json_value import stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.hash_chain import GENESIS_HEAD, Head, Recorded, link
from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import Row, Statement, as_float, as_int, listed
from runward.handlers.model.chains import LaneWaits
from runward.handlers.model.effects import Emit, Explain
from runward.handlers.model.events import AfterTime, Event, UnknownEvent
from runward.handlers.model.requests import JobState, JobStateOf, ReleaseJob
from runward.handlers.model.schedules import RingNow
from runward.handlers.registry import load_payload
from runward.handlers.route import BACKGROUND, SCHEDULED, TIMERS, Duty, duties, in_background

INSERT_JOB: Final = Write(
    "insert into jobs (id, event, handler, lane, state, token, epoch, updated_at, run_after)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

FINISH: Final = Write(
    # The token names this one claim. Without it, a result that comes late would overwrite that of a later claim.
    "update jobs set state = ?, run_after = ?, token = null, tries = ?, error = ?, updated_at = ?"
    " where id = ? and token = ? and state = 'running'"
)

RELEASE: Final = Write(
    f"update jobs set state = ?, run_after = case when lane glob '{TIMERS}*' then run_after else 0 end, tries = 0,"  # noqa: S608 # our own words
    " error = ?, updated_at = ? where id = ? and state = 'held'",
    exact=False,
)

RING: Final = Write(
    "update jobs set run_after = 0 where lane = ? and state in ('waiting', 'held') and state = 'waiting'",
    exact=False,
)
TAKE_BACK: Final = (
    # Only of older epochs: what this daemon claimed itself is in progress.
    "update jobs set state = 'waiting', token = null, epoch = ?, updated_at = ?"
    " where state = 'running' and epoch < ?"
)

CLAIM: Final = "update jobs set state = 'running', token = ?, epoch = ? where id = ? and state = 'waiting'"

RETRY_NOW: Final = (
    "update jobs set run_after = ? where state in ('waiting', 'held') and state = 'waiting' and run_after > ?"  # noqa: S608 # our own words
    f" and tries > 0 and lane not glob '{TIMERS}*'"
)

MOVE: Final = (
    "update jobs set run_after = run_after + ? where state in ('waiting', 'held') and run_after > 0"  # noqa: S608 # our own words
    f" and lane not glob '{SCHEDULED}*'"
)
"""A delayed job waits for a duration; a schedule follows the wall clock."""

HOLD: Final = "update jobs set state = 'held', error = ?, updated_at = ? where id = ? and state = 'waiting'"

_BACKGROUND: Final = f"{BACKGROUND}*"
"""The background lanes, as a pattern for `glob`."""

_BEFORE: Final = f"(j.run_after <= ?{{}} or j.lane not glob '{SCHEDULED}*')"

_DUE: Final = (
    "with open as materialized (select j.id, j.lane from jobs j {also} where {which} order by {order} limit -1),"
    " free as materialized (select o.id from open o where not exists ("
    "  select 1 from jobs b where b.lane = o.lane and b.id < o.id"
    "  and b.state in ('waiting', 'held') and (b.state = 'held' or b.run_after > ?1)) limit ?3)"
    " select j.id, j.event, e.type, e.version, e.payload, e.hash, e.depth, j.handler, j.lane, j.tries"
    " from free f cross join jobs j on j.id = f.id join events e on e.seq = j.event order by {order}"
)
"""A lane stops at its first job that is held or not due yet.

Jobs are looked at in order, and no further than the limit: thousands may wait in one lane, or for a later time.
"""

# Both conditions on the state: the index has only these two, and SQLite uses it only if its own words stand here.
_OPEN: Final = "j.state in ('waiting', 'held') and j.state = 'waiting' and j.run_after <= ?1 and j.lane {} ?2"

_DUE_IN_FOREGROUND: Final = _DUE.format(
    also="", which=f"{_OPEN.format('not glob')} and {_BEFORE.format(4)}", order="+j.id"
)

_DUE_IN_BACKGROUND: Final = _DUE.format(
    also="join events e on e.seq = j.event",
    which=f"{_OPEN.format('glob')} and j.lane not in (select value from json_each(?6))"  # noqa: S608 # our own words
    " and (coalesce(e.payload ->> 'produced_bytes', 0) > ?4 or j.lane in (select value from json_each(?5))) = ?7",
    order="j.lane, j.id",
)

JOBS_AN_EVENT: Final = 32
"""A job's id is this times its event's number, plus its own number among the event's jobs: unique by construction."""


async def take_back(store: Store, now: float) -> int:
    """Free the jobs that an earlier daemon had claimed; returns how many."""
    ((stolen,),) = await store.read(
        "select count(*) from jobs where state = 'running' and epoch < ?", (store.epoch,)
    )
    # Counted first: a start without such jobs costs no write.
    if stolen:
        await store.run([Statement(TAKE_BACK, [(store.epoch, now, store.epoch)])], "take_back")
    return as_int(stolen)


async def open_lanes(store: Store) -> dict[str, int]:
    """The lanes in which jobs wait or are held, with their number, excluding background jobs."""
    rows = await store.read(
        "select lane, count(*) from jobs where state in ('waiting', 'held') and lane not glob ? group by lane",
        (_BACKGROUND,),
    )
    return {str(lane): as_int(count) for lane, count in rows}


async def next_due(store: Store, horizon: float = math.inf) -> float | None:
    """When the next job at the head of its lane is due in the foreground (Unix seconds); None if none waits.

    No schedule comes after the `horizon`.
    """
    ((due,),) = await store.read(
        "select min(run_after) from jobs j where state in ('waiting', 'held') and state = 'waiting'"  # noqa: S608 # our own words
        f" and lane not glob ?1 and {_BEFORE.format(2)} and not exists ("
        "select 1 from jobs b where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held'))",
        (_BACKGROUND, horizon),
    )
    return None if due is None else float(due)


async def next_due_in_background(store: Store, after: float) -> float | None:
    """When the first job in the background after this moment is due (both Unix seconds)."""
    ((due,),) = await store.read(
        "select min(run_after) from jobs where state in ('waiting', 'held') and state = 'waiting'"
        " and lane glob ? and run_after > ?",
        (_BACKGROUND, after),
    )
    return None if due is None else float(due)


class Due(NamedTuple):
    """Jobs that may run now; and those whose event can't be read, with the reason."""

    jobs: list[Job]
    broken: list[tuple[int, str]]


async def due_jobs(store: Store, now: float, limit: int, horizon: float = math.inf) -> Due:
    """What may run now in the foreground, in order. No schedule comes after the `horizon` (Unix seconds)."""
    return _due(await store.read(_DUE_IN_FOREGROUND, (now, _BACKGROUND, limit, horizon)))


async def due_in_background(
    store: Store,
    now: float,
    limit: int,
    large: int,
    long: Iterable[str],
    without: Iterable[str],
    *,
    are_long: bool,
) -> Due:
    """What may run now in the background, in none of the lanes `without`.

    It takes long, or doesn't: what is in the lanes `long`, and what reads more than `large` bytes.
    """
    given = (now, _BACKGROUND, limit, large, listed(sorted(long)), listed(sorted(without)), are_long)
    return _due(await store.read(_DUE_IN_BACKGROUND, given))


def _due(rows: Iterable[Row]) -> Due:
    jobs, broken = [], []
    for number, seq, kind, version, payload, digest, depth, handler, lane, tries in rows:
        try:
            event = load_payload(str(kind), as_int(version), str(payload))
        except UnknownEvent as error:
            # An event that can't be read holds its own job; the others go on.
            broken.append((as_int(number), str(error)))
            continue
        jobs.append(
            Job(
                as_int(number),
                as_int(seq),
                event,
                str(digest),
                as_int(depth),
                str(handler),
                str(lane),
                as_int(tries),
            )
        )
    return Due(jobs, broken)


class HeldJob(NamedTuple):
    """A job that a person must look at, why, and since when (Unix seconds)."""

    id: int
    handler: str
    lane: str
    error: str
    held_at: float


async def held_jobs(store: Store, most: int) -> list[HeldJob]:
    """The jobs that are held, newest first."""
    rows = await store.read(
        "select id, handler, lane, error, updated_at from jobs where state in ('waiting', 'held') and state = 'held'"
        " order by id desc limit ?",
        (most,),
    )
    return [
        HeldJob(as_int(number), str(handler), str(lane), str(error), as_float(at))
        for number, handler, lane, error, at in rows
    ]


async def states_under(store: Store, numbers: Iterable[int]) -> dict[int, tuple[str, str | None]]:
    """The state and token of each of these jobs: this resolves an uncertain commit."""
    rows = await store.read(
        "select id, state, token from jobs where id in (select value from json_each(?))",
        (listed(numbers),),
    )
    return {
        as_int(number): (str(state), None if token is None else str(token)) for number, state, token in rows
    }


async def job_states(store: Store, numbers: Iterable[int]) -> dict[int, JobState]:
    """The current state of each of these jobs, with its event; those that don't exist are left out."""
    rows = await store.read(
        "select j.id, j.state, e.type, e.version, e.payload from jobs j join events e on e.seq = j.event"
        " where j.id in (select value from json_each(?))",
        (listed(numbers),),
    )
    return {as_int(row[0]): JobState(str(row[1]), _readable(*row[2:])) for row in rows}


def _readable(kind: object, version: object, payload: object) -> Event | None:
    try:
        return load_payload(str(kind), as_int(version), str(payload))
    except UnknownEvent:
        return None


def _release(batch: Batch, job: Job, effect: ReleaseJob) -> None:
    # The worker then looks for due jobs at once: the released one is due now.
    batch.released = True
    batch.row(RELEASE, (effect.state, effect.reason, batch.now, effect.job))


def _ring(batch: Batch, job: Job, effect: RingNow) -> None:
    # Likewise: the timer was due later, and the worker may be waiting for that time.
    batch.rung = True
    batch.row(RING, (effect.lane,))


async def waiting_lanes(store: Store, lanes: Iterable[str]) -> dict[str, bool]:
    """Those of these lanes with jobs that are neither done nor held."""
    rows = await store.read(
        "select distinct k.value from json_each(?) k where"
        " exists (select 1 from jobs j where j.lane = k.value and j.state in ('waiting', 'held') and j.state = 'waiting')"
        " or exists (select 1 from jobs j where j.lane = k.value and j.state = 'running')",
        (listed(lanes),),
    )
    return {str(lane): True for (lane,) in rows}


JOBS: Final = Table(
    writes=(INSERT_JOB, FINISH, RELEASE, RING),
    appliers={ReleaseJob: _release, RingNow: _ring},
    answers={
        JobStateOf: answers_by(job_states, lambda asked: asked.job),
        LaneWaits: answers_by(waiting_lanes, lambda asked: asked.lane, False),
    },
    folds={
        ReleaseJob: (
            Fold(
                lambda effect: JobStateOf(effect.job),
                lambda found, effect: found._replace(state=effect.state),
            ),
        )
    },
    moved_by_steps=(MOVE,),
    goes_with_event=("delete from jobs where id between 32 * ?1 and 32 * ?1 + 31",),
)


INSERT_EVENT: Final = Write(
    "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_SESSION_EVENT: Final = re.compile(r"(.+)#([0-9]{1,9})/.+", re.DOTALL)
"""The key of an event of an attempt: its session's, and its attempt's number."""


async def events_head(store: Store) -> Head:
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
    matches = ((key, _SESSION_EVENT.fullmatch(key)) for key in keys)
    return {key: (match[1], int(match[2])) for key, match in matches if match is not None}


def add_event(
    batch: Batch,
    event: Event,
    token: str | None,
    blocked: Callable[[str], bool],
    cause: str | None = None,
    depth: int = 0,
) -> Recorded:
    """Record an event with a job for each of its handlers, claimed under `token` unless its lane is blocked."""
    # Numbered before the transaction runs: no other writer can take the number, or the epoch's check refuses us.
    recorded = link(batch.head, event, batch.now, cause, depth)
    batch.head = Head(recorded.seq, recorded.hash)
    batch.row(
        INSERT_EVENT,
        (
            recorded.seq,
            event.key,
            event.type,
            event.version,
            event.lane,
            event.at,
            batch.now,
            cause,
            depth,
            recorded.payload,
            recorded.hash,
        ),
    )
    for duty in duties(event):
        waits = token is None or duty.due > batch.now or in_background(duty.lane) or blocked(duty.lane)
        _add_job(batch, recorded, duty, None if waits else token)
    return recorded


def _add_job(batch: Batch, recorded: Recorded, duty: Duty, token: str | None) -> None:
    job = Job(
        id=recorded.seq * JOBS_AN_EVENT + duty.number,
        seq=recorded.seq,
        event=recorded.event,
        event_hash=recorded.hash,
        depth=recorded.depth,
        handler=duty.handler,
        lane=duty.lane,
    )
    (batch.waiting if token is None else batch.jobs).append(job)
    state, due = "waiting" if token is None else "running", _due_at(batch, duty, job.event)
    batch.row(INSERT_JOB, (job.id, job.seq, job.handler, job.lane, state, token, batch.epoch, batch.now, due))


def _due_at(batch: Batch, duty: Duty, event: Event) -> float:
    """When a job is due. A timer never waits longer than it was set for, even if its clock was ahead."""
    is_timer = duty.lane.startswith(TIMERS) and not duty.lane.startswith(SCHEDULED)
    return min(duty.due, batch.steady + duty.due - event.at) if is_timer else duty.due


def _waits(lane: str) -> bool:
    return True  # the turn that decided this may be working on other jobs of the lane


def _emit(batch: Batch, job: Job, effect: Emit) -> None:
    depth = 0 if isinstance(effect.event, AfterTime) else job.depth + 1
    add_event(batch, effect.event, None, _waits, job.event.key, depth)


EVENTS: Final = Table(writes=(INSERT_EVENT,), appliers={Emit: _emit})


INSERT_DECISION: Final = Write(
    "insert into decisions (event, handler, subject, at, verdict, summary, known) values (?, ?, ?, ?, ?, ?, ?)"
)


def _explain(batch: Batch, job: Job, effect: Explain) -> None:
    known = None if effect.known is None else stored_json(effect.known).decode()
    row = (job.seq, job.handler, effect.subject, batch.now, effect.verdict, effect.summary, known)
    batch.row(INSERT_DECISION, row)


DECISIONS: Final = Table(
    writes=(INSERT_DECISION,),
    appliers={Explain: _explain},
    goes_with_session=(
        "delete from decisions where subject = ?",
        "delete from decisions where subject in (select 'start ' || name from starts where session_key = ?)",
    ),
    goes_with_chain_run=("delete from decisions where subject = ?",),
)
