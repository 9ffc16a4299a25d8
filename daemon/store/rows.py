"""From what was decided to the rows that say so: one statement a table, over a whole batch.

Everything of one transaction is gathered in a `Batch` and turned into statements once, so that a
batch of 256 jobs costs a dozen statements.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pydantic_core import to_json

from runward.config.settings_keys import DEFAULT_LAYOUT
from runward.daemon.store.chain import Head, Recorded, link
from runward.daemon.store.transaction import Row, Statement
from runward.handlers.effects import (
    AcceptRoot,
    AppendLines,
    CancelRun,
    Effect,
    Emit,
    EndAttempt,
    EvidenceRef,
    Explain,
    FoldContract,
    HoldToLaunch,
    NoteHook,
    OpenAttempt,
    OpenSession,
    PruneSessions,
    RecordFiles,
    RefuseFold,
    ReleaseJob,
    RepairJournal,
    ScanRoots,
    StartRun,
)
from runward.handlers.events import Event
from runward.handlers.facts import Produced
from runward.handlers.route import Duty, duties, in_background

_INSERT_EVENT: Final = (
    "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_JOB: Final = "insert into jobs (id, event, handler, lane, state, token, epoch, updated_at) values (?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_SESSION: Final = (
    "insert into sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at,"
    " reason_code, reason_summary, evidence_refs, playbook, agent, invocation_id, containment,"
    " artifacts_path, artifact_contract_json, contract_basis, contract_problem)"
    " values (?, ?, ?, ?, ?, ?, 'running', 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_ATTEMPT: Final = (
    "insert into attempts (session_key, attempt, started_at, status) values (?, ?, ?, 'running')"
)
_FOLD_CONTRACT: Final = (
    "update sessions set folded = 1, artifact_contract_json = ?, contract_basis = coalesce(contract_basis, ?)"
    " where key = ? and status = 'running' and attempt = 1 and folded = 0"
)
_HOLD_TO_LAUNCH: Final = (
    "update sessions set artifact_contract_json = ?1, contract_basis = iif(?1 is null, null, 'launcher'),"
    " contract_problem = coalesce(contract_problem, ?2) where key = ?3"
)
INSERT_LAUNCH: Final = (
    "insert into launches (id, session_key, at, seal, contract_json, timeout, grace, launcher, process)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do nothing"
)
_REFUSE_FOLD: Final = "update sessions set contract_problem = coalesce(contract_problem, ?) where key = ?"
_RESUME_SESSION: Final = (
    "update sessions set status = 'running', attempt = ?, finished_at = null, ended_by = null,"
    " artifact_verification_json = null, delivery = null,"
    " reason_code = ?, reason_summary = ?, evidence_refs = ?"
    " where key = ? and status = ? and attempt = ?"
)
_END_SESSION: Final = (
    "update sessions set status = ?, finished_at = ?, ended_by = ?, reason_code = ?, reason_summary = ?,"
    " evidence_refs = ?, artifact_verification_json = ?, delivery = ?"
    " where key = ? and status = ? and attempt = ?"
)
_END_ATTEMPT: Final = (
    "update attempts set status = ?, ended_by = ?, reason_code = ?, ended_at = ?, produced = ?"
    " where session_key = ? and attempt = ? and ended_by is null"
)
_INSERT_HISTORY: Final = (
    "insert into status_history (session_key, attempt, at, replaced, status, reason_code,"
    " reason_summary, evidence_refs, source) values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_DECISION: Final = "insert into decisions (event, handler, subject, at, verdict, summary, known) values (?, ?, ?, ?, ?, ?, ?)"
_OWE_LINE: Final = "insert into journal_lines (id, directory, name, live, content) values (?, ?, ?, ?, ?)"
_OWE_LINE_AGAIN: Final = (
    'update journal_lines set "offset" = null, places = null, why = null, live = ?'
    ' where id = ? and "offset" is not null'
)
_INSERT_CANCELLATION: Final = (
    "insert into cancellations (event, session_key, attempt, directory, processes, said_by, reason)"
    " values (?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_START: Final = "insert into starts (key, event, session_key, name, directory, effect, state) values (?, ?, ?, ?, ?, ?, 'owed')"
ROOT_IS: Final = "update roots set identity = ? where name = ?"
_INSERT_PRUNING: Final = "insert into prunings (event, before, said_by) values (?, ?, ?)"
_INSERT_FILE: Final = (
    "insert into files (session_key, attempt, id, path, size, modified_ns, sha256, problem, hashed_at)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_NOTE_HOOK: Final = (
    "insert into hooks (session_key, at, kind, ancestors, launcher_session, declared) values (?, ?, ?, ?, ?, ?)"
    " on conflict (session_key) do update set"
    " at = max(at, excluded.at),"
    " kind = case when excluded.at >= at then excluded.kind else kind end,"
    " ancestors = case when excluded.at >= at and excluded.ancestors <> '[]' then excluded.ancestors else ancestors end,"
    " launcher_session = coalesce(launcher_session, excluded.launcher_session),"
    " declared = coalesce(declared, excluded.declared)"
)
_FINISH_JOB: Final = (
    "update jobs set state = ?, run_after = ?, token = null, tries = ?, error = ?, updated_at = ?"
    " where id = ? and token = ? and state = 'running'"
)
_RELEASE_JOB: Final = "update jobs set state = ?, run_after = 0, tries = 0, error = ?, updated_at = ? where id = ? and state = 'held'"


class Job(NamedTuple):
    """One handler's duty towards one event, as the worker holds it."""

    id: int
    seq: int
    event: Event
    event_hash: str
    depth: int
    handler: str
    lane: str
    tries: int = 0


class OwedLine(NamedTuple):
    """Bytes that a journal is owed. `check`: they may stand there already."""

    id: int
    seq: int
    key: str
    directory: str
    name: str
    content: bytes
    live: bool
    check: bool = False

    @property
    def journal(self) -> tuple[str, str]:
        return self.directory, self.name


class LinePlace(NamedTuple):
    """Where what was owed stands; without an offset it never will, and why.

    `places` is JSON text, `[[offset, length], …]`, where it doesn't stand in one piece.
    """

    offset: int | None
    places: str | None
    why: str | None
    id: int


JOBS_AN_EVENT: Final = 32
"""A job's id is this times its event's number, plus its handler's place: unique by construction."""

LINES_A_JOB: Final = 8
"""The id of an owed line is this times its job's, plus its place among the job's: likewise."""


class Outcome(NamedTuple):
    """What is to become of a claimed job: `done` with effects, or another state and why."""

    job: Job
    state: str
    effects: Sequence[Effect] = ()
    error: str | None = None
    run_after: float = 0.0


@dataclass(slots=True)
class Batch:
    """Everything of one transaction, gathered row by row. `head` moves on as events are added."""

    head: Head
    epoch: int
    now: float
    jobs: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    lines: list[OwedLine] = field(default_factory=list)
    repaired: list[tuple[str, str]] = field(default_factory=list)
    scan: bool = False
    released: bool = False
    _line: int = 0
    _rows: dict[str, list[Row]] = field(default_factory=dict)

    def statements(self) -> list[Statement]:
        """The transaction: guards exact, parents before their children."""
        return [Statement(sql, rows, exact) for sql, exact in _ORDER if (rows := self._rows.get(sql))]

    def add_event(
        self, event: Event, token: str | None, blocked: bool, cause: str | None = None, depth: int = 0
    ) -> Recorded:
        """Record an event with a job for each of its handlers, claimed under `token` if it may run."""
        recorded = link(self.head, event, self.now, cause, depth)
        self.head = Head(recorded.seq, recorded.hash)
        self._row(
            _INSERT_EVENT,
            (
                recorded.seq,
                event.key,
                event.type,
                event.version,
                event.lane,
                event.at,
                self.now,
                cause,
                depth,
                recorded.payload,
                recorded.hash,
            ),
        )
        for duty in duties(event):
            self._add_job(recorded, duty, None if blocked or in_background(duty.lane) else token)
        return recorded

    def _add_job(self, recorded: Recorded, duty: Duty, token: str | None) -> None:
        number, event = recorded.seq * JOBS_AN_EVENT + duty.place, recorded.event
        handler, lane = duty.handler, duty.lane
        job = Job(number, recorded.seq, event, recorded.hash, recorded.depth, handler, lane)
        (self.waiting if token is None else self.jobs).append(job)
        state = "waiting" if token is None else "running"
        self._row(_INSERT_JOB, (number, recorded.seq, handler, lane, state, token, self.epoch, self.now))

    def add_outcome(self, outcome: Outcome, token: str) -> None:
        """Complete a job under the token it was claimed with, and apply what it decided."""
        job = outcome.job
        tries = job.tries if outcome.state == "done" else job.tries + 1
        self._row(
            _FINISH_JOB,
            (outcome.state, outcome.run_after, tries, outcome.error, self.now, job.id, token),
        )
        self._line = job.id * LINES_A_JOB
        for effect in outcome.effects:
            self._effect(job, effect)

    def add(self, statement: Statement) -> None:
        """A statement from elsewhere, such as a cursor's new state. Raises `KeyError` for one without a place."""
        if statement.sql not in _PLACED:
            raise KeyError(f"no place in a transaction is known for: {statement.sql}")
        if statement.rows:
            self._rows.setdefault(statement.sql, []).extend(statement.rows)

    def _row(self, sql: str, row: Row) -> None:
        rows = self._rows.get(sql)
        if rows is None:
            self._rows[sql] = [row]
        else:
            rows.append(row)

    def _effect(self, job: Job, effect: Effect) -> None:
        match effect:
            case EndAttempt():
                self._end(effect)
            case AppendLines():
                self._append(job, effect)
            case Explain():
                known = None if effect.known is None else to_json(effect.known).decode()
                self._row(
                    _INSERT_DECISION,
                    (job.seq, job.handler, effect.subject, self.now, effect.verdict, effect.summary, known),
                )
            case Emit():
                self.add_event(effect.event, None, False, job.event.key, job.depth + 1)
            case OpenSession():
                self._open(effect)
            case OpenAttempt():
                self._resume(effect)
            case FoldContract():
                self._row(_FOLD_CONTRACT, (effect.contract_json, effect.contract_basis, effect.key))
            case HoldToLaunch():
                self._row(_HOLD_TO_LAUNCH, (effect.contract_json, effect.problem, effect.key))
            case RefuseFold():
                self._row(_REFUSE_FOLD, (effect.problem, effect.key))
            case RecordFiles():
                self._record_files(effect)
            case ReleaseJob():
                self.released = True
                self._row(_RELEASE_JOB, (effect.state, effect.reason, self.now, effect.job))
            case CancelRun():
                self._cancel(job, effect)
            case StartRun():
                self._start(job, effect)
            case RepairJournal():
                self._repair(effect)
            case NoteHook():
                self._note_hook(effect)
            case ScanRoots():
                self.scan = True
            case AcceptRoot():
                self._row(ROOT_IS, (effect.identity, effect.root))
            case PruneSessions():
                self._row(_INSERT_PRUNING, (job.seq, effect.before, effect.said_by))

    def _note_hook(self, effect: NoteHook) -> None:
        ancestors = to_json(effect.ancestors).decode()
        declared = None if effect.declared is None else to_json(effect.declared).decode()
        row = (effect.key, effect.at, effect.kind, ancestors, effect.launcher_session, declared)
        self._row(_NOTE_HOOK, row)

    def _open(self, effect: OpenSession) -> None:
        said, evidence = effect.declaration, _evidence(effect.reason.evidence_refs)
        self._row(
            _INSERT_SESSION,
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
        if said.layout != DEFAULT_LAYOUT:
            self._row(_PLACE_SESSION, (effect.key,))
        self._row(_INSERT_ATTEMPT, (effect.key, 1, effect.at))
        self._change(effect, 1, None, "running", evidence)

    def _resume(self, effect: OpenAttempt) -> None:
        reason, evidence = effect.reason, _evidence(effect.reason.evidence_refs)
        self._row(
            _RESUME_SESSION,
            (
                effect.attempt,
                reason.code,
                reason.summary,
                evidence,
                effect.key,
                effect.replaces,
                effect.attempt - 1,
            ),
        )
        self._row(_INSERT_ATTEMPT, (effect.key, effect.attempt, effect.at))
        self._change(effect, effect.attempt, effect.replaces, "running", evidence)

    def _end(self, effect: EndAttempt) -> None:
        reason, evidence = effect.reason, _evidence(effect.reason.evidence_refs)
        self._row(
            _END_SESSION,
            (
                effect.status,
                effect.at,
                effect.ended_by,
                reason.code,
                reason.summary,
                evidence,
                effect.verification_json,
                effect.delivery,
                effect.key,
                effect.replaces,
                effect.attempt,
            ),
        )
        self._row(
            _END_ATTEMPT,
            (
                effect.status,
                effect.ended_by,
                reason.code,
                effect.at,
                _produced(effect.produced),
                effect.key,
                effect.attempt,
            ),
        )
        self._change(effect, effect.attempt, effect.replaces, effect.status, evidence)

    def _change(
        self,
        effect: OpenSession | OpenAttempt | EndAttempt,
        attempt: int,
        replaced: str | None,
        status: str,
        evidence: str,
    ) -> None:
        """A row of the status history."""
        key, at, reason, source = effect.key, effect.at, effect.reason, effect.source
        self._row(
            _INSERT_HISTORY,
            (key, attempt, at, replaced, status, reason.code, reason.summary, evidence, source),
        )

    def _cancel(self, job: Job, effect: CancelRun) -> None:
        row = (job.seq, effect.key, effect.attempt, effect.directory)
        said = (to_json(effect.processes._asdict()).decode(), effect.said_by, effect.reason)
        self._row(_INSERT_CANCELLATION, (*row, *said))

    def _start(self, job: Job, effect: StartRun) -> None:
        directory, content = f"{effect.root}/{effect.name}", to_json(effect._asdict()).decode()
        self._row(_INSERT_START, (effect.key, job.seq, effect.session, effect.name, directory, content))

    def _record_files(self, effect: RecordFiles) -> None:
        for each in effect.files:
            self._row(_INSERT_FILE, (effect.key, effect.attempt, *each, self.now))

    def _append(self, job: Job, effect: AppendLines) -> None:
        number, content = self._line, effect.content
        assert number // LINES_A_JOB == job.id, f"a job appends at most {LINES_A_JOB} times"
        self._line = number + 1
        self._row(_OWE_LINE, (number, effect.directory, effect.name, int(effect.live), content))
        self.lines.append(
            OwedLine(number, job.seq, effect.key, effect.directory, effect.name, content, effect.live)
        )

    def _repair(self, effect: RepairJournal) -> None:
        for row in effect.rows:
            self._row(_OWE_LINE_AGAIN, (int(effect.live), row))
        self.repaired.append((effect.directory, effect.name))
        if effect.problem is not None:
            path = f"{effect.directory}/{effect.name}"
            self._row(DELETE_PROBLEMS, (path,))
            self._row(INSERT_PROBLEM, (path, None, effect.problem, TAMPERED, self.now))


def _evidence(references: Iterable[EvidenceRef]) -> str:
    return to_json([{"kind": each.kind, "id": each.id, "label": each.label} for each in references]).decode()


def _produced(files: tuple[Produced, ...]) -> str | None:
    """What was produced, as lists in the order of the tuple's fields; None where nothing was."""
    return to_json(files).decode() if files else None


UPSERT_CURSOR: Final = (
    "insert into cursors (key, root, directory, session_key, phase, state, activity) values (?, ?, ?, ?, ?, ?, ?)"
    " on conflict (key) do update set root = excluded.root, directory = excluded.directory,"
    " phase = excluded.phase, state = excluded.state, activity = excluded.activity"
)
UPSERT_PLACE: Final = (
    "insert into places (key, root, place, session_key, signature) values (?, ?, ?, ?, ?)"
    " on conflict (key) do update set session_key = excluded.session_key, signature = excluded.signature"
)
FORGET_PLACE: Final = "delete from places where key = ?"
_PLACE_SESSION: Final = (
    "update sessions set root = c.root, path = r.path || '/' || c.directory"
    " from cursors c join roots r on r.name = c.root where c.key = sessions.key and sessions.key = ?"
)
"""Another tool's session may have been moved since its start was recorded."""
MOVE_SESSION: Final = "update sessions set root = ?, path = ? where key = ?"
INSERT_LINK: Final = "insert into links (linked, launcher) values (?, ?) on conflict (linked) do nothing"
DELETE_PROBLEMS: Final = "delete from problems where path = ?"
INSERT_PROBLEM: Final = "insert into problems (path, line, message, mend, since) values (?, ?, ?, ?, ?)"

TAMPERED: Final = "find out who did; `runward why` with the session's id tells what was found and when"

_ORDER: Final[tuple[tuple[str, bool], ...]] = (
    (_INSERT_EVENT, True),
    (_INSERT_JOB, True),
    (UPSERT_CURSOR, False),
    (UPSERT_PLACE, False),
    (FORGET_PLACE, False),
    (INSERT_LINK, False),
    (INSERT_LAUNCH, False),
    (DELETE_PROBLEMS, False),
    (INSERT_PROBLEM, True),
    (_FINISH_JOB, True),
    (_RELEASE_JOB, False),
    (_INSERT_SESSION, True),
    (_PLACE_SESSION, False),
    (MOVE_SESSION, False),
    (_INSERT_ATTEMPT, True),
    (_FOLD_CONTRACT, True),
    (_HOLD_TO_LAUNCH, True),
    (_REFUSE_FOLD, True),
    (_RESUME_SESSION, True),
    (_END_SESSION, True),
    (_END_ATTEMPT, True),
    (_INSERT_HISTORY, True),
    (_INSERT_DECISION, True),
    (_INSERT_CANCELLATION, True),
    (_INSERT_START, True),
    (_INSERT_PRUNING, True),
    (ROOT_IS, False),
    (_OWE_LINE, True),
    (_OWE_LINE_AGAIN, True),
    (_INSERT_FILE, True),
    (_NOTE_HOOK, True),
)
"""Every statement of the road, in the order that foreign keys and guards want, and its exactness."""

_PLACED: Final = frozenset(sql for sql, _ in _ORDER)
