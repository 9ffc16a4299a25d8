"""What a run directory alone says: its files, and the process if they name one. No daemon, no store.

The conclusions are those of the daemon's own functions; an open run whose end can't be detected is `unknown`. A run is
shown as `runward inspect` reads it, or in the form that the store has for the runs that it knows."""

import os
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from runward.config.contract import Contract
from runward.config.intent import NotAnIntent
from runward.config.json_value import JsonValue
from runward.daemon.disk.file_systems import is_local
from runward.daemon.processes.proc import children_of, read_stat
from runward.daemon.rundir.artifacts import contract_facts
from runward.daemon.rundir.changes import last_change
from runward.daemon.rundir.growing import Line, Tail
from runward.daemon.rundir.intents import INTENTS
from runward.daemon.rundir.opening import Gone, NotRegular, open_in_run
from runward.daemon.rundir.run_directories import look
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.text import fields
from runward.daemon.world.processes import RealProcesses
from runward.handlers.contracts.snapshots import NO_CONTRACT, snapshot_from_run, stored_contract
from runward.handlers.contracts.verify import boundary, dump_verification, missing_summary, verify
from runward.handlers.exchange.intent import RESULTS, parse_intent, shown
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts import native
from runward.handlers.layouts.native import Ended, Item, Started
from runward.handlers.layouts.transcript import Counts, Usage
from runward.handlers.model.files import Unreadable
from runward.handlers.model.processes import ProcessState, RecordedProcess, has_namespace, is_here
from runward.handlers.model.sessions import AttemptEnded, Complaint, Launch, Signature
from runward.handlers.sessions.observe import NEVER_SEEN, NOT_THE_LAUNCHERS, RootRule, Watched, see, together
from runward.handlers.sessions.over import NO_PROCESS, OPEN_TURN, PROCESS_GONE, MissingProcess, Standing
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.handlers.model.reasons import ReasonCode


class InspectedSession(NamedTuple):
    """What a session's files say, and its process if they name one.

    `idle_s` are the seconds since anything changed, for a session that may still run; `started_at` is in Unix seconds.
    `problems` are the complaints about its files; with `names_files` their messages name the file.
    """

    layout: str
    session_id: str | None
    path: str
    standing: Standing
    idle_s: float | None
    started_at: float | None
    agent: str | None = None
    model: str | None = None
    cwd: str | None = None
    parent_session_id: str | None = None
    attempt: int = 1
    counts: Counts = Counts()
    usage: Usage | None = None
    problems: tuple[Complaint, ...] = ()
    names_files: bool = True

    def as_json(self) -> JsonValue:
        """The object that `inspect --json` prints of it."""
        standing = self.standing
        return {
            **fields(self, "layout session_id"),
            "state": standing.state,
            "evidence": standing.evidence,
            "idle_s": None if self.idle_s is None else round(self.idle_s, 3),
            "reason_code": standing.reason_code,
            "started_at": iso(self.started_at),
            "finished_at": iso(standing.ended_at),
            **fields(self, "agent model cwd path parent_session_id attempt"),
            "activity": standing.activity,
            "counts": dict(self.counts._asdict()),
            "usage": None if self.usage is None else dict(self.usage._asdict()),
            "problems": [{"line": each.line, "message": self.message(each)} for each in self.problems],
        }

    def message(self, complaint: Complaint) -> str:
        """What is wrong, with the file if it is not the only one."""
        return with_file(complaint) if self.names_files else complaint.message


def with_file(complaint: Complaint) -> str:
    """The message of a complaint, after its file."""
    return f"{complaint.file}: {complaint.message}" if complaint.file else complaint.message


_JOURNAL: Final = "events.jsonl"
_TRACE: Final = "trace.jsonl"
_COMPLAINTS: Final = 20
"""Ill-formed lines of one file that are named."""


class NativeRun(NamedTuple):
    """What the documents of a run directory say; `problems` is what is wrong with them."""

    started: Started
    standing: Standing
    problems: tuple[Complaint, ...]


def inspect_native(path: str) -> InspectedSession | tuple[Complaint, ...]:
    """What the run directory at `path` (absolute) says; if it is not a session, what is wrong with its files."""
    run = read_native(path)
    if not isinstance(run, NativeRun):
        return run
    started, standing, problems = run.started, run.standing, list(run.problems)
    counts = Counts(_count(path, _JOURNAL, None, problems), _count(path, _TRACE, "ToolCall", problems))
    problems += rewritten_intents(path)
    changed = last_change(path) if standing.ended_at is None else None
    return InspectedSession(
        layout=native.LAYOUT,
        session_id=started.declaration.session_id,
        path=path,
        standing=standing,
        idle_s=None if changed is None else max(0.0, time.time() - changed),
        started_at=started.at,
        agent=started.declaration.agent,
        counts=counts,
        problems=tuple(problems),
    )


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
    launcher, processes = started.launcher, RealProcesses()
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
    processes = RealProcesses()
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


def rewritten_intents(path: str) -> list[Complaint]:
    """What `results.jsonl` shows of a changed `intents.jsonl`: its lines are not those that were carried out."""
    complaint = "was rewritten or truncated: line {} is not the one that was carried out"
    try:
        results, intents = (Tail(lambda name=name: open_in_run(path, name)) for name in (RESULTS, INTENTS))  # type: ignore[misc] # a default binds it
    except (OSError, NotRegular):
        return []
    with closing(results), closing(intents):
        lines = intents.lines()
        for number, result in enumerate(results.lines(), 1):
            value = NotJson("too long") if result.is_cut else read_json(result.content)
            if not isinstance(value, dict) or value.get("line") != number:
                return []
            line = next(lines, None) or intents.unfinished()
            if line is None or not _is_same(value.get("intent"), line):
                return [Complaint(INTENTS, number, complaint.format(number), None)]
    return []


def _is_same(recorded: JsonValue, line: Line) -> bool:
    """Whether a line is the intent that a result names; an older version may have told fewer of its fields."""
    try:
        intent = shown(parse_intent(line.content))
    except NotAnIntent:
        return line.is_cut or not isinstance(recorded, dict)
    return isinstance(recorded, dict) and all(
        intent.get(name, value) == value for name, value in recorded.items()
    )


def _count(path: str, name: str, event: str | None, problems: list[Complaint]) -> int:
    """The number of lines of a journal that are objects; only those of one event, if one is named."""
    try:
        tail = Tail(lambda: open_in_run(path, name))
    except FileNotFoundError:
        return 0
    except NotRegular:
        problems.append(Complaint(name, None, "is not a regular file", None))
        return 0
    except OSError as error:
        problems.append(Complaint(name, None, f"can't be read: {error.strerror}", None))
        return 0
    count = wrong = 0
    for line in tail.lines():
        value = NotJson("too long") if line.is_cut else read_json(line.content)
        if not isinstance(value, dict):
            wrong += 1
            if wrong <= _COMPLAINTS:
                why = value.message if isinstance(value, NotJson) else "does not contain a JSON object"
                problems.append(Complaint(name, line.number, why, None))
        elif event is None or value.get("event") == event:
            count += 1
    tail.close()
    return count


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
    verification = verify(held, facts, time.time())
    end = end._replace(verification=dump_verification(verification), delivery=verification.delivery)
    if verification.status != "failed" or standing.state != "completed":
        return end
    summary = missing_summary(verification)
    return end._replace(status="failed", reason_code="run.failed.missing_artifact", summary=summary)
