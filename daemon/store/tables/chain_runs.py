"""Chain runs and the tries of their steps."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.reading import begins
from runward.daemon.store.rows import columns, groups_of, rows_of, select, value_of, values_of
from runward.daemon.store.tables.artifacts import OUTCOMES
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.chains import (
        ChainRunStanding,
        LeftBySession,
        OpenChainRun,
        OpenRun,
        SayMore,
        SetChainRun,
        SetStep,
        SlotsStanding,
        StepResult,
    )


class ChainRunRow(NamedTuple):
    """A chain run. Times are Unix seconds; `trigger_event` and `definition` are JSON texts."""

    id: str
    chain: str
    fired_by: str
    status: str
    reason_code: str
    reason_summary: str
    current_step: int
    created_at: float
    updated_at: float
    deadline: float | None
    trigger_event: str
    definition: str
    depth: int

    def as_json(self) -> dict[str, JsonValue]:
        """A chain run as it appears in lists."""
        return {
            "chain_run_id": self.id,
            "chain": self.chain,
            "status": self.status,
            "reason": {"code": self.reason_code, "summary": self.reason_summary},
            "current_step": self.current_step,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


class ChainStepRow(NamedTuple):
    """A try of a step of a chain run; `value` and `outcome` are JSON texts, `delivery` is its session's.

    If another host took it: that `host`, the id of the session there, when it took it (by the clock of the fleet's database), and whether
    it began there, as far as is known here (`yes`, `no`, `unknown`)."""

    step: int
    attempt: int
    status: str
    reason_code: str | None
    reason_summary: str | None
    value: str | None
    session_key: str | None
    outcome: str | None
    started_at: float
    finished_at: float | None
    delivery: str | None
    host: str | None
    remote_session: str | None
    taken_at: float | None
    began_there: str | None


_BEING_SHOWN: Final = "what a person will be shown is being put together"
_IS_ASKED: Final = "exists (select 1 from approvals a where a.run = r.id and a.status = 'asked')"
_STATUS: Final = (
    f"case when r.status = 'waiting_approval' and not {_IS_ASKED} then 'running' else r.status end"
)
"""A chain run waits for a person once there is something to approve. Until then files are hashed in the background."""

_COLUMNS: Final = columns(
    ChainRunRow,
    "r",
    status=_STATUS,
    reason_code=f"case when r.status <> {_STATUS} then 'chain.running.started' else r.reason_code end",
    reason_summary=f"case when r.status <> {_STATUS} then '{_BEING_SHOWN}' else r.reason_summary end",
)
_STEP_STATUS: Final = (
    "case when c.status = 'waiting_approval' and not exists (select 1 from approvals a where a.run = c.run"
    " and a.step = c.step and a.status = 'asked') then 'waiting' else c.status end"
)


def chain_runs(
    connection: sqlite3.Connection,
    chain: str | None,
    status: str | None,
    since: float | None,
    limit: int,
    after: tuple[float, str] | None = None,
) -> list[ChainRunRow]:
    """The chain runs that are wanted, newest first; `limit` -1 for all. `after`: the time and the id of the one before."""
    at, key = after or (None, None)
    # A condition that is not needed is left out: with `or ? is null` SQLite would not use the index.
    chosen = (
        ("" if chain is None else " and chain = :chain")
        + ("" if since is None else " and created_at >= :since")
        + ("" if at is None else " and created_at <= :at and (created_at < :at or id > :key)")
    )
    rows = connection.execute(
        f"select {_COLUMNS} from chain_runs r where (:status is null or {_STATUS} = :status)"  # noqa: S608 # our own words
        f"{chosen} order by created_at desc, id limit :limit",
        {"chain": chain, "status": status, "since": since, "at": at, "key": key, "limit": limit},
    )
    return rows_of(ChainRunRow, rows)


def open_chain_runs(connection: sqlite3.Connection) -> list[ChainRunRow]:
    """The chain runs that are not over, newest first."""
    rows = connection.execute(
        f"select {_COLUMNS} from chain_runs r where r.status in ('running', 'waiting_approval')"  # noqa: S608 # our own words
        " order by created_at desc, id"
    )
    return rows_of(ChainRunRow, rows)


def chain_runs_called(connection: sqlite3.Connection, text: str, limit: int) -> list[ChainRunRow]:
    """The chain runs whose id begins with `text`."""
    rows = connection.execute(
        f"select {_COLUMNS} from chain_runs r where {begins('id')} order by id limit ?2",  # noqa: S608 # our own words
        (text, limit),
    )
    return rows_of(ChainRunRow, rows)


def chain_steps(connection: sqlite3.Connection, run: str) -> list[ChainStepRow]:
    """The tries of the steps of a chain run, in order."""
    return [*steps_of_runs(connection, [run]).get(run, ())]


def run_of_remote_session(connection: sqlite3.Connection, session: str) -> str | None:
    """The chain run with a step whose session has this id on another host."""
    query = "select run from chain_steps where result ->> '$.session' = ? limit 1"
    return value_of(str, connection.execute(query, (session,)).fetchone())


def agents_of_runs(connection: sqlite3.Connection, runs: Sequence[str]) -> dict[str, str]:
    """The chain runs, by the keys of the agents' sessions that were started in their steps, and of their sub-agents'."""
    return dict(
        connection.execute(
            "with recursive inside as (select l.linked, s.run from chain_steps s"
            " join links l on l.launcher = s.session_key where s.run in (select value from json_each(?))"
            " union select l.linked, inside.run from inside join links l on l.launcher = inside.linked)"
            " select linked, run from inside",
            (listed(runs),),
        )
    )


def steps_of_runs(
    connection: sqlite3.Connection, runs: Sequence[str]
) -> Mapping[str, Sequence[ChainStepRow]]:
    """The tries of the steps of these chain runs, in order, by the runs' ids."""
    query = select(
        ChainStepRow,
        "from chain_steps c left join sessions s on s.key = c.session_key"
        " where c.run in (select value from json_each(?)) order by c.run, c.step, c.attempt",
        "c",
        by="c.run",
        status=_STEP_STATUS,
        delivery="coalesce(s.delivery, c.result ->> '$.delivery')",
        host="c.result ->> '$.host'",
        remote_session="c.result ->> '$.session'",
        taken_at="c.result ->> '$.taken_at'",
        began_there="c.result ->> '$.began_there'",
    )
    return groups_of(ChainStepRow, connection.execute(query, (listed(runs),)))


def name_of_cause(connection: sqlite3.Connection, run: str) -> str:
    """The name of the event that fired a chain run, as in `pr.opened`."""
    row = connection.execute(
        "select e.payload ->> 'event' from chain_runs r join events e on e.seq = r.event where r.id = ?",
        (run,),
    ).fetchone()
    return value_of(str, row) or ""


def last_runs(connection: sqlite3.Connection) -> dict[str, ChainRunRow]:
    """The newest run of each chain, by the chain's name."""
    rows = connection.execute(
        # From one name to the next, because `distinct` would read the whole index.
        "with recursive c (chain) as (select min(chain) from chain_runs union all"  # noqa: S608 # our own words
        " select (select min(chain) from chain_runs where chain > c.chain) from c where c.chain is not null)"
        f" select {_COLUMNS} from c join chain_runs r on r.id = ("
        " select id from chain_runs x where x.chain = c.chain order by x.created_at desc, x.id limit 1)"
    )
    return {each.chain: each for each in rows_of(ChainRunRow, rows)}


def runs_by_status(connection: sqlite3.Connection) -> dict[str, JsonValue]:
    """How many chain runs have each status that is shown."""
    counts: Counter[str] = Counter(dict(connection.execute("select status, runs from chain_run_counts")))
    (asked,) = connection.execute(
        "select count(distinct a.run) from approvals a join chain_runs r on r.id = a.run"
        " where a.status = 'asked' and r.status = 'waiting_approval'"
    ).fetchone()
    counts["running"] += counts["waiting_approval"] - asked
    counts["waiting_approval"] = asked
    return {status: counts[status] for status in sorted(counts) if counts[status]}


def steps_by_standing(connection: sqlite3.Connection) -> dict[str, JsonValue]:
    """How many steps run, and how many wait for a slot, for their run's turn, or for their next try."""
    rows = connection.execute(
        "select status, count(*) from chain_steps where status in ('running', 'waiting') group by status"
    )
    return {"running": 0, "waiting": 0, **dict(rows)}


async def standings(store: Reader, runs: Iterable[str]) -> dict[str, ChainRunStanding]:
    """The current state of these chain runs, by id."""
    from runward.handlers.model.chains import ChainRunStanding, StepStanding

    keys = listed(runs)
    steps = await store.read(
        select(
            StepStanding,
            # Of several tries of a step, the last one stands: later rows replace earlier ones below.
            "from chain_steps where run in (select value from json_each(?)) order by run, step, attempt",
            by="run",
            reason="reason_code",
        ),
        (keys,),
    )
    of_run = groups_of(StepStanding, steps, result=_result)
    rows = await store.read(
        select(
            ChainRunStanding,
            "from chain_runs where id in (select value from json_each(?))",
            trigger="trigger_event",
            steps="'{}'",
        ),
        (keys,),
    )
    return {
        each.id: each._replace(steps={step.step: step for step in of_run.get(each.id, ())})
        for each in rows_of(ChainRunStanding, rows)
    }


def _result(text: str | None) -> StepResult:
    from runward.handlers.model.chains import StepResult

    return StepResult() if text is None else StepResult(**json.loads(text))


async def open_runs(store: Reader, chains: Iterable[str]) -> dict[str, tuple[OpenRun, ...]]:
    """The runs of these chains that are not over, oldest first, by chain."""
    from runward.handlers.chains.advancing import WAITS
    from runward.handlers.model.chains import OpenRun

    which = (
        "from chain_runs where status in ('running', 'waiting_approval')"
        " and chain in (select value from json_each(?)) order by created_at, event"
    )
    query = select(OpenRun, which, by="chain", waits=f"reason_code = '{WAITS}'")
    return groups_of(OpenRun, await store.read(query, (listed(chains),)))


class _Judged(NamedTuple):
    """A session with an attempt that was judged. `now` is the session's last attempt."""

    key: str
    attempt: int
    now: int
    delivery: str | None
    verification: JsonValue
    path: str
    reason: str | None
    exit_code: int | None


async def left(store: Reader, asked: Iterable[tuple[str, int]]) -> dict[tuple[str, int], LeftBySession]:
    """What these sessions left when their attempts were judged, by session key and attempt."""
    from runward.handlers.chains.stepping import result_of
    from runward.handlers.model.chains import MOST_OUTCOMES, LeftBySession

    attempts = [*asked]
    keys = listed({key for key, _ in attempts})
    # Read together for all sessions of the batch, and bounded: an agent may leave as much as it likes.
    outcomes = groups_of(
        tuple[dict[str, JsonValue], bool], await store.read(OUTCOMES, (keys, MOST_OUTCOMES, False))
    )
    rows = await store.read(
        select(
            _Judged,
            "from json_each(?) a join sessions s on s.key = a.value ->> 0"
            " left join events e on e.key = s.key || '#' || (a.value ->> 1) || '/ended'",
            "s",
            attempt="a.value ->> 1",
            now="s.attempt",
            verification="s.artifact_verification_json",
            path="s.artifacts_path",
            reason="s.reason_summary",
            exit_code="e.payload ->> '$.exit_code'",
        ),
        (listed(attempts),),
    )
    by_session: dict[tuple[str, int], LeftBySession] = {}
    for each in rows_of(_Judged, rows):
        known = [outcome for outcome, _ in outcomes.get(each.key, ())]
        is_cut = any(is_cut for _, is_cut in outcomes.get(each.key, ()))
        is_current = each.now == each.attempt  # what an earlier attempt delivered was replaced
        result = result_of(
            each.delivery if is_current else None,
            each.verification if is_current else None,
            each.exit_code,
            each.path,
            None if is_cut else known[:-1],
        )
        why = each.reason if is_current else None
        by_session[each.key, each.attempt] = LeftBySession(known[-1] if known else None, result, why)
    return by_session


class StepPlaces(NamedTuple):
    """Where a step works: its run directory, and where its command was started; and from when to when (None: it runs).

    `name` is that of its run, after which its worktree is named. `depth` is that of its chain run.
    """

    run: str
    depth: int
    began_at: float
    ended_at: float | None
    directory: str
    name: str
    cwd: str


_PLACES: Final = (
    "from {} join chain_runs r on r.id = c.run join starts t on t.session_key = c.session_key where {}"
)
_RUNNING: Final = _PLACES.format(
    "chain_steps c", "c.status in ('running', 'waiting') and c.status = 'running'"
)
_ENDED: Final = _PLACES.format(
    "sessions s join chain_steps c on c.session_key = s.key",
    "s.packed = 0 and s.finished_at is not null and s.finished_at >= ? and c.status <> 'running'",
)


async def places_of_steps(store: Reader, since: float) -> list[StepPlaces]:
    """Where the steps work that run now, or whose runs ended at this time (Unix seconds) or later."""
    cwd = "coalesce(iif(json_valid(t.effect), t.effect ->> '$.cwd', null), t.directory)"
    facts = {"run": "c.run", "depth": "r.depth", "began_at": "c.started_at", "cwd": cwd}
    running = select(StepPlaces, _RUNNING, "t", ended_at="null", **facts)
    ended = select(StepPlaces, _ENDED, "t", ended_at="s.finished_at", **facts)
    return rows_of(StepPlaces, await store.read(f"{running} union all {ended}", (since,)))


OF_A_JOB: Final = 4
"""Steps that wait for a slot and that a job can come to, apart from those for which slots are free."""


async def slots(store: Reader, limit: int, jobs: int = 0) -> SlotsStanding:
    """Which steps run, and of those that wait for one of `limit` slots the first: as many as these jobs can come to."""
    from runward.handlers.model.chains import RUNS_ELSEWHERE, WAITS_FOR_SLOT, SlotsStanding, Waiter

    # Both conditions on the status: the first is that of the index, which SQLite uses only if its own words stand here.
    running = await store.read(
        "select run, step from chain_steps where status in ('running', 'waiting') and status = 'running'"
        " and reason_code is not ?",
        (RUNS_ELSEWHERE,),
    )
    # Hundreds may wait, and each job asks anew.
    most = max(0, limit - len(running)) + OF_A_JOB * jobs
    waiters = await store.read(
        select(
            Waiter,
            "from chain_steps s join chain_runs r on r.id = s.run where s.status in ('running', 'waiting')"
            f" and s.status = 'waiting' and s.reason_code = '{WAITS_FOR_SLOT}'"
            " order by r.created_at, s.run, s.step limit ?",
            "s",
            fired_at="r.created_at",
        ),
        (most,),
    )
    return SlotsStanding(frozenset(rows_of(tuple[str, int], running)), tuple(rows_of(Waiter, waiters)))


async def offered(store: Reader) -> frozenset[str]:
    """The chain runs that were offered a slot and have not decided on it yet."""
    rows = await store.read(
        "select lane from jobs indexed by jobs_offered where state in ('waiting', 'held') and handler = 'chains/offered'"
    )
    return frozenset(values_of(str, rows))


OPEN: Final = Write(
    "insert into chain_runs (id, chain, event, fired_by, definition, trigger_event, status, reason_code, reason_summary,"
    " current_step, created_at, updated_at, deadline, said_by, depth, turn, cause)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)"
)
STEP: Final = Write(
    "insert into chain_steps (run, step, attempt, status, reason_code, reason_summary, value, session_key, outcome,"
    " started_at, finished_at, result) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, case when ?4 in ('running', 'waiting', 'waiting_approval') then null else ?10 end, ?12)"
    " on conflict (run, step, attempt) do update set status = excluded.status, reason_code = excluded.reason_code,"
    " reason_summary = excluded.reason_summary, outcome = excluded.outcome, result = excluded.result, finished_at = excluded.finished_at,"
    " started_at = case excluded.status when 'running' then excluded.started_at else started_at end,"
    " value = coalesce(excluded.value, value), session_key = coalesce(excluded.session_key, session_key)"
    " where chain_steps.status in (select value from json_each(?11))"
)
MORE: Final = Write(
    "update chain_steps set reason_summary = ?, result = ? where run = ? and step = ? and attempt = ? and status = ?"
)
RUN: Final = Write(
    "update chain_runs set status = ?, reason_code = ?, reason_summary = ?, current_step = ?, updated_at = ? where id = ?"
    " and status in (select value from json_each(?))"
)
"""From one status to the next. It refuses a change that `RUN_STATUSES` does not name."""


@cache
def _before_run() -> Mapping[str, str]:
    """Which statuses of a run each status may follow, as JSON."""
    from runward.handlers.model.chains import RUN_STATUSES, ChainRunStatus, statuses_before

    return {status: listed(statuses_before(RUN_STATUSES, status)) for status in get_args(ChainRunStatus)}


@cache
def _before_step() -> Mapping[str, str]:
    """The same of steps."""
    from runward.handlers.model.chains import STEP_STATUSES, StepStatus, statuses_before

    return {status: listed(statuses_before(STEP_STATUSES, status)) for status in get_args(StepStatus)}


def _open(batch: Batch, job: Job, effect: OpenChainRun) -> None:
    run = effect.run
    batch.row(
        OPEN,
        (
            run.id,
            run.chain,
            job.seq,
            run.fired_by,
            stored_json(run.definition).decode(),
            stored_json(run.trigger).decode(),
            run.status,
            run.reason_code,
            run.reason_summary,
            run.created_at,
            run.created_at,
            run.deadline,
            run.said_by,
            run.depth,
            run.turn,
            None if run.cause is None else stored_json(run.cause).decode(),
        ),
    )


def _step(batch: Batch, job: Job, effect: SetStep) -> None:
    value = None if effect.value is None else stored_json(effect.value).decode()
    step = effect.standing
    outcome = None if step.outcome is None else stored_json(step.outcome).decode()
    row = (effect.run, step.step, step.attempt, step.status, step.reason, effect.reason_summary)
    facts = (value, step.session_key, outcome, effect.at, _before_step()[step.status], _stored(step.result))
    batch.row(STEP, (*row, *facts))


def _stored(result: StepResult) -> str | None:
    """Without what is as usual."""
    from runward.handlers.model.chains import StepResult

    usual = StepResult()._asdict()
    told = {name: value for name, value in result._asdict().items() if value != usual[name]}
    return stored_json(told).decode() if told else None


def _more(batch: Batch, job: Job, effect: SayMore) -> None:
    step = effect.standing
    place = (effect.run, step.step, step.attempt, step.status)
    batch.row(MORE, (effect.reason_summary, _stored(step.result), *place))


def _run(batch: Batch, job: Job, effect: SetChainRun) -> None:
    facts = (effect.status, effect.reason_code, effect.reason_summary, effect.current_step, effect.at)
    batch.row(RUN, (*facts, effect.run, _before_run()[effect.status]))


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.chains import (
        ChainRunOf,
        LeftBy,
        LeftBySession,
        OpenChainRun,
        OpenRun,
        OpenRunsOf,
        SayMore,
        SetChainRun,
        SetStep,
        SlotsNow,
        run_after,
        slots_after,
    )

    def open_after(runs: tuple[OpenRun, ...], effect: OpenChainRun) -> tuple[OpenRun, ...]:
        return (*runs, OpenRun(effect.run.id, effect.run.turn, effect.waits))

    return Table(
        writes=(OPEN, STEP, MORE, RUN),
        appliers={OpenChainRun: _open, SetStep: _step, SayMore: _more, SetChainRun: _run},
        folds={
            OpenChainRun: (
                Fold(lambda effect: ChainRunOf(effect.run.id), run_after),
                Fold(lambda effect: OpenRunsOf(effect.run.chain), open_after),
            ),
            SetStep: (
                Fold(lambda effect: ChainRunOf(effect.run), run_after),
                Fold(lambda effect: SlotsNow(), slots_after),
            ),
            SayMore: (Fold(lambda effect: ChainRunOf(effect.run), run_after),),
            SetChainRun: (Fold(lambda effect: ChainRunOf(effect.run), run_after),),
        },
        answers={
            ChainRunOf: answers_by(standings, lambda asked: asked.run),
            OpenRunsOf: answers_by(open_runs, lambda asked: asked.chain, ()),
            LeftBy: answers_by(left, lambda asked: (asked.session_key, asked.attempt), LeftBySession()),
        },
        moved_by_steps=(
            "update chain_runs set deadline = deadline + ? where status in ('running', 'waiting_approval')",
        ),
        goes_with_chain_run=("delete from chain_steps where run = ?",),
        # Later steps take the paths of files from what earlier ones left. The definition stays: a run keeps it to its end.
        moved=("update chain_steps set result = moved_json(result)",),
    )
