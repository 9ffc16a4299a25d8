"""What a run directory alone says: its files, and the process if they name one. No daemon, no store.

The conclusions are those of the daemon's own functions; an open run whose end can't be detected is `unknown`. A run has the
form that the store has for the runs that it knows. Lists read runs with this, so it imports no more than they need.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from runward.config.json_value import JsonValue
from runward.daemon.disk.file_systems import is_local
from runward.daemon.processes.proc import children_of, read_stat
from runward.daemon.processes.whereabouts import ShownProcesses
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import look
from runward.daemon.store.tables.sessions import SessionRow
from runward.handlers.layouts import native
from runward.handlers.layouts.native import Ended, Item, Started
from runward.handlers.model.files import Signature, Unreadable
from runward.handlers.model.processes import ProcessState, RecordedProcess, has_namespace, is_here
from runward.handlers.model.sessions import AttemptEnded, Complaint, Launch
from runward.handlers.sessions.observe import NEVER_SEEN, NOT_THE_LAUNCHERS, RootRule, Watched, see, together
from runward.handlers.sessions.standing import NO_PROCESS, OPEN_TURN, PROCESS_GONE, MissingProcess, Standing

if TYPE_CHECKING:
    from runward.config.contract import Contract
    from runward.handlers.contracts.snapshots import Snapshot
    from runward.handlers.model.reasons import ReasonCode


class NativeRun(NamedTuple):
    """What the documents of a run directory say; `problems` is what is wrong with them."""

    started: Started
    standing: Standing
    problems: tuple[Complaint, ...]


def read_native(path: str, launch: Launch | None = None) -> NativeRun | tuple[Complaint, ...]:
    """What the documents of the run directory at `path` (absolute) say; else what is wrong with them.

    What its launcher recorded, `launch`, takes precedence.
    """
    place, directory = os.path.split(path)
    sight = look(place, directory, native.DOCUMENTS, {})
    if isinstance(sight, Unreadable | Gone):
        why = sight.why if isinstance(sight, Unreadable) else "it is a link, not a directory"
        return (Complaint(directory, None, why, None),)
    items: list[Item] = list(native.scan("", path, sight.documents))
    started = next((each for each in items if isinstance(each, Started)), None)
    if started is None:
        return tuple(each for each in items if isinstance(each, Complaint))
    forged = _forged_end(started, items) if launch is None else None
    if forged is not None:
        items = [*(each for each in items if not isinstance(each, Ended)), forged]
    standing, problems = _standing(started, items, path, sight.signatures, launch)
    return NativeRun(started, standing, problems)


def _forged_end(started: Started, items: Sequence[Item]) -> Complaint | None:
    """The complaint about an `exit.json` beside which the run's launcher still has a command that runs.

    A launcher writes it when nothing of its command is left.
    """
    end = next((each for each in items if isinstance(each, Ended)), None)
    launcher, processes = started.launcher, ShownProcesses()
    if end is None or launcher is None or not is_here(started.host, processes.host()):
        return None
    if processes.state(launcher) != "alive" or not any(map(_is_alive, children_of(launcher.pid))):
        return None
    return Complaint(end.file, None, NOT_THE_LAUNCHERS, "leave it to the launcher")


def _is_alive(pid: int) -> bool:
    try:
        return not read_stat(pid).is_dead
    except (FileNotFoundError, ProcessLookupError):
        return False


def _standing(
    started: Started,
    items: Sequence[Item],
    path: str,
    signatures: tuple[tuple[str, Signature], ...],
    launch: Launch | None,
) -> tuple[Standing, tuple[Complaint, ...]]:
    """The state of the run, and what is wrong with its documents."""
    key = native.session_key("", os.path.basename(path))
    # Through the daemon's own eyes, as at its first look: so a command and the daemon never disagree about a run.
    watched, events = see(
        watched=NEVER_SEEN,
        key=key,
        rule=RootRule(False, 0.0),
        signatures=signatures,
        items=items,
        launch=launch,
    )
    ended = next((each for each in events if isinstance(each, AttemptEnded)), None)
    if ended is not None:
        code = cast("ReasonCode", ended.reason_code)
        standing = Standing(ended.status, ended.evidence, code, ended.reason_summary, ended.at)
    else:
        standing = _open(started, watched, path, is_launched=launch is not None)
        forged = next((each for each in watched.complaints if each.message == NOT_THE_LAUNCHERS), None)
        if forged is not None:
            summary = f"{standing.reason_summary}; {forged.file} {forged.message}"
            standing = standing._replace(reason_summary=summary)
    return standing, watched.complaints


def _open(started: Started, watched: Watched, path: str, *, is_launched: bool) -> Standing:
    """The state of a run without an end, by its processes."""
    named = [each for each in (watched.launcher, watched.process) if each is not None]
    processes = ShownProcesses()
    if not named:
        return Standing("unknown", None, NO_PROCESS, "it names no process")
    if not is_here(started.host, processes.host()):
        return Standing("unknown", None, OPEN_TURN, "its processes are another host's")

    def state(process: RecordedProcess) -> ProcessState:
        missing = MissingProcess(
            process.boot_id,
            is_launched,
            has_namespace(started.host),
            lambda: processes.is_nowhere(process),
            lambda: is_local(path),
        )
        state_found = processes.state(process)
        return state_found if state_found != "gone" or missing.is_dead(processes.whereabouts()) else "unknown"

    match together([state(each) for each in named]):
        case "alive":
            return Standing("running", None, "run.started.ok", "it runs")
        case "gone":
            return Standing("aborted", "process_gone", PROCESS_GONE, "its processes are gone")
        case "unknown":
            return Standing("unknown", None, OPEN_TURN, "it is not known whether its processes are alive")


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
    snapshot = _snapshot(declared.contract)
    held = None if snapshot is None else snapshot.contract
    text = None if snapshot is None else snapshot.text
    end = _end(standing, held, declared.artifacts_path, path, run.started.at)
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
        artifact_contract_json=text,
        contract_basis="launcher" if text is not None else None,
        contract_problem=None if snapshot is None else snapshot.problem,
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
    end = _end(
        run.standing, _stored(row.artifact_contract_json), row.artifacts_path, row.path, row.started_at
    )
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


def _snapshot(contract: JsonValue) -> "Snapshot | None":
    """The snapshot of the contract that a run declares; None if it declares none."""
    if contract is None:
        return None
    # Only runs with a contract pay for this.
    from runward.handlers.contracts.snapshots import snapshot_from_run

    return snapshot_from_run(contract)


def _stored(contract: str | None) -> "Contract | None":
    if contract is None:
        return None
    from runward.handlers.contracts.snapshots import stored_contract

    return stored_contract(contract)


def _end(standing: Standing, held: "Contract | None", artifacts: str, path: str, started_at: float) -> _End:
    """The verdict as the daemon would give it now."""
    if standing.state in ("running", "unknown"):
        return _End("running", "run.started.ok", standing.reason_summary)
    end = _End(standing.state, standing.reason_code, standing.reason_summary)
    if held is None:
        return end
    from runward.daemon.views.native_verdict import verified

    checked = verified(held, artifacts, path, started_at)
    if checked is None:
        return end
    end = end._replace(verification=checked.verification, delivery=checked.delivery)
    if checked.missing is None or standing.state != "completed":
        return end
    return end._replace(status="failed", reason_code="run.failed.missing_artifact", summary=checked.missing)
