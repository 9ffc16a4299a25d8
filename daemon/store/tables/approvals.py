"""Approvals: what a person is asked before a step, what was shown, and the answer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.reading import begins
from runward.daemon.store.rows import rows_of, select, value_of
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.approvals import ApprovalStanding, AskApproval, DecideApproval


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


_OPEN_ONES: Final = "where a.status = 'asked' and r.status = 'waiting_approval'"
_OPEN: Final = f"{_OPEN_ONES} order by a.asked_at, a.id limit ?1"


def open_approvals(connection: sqlite3.Connection, limit: int = -1) -> list[ApprovalRow]:
    """What waits for a person, oldest first; at most `limit`, unless that is -1."""
    return rows_of(ApprovalRow, connection.execute(_query(_OPEN), (limit,)))


def open_approvals_of_ids(connection: sqlite3.Connection, ids: Sequence[str]) -> list[ApprovalRow]:
    """Those of these approvals that wait for a person."""
    which = f"{_OPEN_ONES} and a.id in (select value from json_each(?)) order by a.id"  # noqa: S608 # our own words
    return rows_of(ApprovalRow, connection.execute(_query(which), (listed(ids),)))


async def waiting_approvals(store: Reader, most: int) -> list[ApprovalRow]:
    """The same, as the daemon reads it."""
    return rows_of(ApprovalRow, await store.read(_query(_OPEN), (most,)))


def approvals_waiting(connection: sqlite3.Connection) -> int:
    """How many approvals wait for a person."""
    row = connection.execute(
        "select count(*) from approvals a join chain_runs r on r.id = a.run"
        " where a.status = 'asked' and r.status = 'waiting_approval'"
    ).fetchone()
    return value_of(int, row) or 0


def approvals_called(connection: sqlite3.Connection, text: str) -> list[ApprovalRow]:
    """The approvals whose id begins with `text`, and those of chain runs whose id does, oldest first."""
    which = f"where {begins('a.id')} or {begins('a.run')} order by a.asked_at, a.id"
    return rows_of(ApprovalRow, connection.execute(_query(which), (text,)))


def _query(which: str) -> str:
    return select(
        ApprovalRow,
        f"from approvals a join chain_runs r on r.id = a.run {which}",
        "a",
        chain="r.chain",
        definition="r.definition",
        # What expired, or changed meanwhile, is asked again under another id: people see that they were asked before.
        asked_before="(select count(*) from approvals b"
        " where b.run = a.run and b.step = a.step and b.asked_at < a.asked_at)",
        run_status="r.status",
    )


def approvals_of_run(connection: sqlite3.Connection, run: str) -> dict[int, str]:
    """The latest approvals of a chain run, by the numbers of their steps."""
    rows = connection.execute(
        "select step, id from approvals where run = ? order by asked_at, id desc", (run,)
    )
    return dict(rows_of(tuple[int, str], rows))


async def approval_standings(store: Reader, ids: Iterable[str]) -> dict[str, ApprovalStanding]:
    """The current state of these approvals, by id."""
    from runward.handlers.model.approvals import ApprovalStanding

    rows = await store.read(
        select(ApprovalStanding, "from approvals where id in (select value from json_each(?))"),
        (listed(ids),),
    )
    return {each.id: each for each in rows_of(ApprovalStanding, rows)}


async def approved_hosts(
    store: Reader, steps: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], dict[str, str]]:
    """What was approved last for these steps: the hashes of what other hosts start, by run and step."""
    rows = await store.read(
        "select run, step, shown -> 'hosts' from approvals where status = 'approved'"
        " and (run, step) in (select value ->> 0, value ->> 1 from json_each(?)) order by asked_at, id",
        (listed([*steps]),),
    )
    found = rows_of(tuple[str, int, str | None], rows)
    return {(run, step): {} if hosts is None else json.loads(hosts) for run, step, hosts in found}


ASK: Final = Write(
    "insert into approvals (id, run, step, asked_at, expires_at, shown, shown_hash, status) values (?, ?, ?, ?, ?, ?, ?, ?)"
)


DECIDE: Final = Write(
    "update approvals set status = ?, decided_at = ?, note = ?, decided_by = ? where id = ?"
)


def _ask(batch: Batch, job: Job, effect: AskApproval) -> None:
    asked = effect.asked
    facts = (asked.id, asked.run, asked.step, asked.asked_at, asked.expires_at)
    batch.row(ASK, (*facts, stored_json(asked.shown).decode(), asked.shown_hash, asked.status))


def _decide(batch: Batch, job: Job, effect: DecideApproval) -> None:
    batch.row(DECIDE, (effect.decision, effect.at, effect.note, effect.said_by, effect.id))


def _decided(standing: ApprovalStanding | None, effect: DecideApproval) -> ApprovalStanding | None:
    return None if standing is None else standing._replace(status=effect.decision)


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.approvals import ApprovalOf, ApprovedHosts, AskApproval, DecideApproval

    return Table(
        writes=(ASK, DECIDE),
        appliers={AskApproval: _ask, DecideApproval: _decide},
        folds={
            AskApproval: (
                Fold(lambda effect: ApprovalOf(effect.asked.id), lambda approval, effect: effect.asked),
            ),
            DecideApproval: (Fold(lambda effect: ApprovalOf(effect.id), _decided),),
        },
        answers={
            ApprovalOf: answers_by(approval_standings, lambda asked: asked.id),
            ApprovedHosts: answers_by(approved_hosts, lambda asked: (asked.run, asked.step), {}),
        },
        # A deadline is a duration for a person, and not a date: it moves when somebody sets the clock.
        moved_by_steps=(
            "update approvals set expires_at = expires_at + ? where status = 'asked' and expires_at is not null",
        ),
        goes_with_chain_run=("delete from approvals where run = ?",),
    )
