"""Invocations: each order and its result."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.transaction import listed
from runward.handlers.model.invocations import EndInvocation, Invocation, InvocationOf, OpenInvocation
from runward.handlers.model.shows import RecordPlay

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch


OPEN: Final = Write(
    "insert into invocations (id, skill, status, session_key, chain_run_id, step_index, try, node_metadata, created_at)"
    " values (?, ?, 'running', ?, ?, ?, ?, ?, ?)"
)
END: Final = Write(
    "update invocations set status = ?, reason_code = ?, ended_at = ? where id = ? and status = 'running'",
    exact=False,
)


def _open(batch: "Batch", job: Job, effect: OpenInvocation) -> None:
    metadata = None if effect.metadata is None else to_json(effect.metadata).decode()
    place = (effect.session_key, effect.chain_run, effect.step, effect.attempt)
    batch.row(OPEN, (effect.id, effect.skill, *place, metadata, effect.at))


def _end(batch: "Batch", job: Job, effect: EndInvocation) -> None:
    batch.row(END, (effect.status, effect.reason_code, effect.at, effect.id))


def _opened(answer: Invocation | None, effect: OpenInvocation) -> Invocation | None:
    """A play that was over when first seen ends in the batch that opens it. A chain's start comes after its batch."""
    return answer if effect.chain_run is not None else Invocation(effect.id, effect.skill)


async def of_sessions(store: Store, sessions: Iterable[str]) -> dict[str, Invocation]:
    """The invocations that ordered these sessions, by the sessions' keys."""
    rows = await store.read(
        "select i.session_key, i.id, i.skill, r.chain, coalesce(i.chain_run_id, i.node_metadata ->> 'by_run')"
        " from invocations i left join chain_runs r on r.id = i.chain_run_id"
        " where i.session_key in (select value from json_each(?))",
        (listed(sessions),),
    )
    return {
        str(key): Invocation(
            str(identifier),
            str(skill),
            None if chain is None else str(chain),
            None if by_run is None else str(by_run),
        )
        for key, identifier, skill, chain, by_run in rows
    }


INVOCATIONS: Final = Table(
    writes=(OPEN, END),
    appliers={OpenInvocation: _open, EndInvocation: _end},
    answers={InvocationOf: answers_by(of_sessions, lambda asked: asked.session_key)},
    folds={OpenInvocation: (Fold(lambda effect: InvocationOf(effect.session_key or ""), _opened),)},
    goes_with_session=("delete from invocations where session_key = ? and chain_run_id is null",),
    goes_with_chain_run=("delete from invocations where chain_run_id = ?",),
)


RECORD_PLAY: Final = Write(
    "insert into plays (session_key, show, topic, name, status, agent, model, started_at, finished_at, depends_on, further,"
    " created_at, updated_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?12, ?12) on conflict (session_key) do update"
    " set status = excluded.status, agent = excluded.agent, model = excluded.model, started_at = excluded.started_at,"
    " finished_at = excluded.finished_at, depends_on = excluded.depends_on, further = excluded.further,"
    " updated_at = excluded.updated_at"
)


def _record(batch: "Batch", job: Job, effect: RecordPlay) -> None:
    said = effect.meta
    depends_on = to_json(said.depends_on).decode()
    further = None if said.further is None else to_json(said.further).decode()
    times = (said.started_at, said.finished_at)
    whose = (effect.session_key, effect.show, effect.topic, effect.name)
    batch.row(
        RECORD_PLAY, (*whose, said.status, said.agent, said.model, *times, depends_on, further, effect.at)
    )


PLAYS: Final = Table(
    writes=(RECORD_PLAY,),
    appliers={RecordPlay: _record},
    goes_with_session=("delete from plays where session_key = ?",),
)
