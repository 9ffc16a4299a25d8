"""Chain runs and the tries of their steps."""

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, get_args

from runward.config.json_value import JsonValue, from_stored_json, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.store import Store
from runward.daemon.store.tables.artifacts import OUTCOMES
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import as_float, as_int, listed
from runward.handlers.chains.advancing import WAITS
from runward.handlers.chains.stepping import result_of
from runward.handlers.model.approvals import ApprovalOf, ApprovalStanding, AskApproval, DecideApproval
from runward.handlers.model.chains import (
    MOST_OUTCOMES,
    RUN_STATUSES,
    STEP_STATUSES,
    WAITS_FOR_SLOT,
    ChainFires,
    ChainFiresNow,
    ChainRunOf,
    ChainRunStanding,
    ChainRunStatus,
    LeftBy,
    LeftBySession,
    OpenChainRun,
    OpenRun,
    OpenRunsOf,
    SetChainRun,
    SetChainStatus,
    SetStep,
    SlotsNow,
    SlotsStanding,
    StepResult,
    StepStanding,
    StepStatus,
    Waiter,
    run_after,
    slots_after,
    statuses_before,
)

OPEN: Final = Write(
    "insert into chain_runs (id, chain, event, fired_by, definition, trigger_event, status, reason_code, reason_summary,"
    " current_step, created_at, updated_at, deadline, said_by, depth, turn, cause)"
    " values (?, ?, ?, ?, ?, ?, 'running', 'chain.running.started', 'it was fired', 0, ?, ?, ?, ?, ?, ?, ?)"
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
RUN: Final = Write(
    "update chain_runs set status = ?, reason_code = ?, reason_summary = ?, current_step = ?, updated_at = ? where id = ?"
    " and status in (select value from json_each(?))"
)
"""From one status to the next. It refuses a change that `RUN_STATUSES` does not name."""
_AFTER_RUN: Final = {
    status: listed(statuses_before(RUN_STATUSES, status)) for status in get_args(ChainRunStatus)
}
_AFTER_STEP: Final = {
    status: listed(statuses_before(STEP_STATUSES, status)) for status in get_args(StepStatus)
}
"""What each status may follow, as JSON."""


STATUS: Final = Write(
    "insert into chains (name, status, since, note, said_by) values (?, ?, ?, ?, ?) on conflict (name) do update"
    " set status = excluded.status, since = excluded.since, note = excluded.note, said_by = excluded.said_by"
)


def _status(batch: Batch, job: Job, effect: SetChainStatus) -> None:
    batch.row(STATUS, (effect.chain, effect.status, effect.at, effect.note, effect.said_by))


async def firing(store: Store, chains: Iterable[str]) -> dict[str, ChainFires]:
    """Whether these chains fire, by name, if that was ever set."""
    rows = await store.read(
        "select name, status, since, note, said_by from chains where name in (select value from json_each(?))",
        (listed(chains),),
    )
    return {
        str(name): ChainFires(str(status), as_float(since), str(note), str(said_by))  # type: ignore[arg-type]  # the table checks it
        for name, status, since, note, said_by in rows
    }


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
    result = None if step.result == StepResult() else stored_json(step.result._asdict()).decode()
    facts = (value, step.session_key, outcome, effect.at, _AFTER_STEP[step.status], result)
    batch.row(STEP, (*row, *facts))


def _run(batch: Batch, job: Job, effect: SetChainRun) -> None:
    facts = (effect.status, effect.reason_code, effect.reason_summary, effect.current_step, effect.at)
    batch.row(RUN, (*facts, effect.run, _AFTER_RUN[effect.status]))


async def left(store: Store, asked: Iterable[tuple[str, int]]) -> dict[tuple[str, int], LeftBySession]:
    """What these sessions left when their attempts were judged, by session key and attempt."""
    attempts = [*asked]
    outcomes: dict[str, list[dict[str, JsonValue]]] = {}
    cut: set[str] = set()
    keys = listed({key for key, _ in attempts})
    for key, content, is_cut in await store.read(OUTCOMES, (keys, MOST_OUTCOMES, False)):
        outcomes.setdefault(str(key), []).append(from_stored_json(str(content)))
        cut |= {str(key)} if is_cut else set()
    rows = await store.read(
        "select s.key, a.value ->> 1, s.attempt, s.delivery, s.artifact_verification_json, s.artifacts_path,"
        " s.reason_summary,"
        " e.payload ->> '$.exit_code' from json_each(?) a join sessions s on s.key = a.value ->> 0"
        " left join events e on e.key = s.key || '#' || (a.value ->> 1) || '/ended'",
        (listed(attempts),),
    )
    by_session: dict[tuple[str, int], LeftBySession] = {}
    for key, attempt, now, delivery, verification, path, reason, exit_code in rows:
        known = outcomes.get(str(key), [])
        is_current = now == attempt  # what an earlier attempt delivered was replaced
        result = result_of(
            str(delivery) if is_current and delivery is not None else None,
            from_stored_json(str(verification)) if is_current and verification is not None else None,
            None if exit_code is None else as_int(exit_code),
            str(path),
            None if str(key) in cut else known[:-1],
        )
        why = str(reason) if is_current and reason is not None else None
        by_session[str(key), as_int(attempt)] = LeftBySession(known[-1] if known else None, result, why)
    return by_session


async def standings(store: Store, runs: Iterable[str]) -> dict[str, ChainRunStanding]:
    """The current state of these chain runs, by id."""
    keys = listed(runs)
    steps: dict[str, dict[int, StepStanding]] = {}
    for run, step, attempt, status, reason, session, outcome, result in await store.read(
        "select run, step, attempt, status, reason_code, session_key, outcome, result from chain_steps"
        " where run in (select value from json_each(?)) order by run, step, attempt",
        (keys,),
    ):
        steps.setdefault(str(run), {})[as_int(step)] = StepStanding(
            as_int(step),
            str(status),  # type: ignore[arg-type]  # the table checks it
            None if reason is None else str(reason),
            None if session is None else str(session),
            as_int(attempt),
            None if outcome is None else from_stored_json(str(outcome)),
            StepResult() if result is None else StepResult(**from_stored_json(str(result))),
        )
    rows = await store.read(
        "select id, chain, status, definition, trigger_event, fired_by, reason_code, reason_summary, deadline, said_by,"
        " depth, turn, created_at, cause from chain_runs"
        " where id in (select value from json_each(?))",
        (keys,),
    )
    return {
        str(run): ChainRunStanding(
            str(run),
            str(chain),
            str(status),  # type: ignore[arg-type]  # the table checks it
            json.loads(str(definition)),
            json.loads(str(trigger)),
            str(fired_by),
            str(code),
            str(summary),
            None if deadline is None else as_float(deadline),
            steps.get(str(run), {}),
            str(said_by),
            as_int(depth),
            None if turn is None else str(turn),
            as_float(created_at),
            None if cause is None else json.loads(str(cause)),
        )
        for run, chain, status, definition, trigger, fired_by, code, summary, deadline, said_by, depth, turn, created_at, cause in rows
    }


async def open_runs(store: Store, chains: Iterable[str]) -> dict[str, tuple[OpenRun, ...]]:
    """The runs of these chains that are not over, oldest first, by chain."""
    rows = await store.read(
        "select chain, id, turn, reason_code from chain_runs where status in ('running', 'waiting_approval')"
        " and chain in (select value from json_each(?)) order by created_at, event",
        (listed(chains),),
    )
    by_chain: dict[str, tuple[OpenRun, ...]] = {}
    for chain, run, turn, code in rows:
        each = OpenRun(str(run), None if turn is None else str(turn), code == WAITS)
        by_chain[str(chain)] = (*by_chain.get(str(chain), ()), each)
    return by_chain


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
    "t.directory, t.name, coalesce(iif(json_valid(t.effect), t.effect ->> '$.cwd', null), t.directory) from {} join chain_runs r on r.id = c.run"
    " join starts t on t.session_key = c.session_key where {}"
)
_RUNNING: Final = _PLACES.format(
    "chain_steps c", "c.status in ('running', 'waiting') and c.status = 'running'"
)
_ENDED: Final = _PLACES.format(
    "sessions s join chain_steps c on c.session_key = s.key",
    "s.packed = 0 and s.finished_at is not null and s.finished_at >= ? and c.status <> 'running'",
)


async def places_of_steps(store: Store, since: float) -> list[StepPlaces]:
    """Where the steps work that run now, or whose runs ended at this time (Unix seconds) or later."""
    rows = await store.read(
        f"select c.run, r.depth, c.started_at, null, {_RUNNING}"
        f" union all select c.run, r.depth, c.started_at, s.finished_at, {_ENDED}",
        (since,),
    )
    return [
        StepPlaces(
            *(str(run), as_int(depth), as_float(began), None if ended is None else as_float(ended)),
            *(str(directory), str(name), str(cwd)),
        )
        for run, depth, began, ended, directory, name, cwd in rows
    ]


MOST_WAITERS: Final = 2048
"""Of the steps that wait for a slot, those that a batch of 256 jobs with 1,000 slots can come to."""

WAITERS: Final = (
    "from chain_steps s join chain_runs r on r.id = s.run where s.status in ('running', 'waiting')"  # our own words
    f" and s.status = 'waiting' and s.reason_code = '{WAITS_FOR_SLOT}'"
)


async def slots(store: Store) -> SlotsStanding:
    """Which steps run, and the first of those that wait for a slot."""
    running = await store.read(
        "select run, step from chain_steps where status in ('running', 'waiting') and status = 'running'"
    )
    waiters = await store.read(
        f"select r.created_at, s.run, s.step, s.attempt {WAITERS} order by r.created_at, s.run, s.step limit ?",
        (MOST_WAITERS,),
    )
    return SlotsStanding(
        frozenset((str(run), as_int(step)) for run, step in running),
        tuple(
            Waiter(as_float(fired_at), str(run), as_int(step), as_int(attempt))
            for fired_at, run, step, attempt in waiters
        ),
    )


async def offered(store: Store) -> frozenset[str]:
    """The chain runs that were offered a slot and have not decided on it yet."""
    rows = await store.read(
        "select lane from jobs where state in ('waiting', 'held') and handler = 'chains/offered'"
    )
    return frozenset(str(run) for (run,) in rows)


async def _slots(
    store: Store, asked: Sequence[SlotsNow], jobs: Sequence[Job]
) -> dict[SlotsNow, SlotsStanding]:
    return dict.fromkeys(asked, await slots(store))


CHAIN_RUNS: Final = Table(
    writes=(STATUS, OPEN, STEP, RUN),
    appliers={SetChainStatus: _status, OpenChainRun: _open, SetStep: _step, SetChainRun: _run},
    folds={
        SetChainStatus: (
            Fold(
                lambda effect: ChainFiresNow(effect.chain),
                lambda fires, effect: ChainFires(effect.status, effect.at, effect.note, effect.said_by),
            ),
        ),
        OpenChainRun: (
            Fold(lambda effect: ChainRunOf(effect.run.id), run_after),
            Fold(
                lambda effect: OpenRunsOf(effect.run.chain),
                lambda runs, effect: (*runs, OpenRun(effect.run.id, effect.run.turn, effect.waits)),
            ),
        ),
        SetStep: (
            Fold(lambda effect: ChainRunOf(effect.run), run_after),
            Fold(lambda effect: SlotsNow(), slots_after),
        ),
        SetChainRun: (Fold(lambda effect: ChainRunOf(effect.run), run_after),),
    },
    answers={
        ChainFiresNow: answers_by(firing, lambda asked: asked.chain),
        ChainRunOf: answers_by(standings, lambda asked: asked.run),
        OpenRunsOf: answers_by(open_runs, lambda asked: asked.chain, ()),
        SlotsNow: _slots,
        LeftBy: answers_by(left, lambda asked: (asked.session_key, asked.attempt), LeftBySession()),
    },
    moved_by_steps=(
        "update chain_runs set deadline = deadline + ? where status in ('running', 'waiting_approval')",
    ),
    goes_with_chain_run=("delete from chain_steps where run = ?",),
)


ASK_APPROVAL: Final = Write(
    "insert into approvals (id, run, step, asked_at, expires_at, shown, shown_hash, status) values (?, ?, ?, ?, ?, ?, ?, 'asked')"
)
DECIDE_APPROVAL: Final = Write(
    "update approvals set status = ?, decided_at = ?, note = ?, decided_by = ? where id = ?"
)


def _ask(batch: Batch, job: Job, effect: AskApproval) -> None:
    asked = effect.asked
    shown = stored_json(asked.shown).decode()
    facts = (asked.id, asked.run, asked.step, asked.asked_at, asked.expires_at, shown, asked.shown_hash)
    batch.row(ASK_APPROVAL, facts)


def _decide(batch: Batch, job: Job, effect: DecideApproval) -> None:
    batch.row(DECIDE_APPROVAL, (effect.decision, effect.at, effect.note, effect.said_by, effect.id))


async def approval_standings(store: Store, ids: Iterable[str]) -> dict[str, ApprovalStanding]:
    """The current state of these approvals, by id."""
    rows = await store.read(
        "select id, run, step, status, shown_hash, expires_at, shown, asked_at from approvals where id in (select value from json_each(?))",
        (listed(ids),),
    )
    return {
        str(approval): ApprovalStanding(
            str(approval),
            str(run),
            as_int(step),
            str(status),  # type: ignore[arg-type]  # the table checks it
            str(digest),
            None if expires is None else as_float(expires),
            from_stored_json(str(shown)),
            as_float(asked),
        )
        for approval, run, step, status, digest, expires, shown, asked in rows
    }


def _decided(standing: ApprovalStanding | None, effect: DecideApproval) -> ApprovalStanding | None:
    return None if standing is None else standing._replace(status=effect.decision)


APPROVALS: Final = Table(
    writes=(ASK_APPROVAL, DECIDE_APPROVAL),
    appliers={AskApproval: _ask, DecideApproval: _decide},
    folds={
        AskApproval: (
            Fold(lambda effect: ApprovalOf(effect.asked.id), lambda approval, effect: effect.asked),
        ),
        DecideApproval: (Fold(lambda effect: ApprovalOf(effect.id), _decided),),
    },
    answers={ApprovalOf: answers_by(approval_standings, lambda asked: asked.id)},
    moved_by_steps=(
        "update approvals set expires_at = expires_at + ? where status = 'asked' and expires_at is not null",
    ),
    goes_with_chain_run=("delete from approvals where run = ?",),
)
