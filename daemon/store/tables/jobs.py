"""The jobs of the queue: what handlers have to do about events, each in its lane.

In the queries, a plus before a column makes SQLite read the few open jobs instead of scanning all jobs by number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store.batch import Batch, Job, JobResult, Write
from runward.daemon.store.rows import row_of, rows_of, select, value_of, values_of
from runward.daemon.store.tables.table import Fold, Table
from runward.daemon.store.transaction import Statement, listed
from runward.handlers.subjects import BACKGROUND, SCHEDULED, TIMERS
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.store.hash_chain import Recorded
    from runward.daemon.store.store import Store
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.chains import LaneWaits
    from runward.handlers.model.events import Event
    from runward.handlers.model.requests import JobState, JobStateOf, ReleaseJob
    from runward.handlers.model.schedules import RingNow
    from runward.handlers.route import Duty


INSERT_JOB: Final = Write(
    "insert into jobs (id, event, handler, lane, state, run_after, token, tries, error, epoch, updated_at, is_large)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

FINISH: Final = Write(
    # The token names this one claim. Without it, a result that comes late would overwrite that of a later claim.
    "update jobs set state = ?, run_after = ?, token = null, tries = ?, error = ?, updated_at = ?"
    " where id = ? and token = ? and state = 'running'"
)

FINISH_DUE: Final = Write(
    "update jobs set state = ?, run_after = ?, tries = ?, error = ?, updated_at = ?"
    " where id = ? and state = 'waiting'"
)

# A timer that a person releases waits for its time all the same.
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

CLAIM: Final = Write(
    # Exact: if one of them isn't waiting any more, the whole transaction is undone, and nothing is worked on twice.
    "update jobs set state = 'running', token = ?, epoch = ? where id = ? and state = 'waiting'"
)

# Of the jobs that the world refused: it may be well again. Timers are left out, because they wait for a time.
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

LARGE: Final = 256 << 20
"""Bytes of files beyond which a job in the background counts as long before it is begun."""

JOBS_AN_EVENT: Final = 32
"""A job's id is this times its event's number, plus its own number among the event's jobs: unique by construction."""


async def take_back(store: Store, now: float) -> int:
    """Free the jobs that an earlier daemon had claimed; returns how many."""
    (counted,) = await store.read(
        "select count(*) from jobs where state = 'running' and epoch < ?", (store.epoch,)
    )
    stolen = value_of(int, counted) or 0
    # Counted first: a start without such jobs costs no write.
    if stolen:
        await store.run([Statement(TAKE_BACK, [(store.epoch, now, store.epoch)])], "take_back")
    return stolen


async def open_lanes(store: Reader) -> dict[str, int]:
    """The lanes in which jobs wait or are held, with their number, excluding background jobs."""
    rows = await store.read(
        "select lane, count(*) from jobs where state in ('waiting', 'held') and lane not glob ? group by lane",
        (_BACKGROUND,),
    )
    return dict(rows_of(tuple[str, int], rows))


class HeldJob(NamedTuple):
    """A job that a person must look at, why, and since when (Unix seconds)."""

    id: int
    handler: str
    lane: str
    error: str
    held_at: float


async def held_jobs(store: Reader, most: int) -> list[HeldJob]:
    """The jobs that are held, newest first."""
    rows = await store.read(
        select(
            HeldJob,
            "from jobs where state in ('waiting', 'held') and state = 'held' order by id desc limit ?",
            held_at="updated_at",
        ),
        (most,),
    )
    return rows_of(HeldJob, rows)


class Standing(NamedTuple):
    """How far a job is. This resolves an uncertain commit."""

    id: int
    state: str
    token: str | None
    tries: int


async def standings(store: Reader, numbers: Iterable[int]) -> dict[int, Standing]:
    """How far each of these jobs is."""
    query = select(Standing, "from jobs where id in (select value from json_each(?))")
    return {each.id: each for each in rows_of(Standing, await store.read(query, (listed(numbers),)))}


PAYLOAD: Final = "coalesce((select m.payload from moved_payloads m where m.event = e.seq), e.payload)"
"""What a job reads of its event `e`: the record may have been moved since."""


async def _job_states(
    store: Reader, asked: Sequence[JobStateOf], jobs: Sequence[Job]
) -> dict[JobStateOf, JobState | None]:
    """The current state of each job, with its event; None if there is no such job."""
    from runward.handlers.model.requests import JobState

    # Those that are being decided run, whatever their rows say.
    at_work = {job.id for job in jobs}
    rows = await store.read(
        f"select j.id, j.state, e.type, e.version, {PAYLOAD} from jobs j join events e on e.seq = j.event"  # noqa: S608 # our own words
        " where j.id in (select value from json_each(?))",
        (listed({each.job for each in asked}),),
    )
    states = {
        number: JobState("running" if number in at_work else state, _readable(kind, version, payload))
        for number, state, kind, version, payload in rows_of(tuple[int, str, str, int, str], rows)
    }
    return {each: states.get(each.job) for each in asked}


def _readable(kind: str, version: int, payload: str) -> Event | None:
    from runward.handlers.model.events import UnknownEvent
    from runward.handlers.registry import load_payload

    try:
        return load_payload(kind, version, payload)
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


async def _waiting_lanes(
    store: Reader, asked: Sequence[LaneWaits], jobs: Sequence[Job]
) -> dict[LaneWaits, bool]:
    """Whether the lane has jobs that are neither done nor held."""
    rows = await store.read(
        "select distinct k.value from json_each(?) k where"
        " exists (select 1 from jobs j where j.lane = k.value and j.state in ('waiting', 'held') and j.state = 'waiting')"
        " or exists (select 1 from jobs j where j.lane = k.value and j.state = 'running')",
        (listed({each.lane for each in asked}),),
    )
    # The jobs that are being decided may have no rows yet.
    waiting = {*values_of(str, rows), *(job.lane for job in jobs)}
    return {each: each.lane in waiting for each in asked}


def add_job(batch: Batch, recorded: Recorded, duty: Duty, waits: bool) -> None:
    """Add the job that a duty towards this event makes."""
    job = Job(
        id=recorded.seq * JOBS_AN_EVENT + duty.number,
        seq=recorded.seq,
        event=recorded.event,
        event_hash=recorded.hash,
        depth=recorded.depth,
        handler=duty.handler,
        lane=duty.lane,
    )
    if not waits:
        batch.claimed.append(job)
        return
    batch.waiting.append(job)
    _insert(batch, job, "waiting", run_after=_due_at(batch, duty, job.event))


def _insert(
    batch: Batch,
    job: Job,
    state: str,
    run_after: float = 0.0,
    token: str | None = None,
    tries: int = 0,
    error: str | None = None,
) -> None:
    batch.row(
        INSERT_JOB,
        (
            job.id,
            job.seq,
            job.handler,
            job.lane,
            state,
            run_after,
            token,
            tries,
            error,
            batch.epoch,
            batch.now,
            _is_large(job),
        ),
    )


def _is_large(job: Job) -> bool:
    """Whether a job in the background takes long, by what its event says of the files that it reads."""
    if not job.lane.startswith(BACKGROUND):
        return False
    from runward.handlers.model.events import OfFiles

    return isinstance(job.event, OfFiles) and job.event.produced_bytes > LARGE


def claim_due(batch: Batch, job: Job, token: str) -> None:
    """Claim a job that waited until this transaction."""
    batch.row(CLAIM, (token, batch.epoch, job.id))


def keep_claimed(batch: Batch, job: Job, token: str) -> None:
    """Record a new job as claimed: its result comes in another transaction."""
    _insert(batch, job, "running", token=token)


def tries_after(result: JobResult) -> int:
    """How often the job counts as tried."""
    # A job that is done keeps its number of tries, so that people see how often it was tried before.
    return result.job.tries if result.state == "done" else result.job.tries + 1


def finish_claimed(batch: Batch, result: JobResult, token: str) -> None:
    """Complete a job that was claimed under this token in an earlier transaction."""
    row = (result.state, result.run_after, tries_after(result), result.error, batch.now, result.job.id, token)
    batch.row(FINISH, row)


def finish_due(batch: Batch, result: JobResult) -> None:
    """Complete a job that waited until this transaction."""
    row = (result.state, result.run_after, tries_after(result), result.error, batch.now, result.job.id)
    batch.row(FINISH_DUE, row)


def finish_new(batch: Batch, result: JobResult) -> None:
    """Complete a job whose event is recorded in this transaction: its only row."""
    _insert(
        batch,
        result.job,
        result.state,
        run_after=result.run_after,
        tries=tries_after(result),
        error=result.error,
    )


def _due_at(batch: Batch, duty: Duty, event: Event) -> float:
    """When a job is due. A timer never waits longer than it was set for, even if its clock was ahead."""
    is_timer = duty.lane.startswith(TIMERS) and not duty.lane.startswith(SCHEDULED)
    return min(duty.due, batch.steady + duty.due - event.at) if is_timer else duty.due


class JobRow(NamedTuple):
    """A job with its event's key and type. `blocked_by` is the earlier job that stops its lane."""

    id: int
    event: int
    event_key: str
    event_type: str
    recorded_at: float
    handler: str
    lane: str
    state: str
    run_after: float
    tries: int
    error: str | None
    updated_at: float
    blocked_by: int | None

    def as_json(self) -> dict[str, JsonValue]:
        """The job as `queue list --json` prints it."""
        return {
            "id": self.id,
            "event": self.event_key,
            "type": self.event_type,
            "handler": self.handler,
            "lane": self.lane,
            "state": self.state,
            "tries": self.tries,
            "error": self.error,
            "recorded_at": iso(self.recorded_at),
            "due_at": iso(self.run_after) if self.run_after else None,
            "updated_at": iso(self.updated_at),
            "blocked_by": self.blocked_by,
        }


_BLOCKED_BY: Final = (
    "case when j.state = 'waiting' then coalesce("
    " (select min(+b.id) from jobs b where b.state = 'running' and b.lane = j.lane and +b.id < j.id),"
    " (select min(b.id) from jobs b where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held'))) end"
)


def job_rows(connection: sqlite3.Connection, numbers: Iterable[int]) -> list[JobRow]:
    """The jobs with these numbers: held ones first, then in order."""
    rows = connection.execute(
        select(
            JobRow,
            "from jobs j join events e on e.seq = j.event"
            " where j.id in (select value from json_each(?)) order by j.state <> 'held', j.id",
            "j",
            event_key="e.key",
            event_type="e.type",
            recorded_at="e.recorded_at",
            blocked_by=_BLOCKED_BY,
        ),
        (listed(numbers),),
    )
    return rows_of(JobRow, rows)


def job_row(connection: sqlite3.Connection, number: int) -> JobRow | None:
    """The job with this number."""
    return next(iter(job_rows(connection, [number])), None)


def open_jobs(connection: sqlite3.Connection, limit: int | None = None) -> list[JobRow]:
    """The jobs that are still open, the held ones first; at most `limit`."""
    rows = connection.execute(
        "select id from (select id, state from jobs where state in ('waiting', 'held')"
        " union all select id, state from jobs where state = 'running') order by state <> 'held', id limit ?",
        (-1 if limit is None else limit,),
    )
    return job_rows(connection, values_of(int, rows))


def jobs_in_state(connection: sqlite3.Connection, state: str, limit: int | None = None) -> list[JobRow]:
    """The jobs in one state; with `limit` only the newest of them."""
    rows = connection.execute(
        "select id from jobs where state = ? order by id desc limit ?",
        (state, -1 if limit is None else limit),
    )
    return job_rows(connection, values_of(int, rows))


def jobs_for_events(connection: sqlite3.Connection, events: Iterable[int]) -> list[JobRow]:
    """The jobs that these events created."""
    rows = connection.execute(
        "select j.id from json_each(?) e join jobs j on j.id between 32 * e.value and 32 * e.value + 31",
        (listed(events),),
    )
    return job_rows(connection, values_of(int, rows))


def newest_job(connection: sqlite3.Connection, held: bool = False) -> int | None:
    """The newest job; with `held`, the newest held one."""
    query = _NEWEST_HELD if held else "select max(id) from jobs"
    return value_of(int, connection.execute(query).fetchone())


_NEWEST_HELD: Final = "select max(+id) from jobs where state in ('waiting', 'held') and state = 'held'"


MOST_JOBS: Final = 1_000
"""Open jobs that are read at once. With more of them it is not known what changed."""


SOON_S: Final = 1.0
"""Seconds within which a waiting job counts as open: it may be done before the next look."""


_OPEN_SOON: Final = (
    "select id, lane, state, tries from jobs where state = 'running'"
    " union all select * from (select id, lane, state, tries from jobs where state in ('waiting', 'held')"
    " and run_after <= ? order by run_after limit ?)"
)


def jobs_soon(connection: sqlite3.Connection, now: float) -> dict[int, tuple[str, str, int]] | None:
    """The jobs that run, are held, or are due soon, by number: lane, state, tries. None if there are too many."""
    rows = connection.execute(_OPEN_SOON, (now + SOON_S, MOST_JOBS + 1)).fetchall()
    return {job: (lane, state, tries) for job, lane, state, tries in rows} if len(rows) <= MOST_JOBS else None


class QueueFigures(NamedTuple):
    """How many jobs wait, run and are held; `oldest_waiting` is since when the oldest could have been done.

    A job that is due later, such as a schedule's, has not been waiting; one that was refused has.
    """

    waiting: int
    running: int
    held: int
    oldest_waiting: float | None


class NextDue(NamedTuple):
    """The job that is due next, and when (Unix seconds)."""

    at: float
    handler: str
    lane: str


def queue_figures(connection: sqlite3.Connection, now: float) -> QueueFigures:
    """The figures of the queue at this time (Unix seconds)."""
    rows = connection.execute(
        "select state, count(*) from jobs where state in ('waiting', 'held') group by state"
        " union all select 'running', count(*) from jobs where state = 'running'"
    )
    # The running ones are counted apart, because each of the two indexes has only some states.
    counts = dict(rows_of(tuple[str, int], rows))
    oldest = connection.execute(
        "select min(iif(j.error is null, max(e.recorded_at, j.run_after), e.recorded_at))"
        " from jobs j join events e on e.seq = j.event"
        " where j.state in ('waiting', 'held') and j.state = 'waiting'"
        " and (j.run_after <= ? or j.error is not null)",
        (now,),
    ).fetchone()
    return QueueFigures(
        counts.get("waiting", 0), counts["running"], counts.get("held", 0), value_of(float, oldest)
    )


def held_by_reason(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """Why jobs are held, with the number for each reason, most common first."""
    rows = connection.execute(
        "select coalesce(error, ''), count(*) from jobs where state in ('waiting', 'held')"
        " and state = 'held' group by 1 order by 2 desc, 1"
    )
    return rows_of(tuple[str, int], rows)


def job_due_next(connection: sqlite3.Connection) -> NextDue | None:
    """The job at the head of its lane that will be due next."""
    row = connection.execute(
        select(
            NextDue,
            "from jobs j where state in ('waiting', 'held')"
            " and state = 'waiting' and run_after > 0 and not exists (select 1 from jobs b"
            "  where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held'))"
            " and not exists (select 1 from jobs b where b.state = 'running' and b.lane = j.lane and +b.id < j.id)"
            " order by run_after, id limit 1",
            at="run_after",
        )
    ).fetchone()
    return row_of(NextDue, row)


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.chains import LaneWaits
    from runward.handlers.model.requests import JobStateOf, ReleaseJob
    from runward.handlers.model.schedules import RingNow

    released = Fold(
        lambda effect: JobStateOf(effect.job), lambda known, effect: known._replace(state=effect.state)
    )
    return Table(
        writes=(INSERT_JOB, FINISH, FINISH_DUE, CLAIM, RELEASE, RING),
        appliers={ReleaseJob: _release, RingNow: _ring},
        answers={
            JobStateOf: _job_states,
            LaneWaits: _waiting_lanes,
        },
        folds={ReleaseJob: (released,)},
        moved_by_steps=(MOVE,),
        goes_with_event=("delete from jobs where id between 32 * ?1 and 32 * ?1 + 31",),
    )
