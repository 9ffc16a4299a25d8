"""Approvals: what people see before a step runs, and what they decided."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pydantic_core import from_json, to_json

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.values import as_float, as_int, listed
from runward.handlers.model.approvals import ApprovalOf, ApprovalStanding, AskApproval, DecideApproval

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

ASK: Final = Write(
    "insert into approvals (id, run, step, asked_at, expires_at, shown, shown_hash, status) values (?, ?, ?, ?, ?, ?, ?, 'asked')"
)
DECIDE: Final = Write(
    "update approvals set status = ?, decided_at = ?, note = ?, decided_by = ? where id = ?"
)


def _ask(batch: "Batch", job: Job, effect: AskApproval) -> None:
    shown = to_json(effect.shown).decode()
    batch.row(
        ASK, (effect.id, effect.run, effect.step, effect.at, effect.expires_at, shown, effect.shown_hash)
    )


def _decide(batch: "Batch", job: Job, effect: DecideApproval) -> None:
    batch.row(DECIDE, (effect.decision, effect.at, effect.note, effect.said_by, effect.id))


async def standings(store: Store, ids: Iterable[str]) -> dict[str, ApprovalStanding]:
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
            from_json(str(shown)),
            as_float(asked),
        )
        for approval, run, step, status, digest, expires, shown, asked in rows
    }


def _asked(standing: ApprovalStanding | None, effect: AskApproval) -> ApprovalStanding:
    return ApprovalStanding(
        *(effect.id, effect.run, effect.step, "asked", effect.shown_hash, effect.expires_at, effect.shown),
        asked_at=effect.at,
    )


def _decided(standing: ApprovalStanding | None, effect: DecideApproval) -> ApprovalStanding | None:
    return None if standing is None else standing._replace(status=effect.decision)


APPROVALS: Final = Table(
    writes=(ASK, DECIDE),
    appliers={AskApproval: _ask, DecideApproval: _decide},
    folds={
        AskApproval: (Fold(lambda effect: ApprovalOf(effect.id), _asked),),
        DecideApproval: (Fold(lambda effect: ApprovalOf(effect.id), _decided),),
    },
    answers={ApprovalOf: answers_by(standings, lambda asked: asked.id)},
    moved_by_steps=(
        "update approvals set expires_at = expires_at + ? where status = 'asked' and expires_at is not null",
    ),
    goes_with_chain_run=("delete from approvals where run = ?",),
)
