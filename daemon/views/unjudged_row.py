"""A native run according to its files, in the form that the store has for the runs that it knows."""

import time
from typing import NamedTuple

from runward.config.contract import Contract
from runward.daemon.rundir.contract_facts import contract_facts
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views.native_run import NativeRun, read_native
from runward.handlers.contracts.snapshots import NO_CONTRACT, snapshot_from_run, stored_contract
from runward.handlers.contracts.verify import boundary, dump_verification, missing_summary, verify
from runward.handlers.layouts import native
from runward.handlers.model.sessions import Launch
from runward.handlers.model.unreadable import Unreadable
from runward.handlers.sessions.observe import NOT_THE_LAUNCHERS
from runward.handlers.sessions.over import Standing


class _End(NamedTuple):
    """The state of a run, with its contract checked against the disk if it is over."""

    status: str
    reason_code: str
    summary: str
    verification: str | None = None
    delivery: str | None = None


def row_of(root: str, path: str, launch: Launch | None = None) -> SessionRow | None:
    """The run in the directory `path` of the root called `root`, and what its launcher recorded; None if there is none."""
    run = read_native(path, launch)
    if not isinstance(run, NativeRun):
        return None
    declared, standing = run.started.declaration, run.standing
    snapshot = snapshot_from_run(declared.contract) if declared.has_snapshot else NO_CONTRACT
    end = _end(standing, snapshot.contract, declared.artifacts_path, path, run.started.at)
    return SessionRow(
        key=native.session_key(root, path.rsplit("/", 1)[-1]),
        session_id=declared.session_id,
        layout=native.LAYOUT,
        root=root,
        path=path,
        kind=declared.kind,
        status=end.status,
        attempt=1,
        origin="live",
        started_at=run.started.at,
        finished_at=standing.ended_at,
        ended_by=standing.evidence,
        reason_code=end.reason_code,
        reason_summary=end.summary,
        evidence_refs="[]",
        playbook=declared.playbook,
        agent=declared.agent,
        invocation_id=None,  # what a run says of itself links it to nothing
        containment=declared.containment,
        artifacts_path=declared.artifacts_path,
        artifact_contract_json=snapshot.text,
        contract_basis="launcher" if snapshot.text is not None else None,
        contract_problem=snapshot.problem,
        artifact_verification_json=end.verification,
        delivery=end.delivery,
        folded=False,
        activity=_activity(standing),
        linked="[]",
        not_judged_yet=True,
        cwd=declared.cwd,
    )


def ended_row(row: SessionRow, launch: Launch | None) -> SessionRow:
    """A session that is recorded as running, with the end that its files tell, if they do."""
    run = read_native(row.path, launch)
    if not isinstance(run, NativeRun):
        return row
    if run.standing.state in ("running", "unknown"):
        is_forged = any(each.message == NOT_THE_LAUNCHERS for each in run.problems)
        return row._replace(reason_summary=run.standing.reason_summary) if is_forged else row
    held = None if row.artifact_contract_json is None else stored_contract(row.artifact_contract_json)
    end = _end(run.standing, held, row.artifacts_path, row.path, row.started_at)
    return row._replace(
        status=end.status,
        finished_at=run.standing.ended_at,
        ended_by=run.standing.evidence,
        reason_code=end.reason_code,
        reason_summary=end.summary,
        artifact_verification_json=end.verification,
        delivery=end.delivery,
        activity=None,
        not_judged_yet=True,
    )


def _activity(standing: Standing) -> str | None:
    return "active" if standing.state == "running" else None


def _end(standing: Standing, held: Contract | None, artifacts: str, path: str, started_at: float) -> _End:
    """The verdict as the daemon would give it now."""
    if standing.state in ("running", "unknown"):
        return _End("running", "run.started.ok", standing.reason_summary)
    end = _End(standing.state, standing.reason_code, standing.reason_summary)
    if held is None:
        return end
    facts = contract_facts(held, artifacts, boundary(artifacts, path), path, started_at)
    if isinstance(facts, Unreadable):
        return end
    found = verify(held, facts, time.time())
    end = end._replace(verification=dump_verification(found), delivery=found.delivery)
    if found.status != "failed" or standing.state != "completed":
        return end
    summary = missing_summary(found)
    return end._replace(status="failed", reason_code="run.failed.missing_artifact", summary=summary)
