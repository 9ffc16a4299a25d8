"""The sessions with their attempts and the history of their status."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from runward.config.root import NATIVE
from runward.daemon.store.store import Store
from runward.daemon.store.tables import artifacts
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.transaction import as_float, listed
from runward.handlers.model.files import Produced
from runward.handlers.model.invocations import LinkSession
from runward.handlers.model.sessions import (
    EndAttempt,
    EvidenceRef,
    FoldContract,
    HoldToLaunch,
    OpenAttempt,
    OpenSession,
    RefuseFold,
    Session,
    SessionOf,
    WorkingDirectoryOf,
)
from runward.handlers.sessions.fold import fold
from runward.handlers.sessions.late import CORRECTED_WITHIN, Lacking, lacking

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at,"
    " reason_code, reason_summary, evidence_refs, playbook, agent, invocation_id, containment,"
    " artifacts_path, artifact_contract_json, contract_basis, contract_problem)"
    " values (?, ?, ?, ?, ?, ?, 'running', 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

PLACE: Final = Write(
    "update sessions set root = c.root, path = r.path || '/' || c.directory"
    " from cursors c join roots r on r.name = c.root where c.key = sessions.key and sessions.key = ?",
    exact=False,
)
"""A foreign session may have been moved since its start was recorded."""

MOVE: Final = Write("update sessions set root = ?, path = ? where key = ?", exact=False)

INSERT_ATTEMPT: Final = Write(
    "insert into attempts (session_key, attempt, started_at, status) values (?, ?, ?, 'running')"
)

FOLD_CONTRACT: Final = Write(
    "update sessions set folded = 1, artifact_contract_json = ?, contract_basis = coalesce(contract_basis, ?)"
    " where key = ? and status = 'running' and attempt = 1 and folded = 0"
)

HOLD_TO_LAUNCH: Final = Write(
    "update sessions set artifact_contract_json = ?1, contract_basis = iif(?1 is null, null, 'launcher'),"
    " contract_problem = coalesce(contract_problem, ?2) where key = ?3"
)

REFUSE_FOLD: Final = Write(
    "update sessions set contract_problem = coalesce(contract_problem, ?) where key = ?"
)

LINK: Final = Write("update sessions set invocation_id = ? where key = ?")

TRANSIT: Final = Write(
    "update sessions set status = ?, attempt = ?, finished_at = ?, ended_by = ?, reason_code = ?, reason_summary = ?,"
    " evidence_refs = ?, artifact_verification_json = ?, delivery = ?"
    " where key = ? and status = ? and attempt = ?"
)
"""From one status to the next.

It refuses a session that is not in the status and attempt that the change started from.
"""

END_ATTEMPT: Final = Write(
    "update attempts set status = ?, ended_by = ?, reason_code = ?, ended_at = ?, produced = ?"
    " where session_key = ? and attempt = ? and ended_by is null"
)

INSERT_HISTORY: Final = Write(
    "insert into status_history (session_key, attempt, at, replaced, status, reason_code,"
    " reason_summary, evidence_refs, source) values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


MOST_LACKING: Final = 200
"""Sessions that lack a file and that a daemon looks at as it begins."""

MOST_DECISIONS: Final = 10_000
"""The latest decisions among which a new daemon searches for their verdicts."""


async def known(store: Store, keys: Iterable[str]) -> dict[str, Session]:
    """The sessions with these keys, as handlers see them."""
    rows = await store.read(
        "select key, session_id, layout, path, status, attempt, artifacts_path, artifact_contract_json,"
        " playbook, agent, started_at, origin, contract_problem, folded, contract_basis, invocation_id, reason_code from sessions where key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {str(row[0]): Session(*row) for row in rows}  # type: ignore[arg-type] # the schema's own types


async def working_directories(store: Store, keys: Iterable[str]) -> dict[str, str]:
    """Where these sessions work, if their files say it. One that began and ended in one look has no row yet."""
    rows = await store.read(
        "select asked.value, coalesce(iif(asked.value glob ? || ':*', null, json_extract(c.state, '$[10][0]')),"
        " (select e.payload ->> '$.declaration.cwd' from events e where e.key = asked.value || '#1/started'))"
        " from json_each(?) asked left join cursors c on c.key = asked.value",
        (NATIVE, listed(keys)),
    )
    return {str(key): str(cwd) for key, cwd in rows if cwd is not None}


async def lacking_of(store: Store, keys: Iterable[str]) -> dict[str, Lacking]:
    """What those of these sessions lack whose verdict may be corrected by a file that arrived, by key."""
    rows = await store.read(
        "select s.key, s.attempt, d.at, s.artifacts_path, s.artifact_contract_json, s.started_at, d.known"
        " from json_each(?) asked join sessions s on s.key = asked.value join decisions d on d.id ="
        "  (select max(id) from decisions where subject = s.key and handler = 'sessions/ended'"
        "   and verdict = 'decided')"
        " where s.reason_code = 'run.failed.missing_artifact'",
        (listed(keys),),
    )
    return {
        str(key): lacking(
            int(str(attempt)),
            as_float(at),
            str(path),
            str(contract),
            as_float(started),
            json.loads(str(known)),
        )
        for key, attempt, at, path, contract, started, known in rows
    }


async def judged_lately(store: Store) -> list[str]:
    """The keys of sessions whose verdict may be corrected by a file that arrived while no daemon ran.

    They were judged within the last minute in which anything was recorded: a daemon that went on saw to the others itself.
    """
    rows = await store.read(
        "select s.key from (select id, subject, at, handler from decisions order by id desc limit ?) d"
        " join sessions s on s.key = d.subject where d.handler = 'sessions/ended'"
        " and d.at > (select recorded_at from events order by seq desc limit 1) - ?"
        " and s.reason_code = 'run.failed.missing_artifact' group by s.key order by max(d.id) desc limit ?",
        (MOST_DECISIONS, CORRECTED_WITHIN, MOST_LACKING),
    )
    return [str(key) for (key,) in rows]


def _open(batch: "Batch", job: Job, effect: OpenSession) -> None:
    said, evidence = effect.declaration, _evidence(effect.reason.evidence_refs)
    batch.row(
        INSERT,
        (
            effect.key,
            said.session_id,
            said.layout,
            said.root,
            said.path,
            said.kind,
            effect.origin,
            effect.at,
            effect.reason.code,
            effect.reason.summary,
            evidence,
            said.playbook,
            said.agent,
            said.invocation_id,
            said.containment,
            said.artifacts_path,
            effect.contract_json,
            effect.contract_basis,
            effect.contract_problem,
        ),
    )
    if said.layout != NATIVE:
        batch.row(PLACE, (effect.key,))
    batch.row(INSERT_ATTEMPT, (effect.key, 1, effect.at))
    _change(batch, effect, 1, None, "running", evidence)


def _resume(batch: "Batch", job: Job, effect: OpenAttempt) -> None:
    reason, evidence = effect.reason, _evidence(effect.reason.evidence_refs)
    to = ("running", effect.attempt, None, None, reason.code, reason.summary, evidence, None, None)
    batch.row(TRANSIT, (*to, effect.key, effect.replaces, effect.attempt - 1))
    batch.row(INSERT_ATTEMPT, (effect.key, effect.attempt, effect.at))
    _change(batch, effect, effect.attempt, effect.replaces, "running", evidence)


def _end(batch: "Batch", job: Job, effect: EndAttempt) -> None:
    reason, evidence = effect.reason, _evidence(effect.reason.evidence_refs)
    why = (reason.code, reason.summary, evidence, effect.verification_json, effect.delivery)
    to = (effect.status, effect.attempt, effect.at, effect.ended_by, *why)
    batch.row(TRANSIT, (*to, effect.key, effect.replaces, effect.attempt))
    produced = _produced(effect.produced)
    ended = (effect.status, effect.ended_by, reason.code, effect.at, produced)
    batch.row(END_ATTEMPT, (*ended, effect.key, effect.attempt))
    _change(batch, effect, effect.attempt, effect.replaces, effect.status, evidence)


def _change(
    batch: "Batch",
    effect: OpenSession | OpenAttempt | EndAttempt,
    attempt: int,
    replaced: str | None,
    status: str,
    evidence: str,
) -> None:
    """A row of the status history."""
    key, at, reason, source = effect.key, effect.at, effect.reason, effect.source
    batch.row(
        INSERT_HISTORY,
        (key, attempt, at, replaced, status, reason.code, reason.summary, evidence, source),
    )


def _fold_contract(batch: "Batch", job: Job, effect: FoldContract) -> None:
    batch.row(FOLD_CONTRACT, (effect.contract_json, effect.contract_basis, effect.key))


def _hold_to_launch(batch: "Batch", job: Job, effect: HoldToLaunch) -> None:
    batch.row(HOLD_TO_LAUNCH, (effect.contract_json, effect.problem, effect.key))


def _refuse_fold(batch: "Batch", job: Job, effect: RefuseFold) -> None:
    batch.row(REFUSE_FOLD, (effect.problem, effect.key))


def _link(batch: "Batch", job: Job, effect: LinkSession) -> None:
    batch.row(LINK, (effect.invocation, effect.key))
    batch.row(artifacts.LINK, (effect.invocation, effect.key))


def _evidence(references: Iterable[EvidenceRef]) -> str:
    return to_json([{"kind": each.kind, "id": each.id, "label": each.label} for each in references]).decode()


def _produced(files: tuple[Produced, ...]) -> str | None:
    """What was produced, as lists in the order of the tuple's fields; None if nothing was."""
    return to_json(files).decode() if files else None


_FOLD: Final = Fold(lambda effect: SessionOf(effect.key), lambda session, effect: fold(session, (effect,)))

SESSIONS: Final = Table(
    writes=(
        INSERT,
        PLACE,
        MOVE,
        INSERT_ATTEMPT,
        FOLD_CONTRACT,
        HOLD_TO_LAUNCH,
        REFUSE_FOLD,
        LINK,
        TRANSIT,
        END_ATTEMPT,
        INSERT_HISTORY,
    ),
    appliers={
        OpenSession: _open,
        OpenAttempt: _resume,
        EndAttempt: _end,
        FoldContract: _fold_contract,
        HoldToLaunch: _hold_to_launch,
        RefuseFold: _refuse_fold,
        LinkSession: _link,
    },
    answers={
        SessionOf: answers_by(known, lambda asked: asked.key),
        WorkingDirectoryOf: answers_by(working_directories, lambda asked: asked.key),
    },
    goes_with_session=(
        "delete from status_history where session_key = ?",
        "delete from attempts where session_key = ?",
    ),
    folds=dict.fromkeys(
        (OpenSession, OpenAttempt, EndAttempt, FoldContract, HoldToLaunch, RefuseFold, LinkSession), (_FOLD,)
    ),
)
