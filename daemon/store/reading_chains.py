"""What chains did, as commands read it from the store."""

import json
import sqlite3
from collections import Counter
from typing import Final, Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store.reading import begins
from runward.handlers.times import iso


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
    """A try of a step of a chain run; `value` and `outcome` are JSON texts, `delivery` is its session's."""

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


_BEING_SHOWN = "what a person will be shown is being put together"
_IS_ASKED = "exists (select 1 from approvals a where a.run = r.id and a.status = 'asked')"
_STATUS = f"case when r.status = 'waiting_approval' and not {_IS_ASKED} then 'running' else r.status end"  # our own words
"""A chain run waits for a person once there is something to approve. Until then files are hashed in the background."""

_COLUMNS = ", ".join(
    {
        "status": _STATUS,
        "reason_code": f"case when r.status <> {_STATUS} then 'chain.running.started' else r.reason_code end",
        "reason_summary": f"case when r.status <> {_STATUS} then '{_BEING_SHOWN}' else r.reason_summary end",
    }.get(name, f"r.{name}")
    for name in ChainRunRow._fields
)
_STEP_STATUS = (
    "case when c.status = 'waiting_approval' and not exists (select 1 from approvals a where a.run = c.run"
    " and a.step = c.step and a.status = 'asked') then 'waiting' else c.status end"
)
_STEP_COLUMNS = ", ".join(
    {"status": _STEP_STATUS, "delivery": "s.delivery"}.get(name, f"c.{name}") for name in ChainStepRow._fields
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
    return [ChainRunRow(*row) for row in rows]


MOST_SEARCHED: Final = 50_000
"""Chain runs, invocations or sessions that one search of a page looks at."""


def search_end(
    connection: sqlite3.Connection,
    table: Literal["chain_runs", "invocations", "sessions"],
    before: float | None,
    chain: str | None = None,
) -> float | None:
    """The time up to which a search reads that begins at the time `before`; None if it reads all that is older."""
    began = "started_at" if table == "sessions" else "created_at"
    chosen = ("" if before is None else f" and {began} < :before") + (
        "" if chain is None else " and chain = :chain"
    )
    row = connection.execute(
        f"select {began} from {table} where true{chosen} order by {began} desc limit 1 offset :most - 1",  # noqa: S608 # our own words
        {"before": before, "chain": chain, "most": MOST_SEARCHED},
    ).fetchone()
    return None if row is None else float(row[0])


def chain_runs_called(connection: sqlite3.Connection, text: str, limit: int) -> list[ChainRunRow]:
    """The chain runs whose id begins with `text`."""
    rows = connection.execute(
        f"select {_COLUMNS} from chain_runs r where {begins('id')} order by id limit ?2",  # noqa: S608 # our own words
        (text, limit),
    )
    return [ChainRunRow(*row) for row in rows]


def chain_steps(connection: sqlite3.Connection, run: str) -> list[ChainStepRow]:
    """The tries of the steps of a chain run, in order."""
    rows = connection.execute(
        f"select {_STEP_COLUMNS} from chain_steps c"  # noqa: S608 # our own words
        " left join sessions s on s.key = c.session_key where c.run = ? order by c.step, c.attempt",
        (run,),
    )
    return [ChainStepRow(*row) for row in rows]


def name_of_cause(connection: sqlite3.Connection, run: str) -> str:
    """The name of the event that fired a chain run, as in `pr.opened`."""
    (name,) = connection.execute(
        "select e.payload ->> 'event' from chain_runs r join events e on e.seq = r.event where r.id = ?",
        (run,),
    ).fetchone()
    return str(name)


class ChainStatusRow(NamedTuple):
    """Whether a chain is enabled, since when (Unix seconds), and who decided that."""

    status: str
    since: float
    note: str
    said_by: str


def chain_statuses(connection: sqlite3.Connection) -> dict[str, ChainStatusRow]:
    """Every chain status that was ever set, by the chains' names."""
    rows = connection.execute("select name, status, since, note, said_by from chains")
    return {name: ChainStatusRow(*row) for name, *row in rows}


class HeldRow(NamedTuple):
    """An event held for the composite trigger of a chain: when it happened, and which items it is meant for."""

    event: str
    event_id: str
    at: float
    items: tuple[int, ...]
    trigger: str


def held_events(connection: sqlite3.Connection, chain: str) -> list[HeldRow]:
    """What is held for the composite trigger of a chain, oldest first."""
    rows = connection.execute(
        "select event, event_id, at, items, trigger_hash from held_events where chain = ? order by id",
        (chain,),
    )
    return [
        HeldRow(event, known, at, tuple(json.loads(items)), digest)
        for event, known, at, items, digest in rows
    ]


def last_runs(connection: sqlite3.Connection) -> dict[str, ChainRunRow]:
    """The newest run of each chain, by the chain's name."""
    rows = connection.execute(
        # From one name to the next, because `distinct` would read the whole index.
        "with recursive c (chain) as (select min(chain) from chain_runs union all"  # noqa: S608 # our own words
        " select (select min(chain) from chain_runs where chain > c.chain) from c where c.chain is not null)"
        f" select {_COLUMNS} from c join chain_runs r on r.id = ("
        " select id from chain_runs x where x.chain = c.chain order by x.created_at desc, x.id limit 1)"
    )
    return {row[1]: ChainRunRow(*row) for row in rows}


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


class ApprovalRow(NamedTuple):
    """An approval. Times are Unix seconds; `shown` and `definition` are JSON texts."""

    id: str
    run: str
    step: int
    status: str
    shown: str
    shown_hash: str
    asked_at: float
    expires_at: float | None
    decided_by: str | None
    note: str | None
    chain: str
    definition: str
    asked_before: int
    run_status: str

    def step_id(self) -> str:
        """The id of the step that waits."""
        step = json.loads(self.definition)["steps"][self.step]
        return str(step.get("id", f"step{self.step}"))

    def as_json(self) -> dict[str, JsonValue]:
        """An approval, with all that it is bound to."""
        from runward.handlers.left_files import unbound

        return {
            "approval_id": self.id,
            "chain_run_id": self.run,
            "chain": self.chain,
            "step": {"index": self.step, "id": self.step_id()},
            "shown_hash": self.shown_hash,
            "shown": json.loads(self.shown),
            "asked_at": iso(self.asked_at),
            "expires_at": None if self.expires_at is None else iso(self.expires_at),
            "asked_before": self.asked_before,
            "not_covered": [
                {"path": path, "why": what} for path, what in unbound(json.loads(self.shown)).items()
            ],
        }


_APPROVALS = (
    "select a.id, a.run, a.step, a.status, a.shown, a.shown_hash, a.asked_at, a.expires_at, a.decided_by, a.note,"
    " r.chain, r.definition, (select count(*) from approvals b where b.run = a.run and b.step = a.step and"
    " b.asked_at < a.asked_at), r.status from approvals a join chain_runs r on r.id = a.run"
)


def open_approvals(connection: sqlite3.Connection, limit: int = -1) -> list[ApprovalRow]:
    """What waits for a person, oldest first; at most `limit`, unless that is -1."""
    rows = connection.execute(
        f"{_APPROVALS} where a.status = 'asked' and r.status = 'waiting_approval' order by a.asked_at, a.id limit ?",
        (limit,),
    )
    return [ApprovalRow(*row) for row in rows]


def approvals_waiting(connection: sqlite3.Connection) -> int:
    """How many approvals wait for a person."""
    (number,) = connection.execute(
        "select count(*) from approvals a join chain_runs r on r.id = a.run"
        " where a.status = 'asked' and r.status = 'waiting_approval'"
    ).fetchone()
    return int(number)


def approvals_called(connection: sqlite3.Connection, text: str) -> list[ApprovalRow]:
    """The approvals whose id begins with `text`, and those of chain runs whose id does, oldest first."""
    rows = connection.execute(
        f"{_APPROVALS} where {begins('a.id')} or {begins('a.run')} order by a.asked_at, a.id",
        (text,),
    )
    return [ApprovalRow(*row) for row in rows]


def approvals_of_run(connection: sqlite3.Connection, run: str) -> dict[int, str]:
    """The latest approvals of a chain run, by the numbers of their steps."""
    rows = connection.execute(
        "select step, id from approvals where run = ? order by asked_at, id desc", (run,)
    )
    return dict(rows)


class FiringRow(NamedTuple):
    """The result of a firing of a chain. Times are Unix seconds."""

    chain: str
    at: float
    fired_by: str
    event: str
    result: str
    why: str
    run: str | None
    due_at: float | None


class ScheduleRow(NamedTuple):
    """When a chain is due next: `due` is None if nothing more comes, `since` is when its times were first read."""

    since: float
    due: float | None
    runs: int


_FIRING = ", ".join(FiringRow._fields)


def schedules(connection: sqlite3.Connection) -> dict[str, ScheduleRow]:
    """All schedules that a daemon waits for, by chain."""
    rows = connection.execute("select chain, since, due, runs from schedules where words is not null")
    return {chain: ScheduleRow(*row) for chain, *row in rows}


def last_firing(
    connection: sqlite3.Connection, chain: str, *, is_scheduled: bool = False
) -> FiringRow | None:
    """The result of the last firing of a chain, or the last one of its schedule."""
    rows = connection.execute(
        f"select {_FIRING} from firings where chain = ? and (due_at is not null or not ?) order by at desc, id desc limit 1",  # noqa: S608 # our own words
        (chain, is_scheduled),
    )
    return next((FiringRow(*row) for row in rows), None)


def newest_firings(connection: sqlite3.Connection, chain: str, limit: int) -> list[FiringRow]:
    """What became of the newest firings of a chain, the newest first."""
    rows = connection.execute(
        f"select {_FIRING} from firings where chain = ? order by at desc, id desc limit ?",  # noqa: S608 # our own words
        (chain, limit),
    )
    return [FiringRow(*row) for row in rows]
