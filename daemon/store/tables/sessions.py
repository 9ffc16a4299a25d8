"""The sessions with their attempts and the history of their status: the rows, how they are read, and how programs see them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue, objects, stored_json
from runward.config.root import NATIVE
from runward.daemon.processes.whereabouts import own_host
from runward.daemon.store import packed_document
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.remembered_fields import ABOUT, CWD, FOLLOWED_MOVED_AT
from runward.daemon.store.rows import rows_by_key, rows_of, select, value_of, values_of
from runward.daemon.store.tables import artifacts
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed
from runward.handlers.model.files import RULES
from runward.handlers.model.processes import bare_host
from runward.handlers.sessions.stored_fields import WATCHED
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.store.tables.files import KeptFile
    from runward.daemon.store.transaction import Reader
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
    )
    from runward.handlers.sessions.late import Lacking

ACTIVITY: Final = (
    "case when s.status <> 'running' then null when s.layout <> :native then c.activity"
    f" when coalesce(json_extract(c.state, '{WATCHED['launcher']}'), json_extract(c.state, '{WATCHED['process']}')) is not null"
    f" and coalesce(json_extract(c.state, '{WATCHED['host']}'), :here) in (:here, :host)"
    " then 'active' end"
)
"""What a session does. A native run works as long as its process does: where its launcher or its process is known, and
it runs here, as `is_here` says."""


_ABOUT: Final = f"case when s.layout <> :native then json_extract(c.state, '{ABOUT}') end"
"""What is shown of a foreign session, of what is remembered about it."""

_MOVED_AT: Final = f"case when s.layout <> :native then json_extract(c.state, '{FOLLOWED_MOVED_AT}') end"


class About(NamedTuple):
    """What a foreign session is about. `usage` has `input_tokens` and `output_tokens`."""

    cwd: str | None = None
    prompt: str | None = None
    model: str | None = None
    usage: JsonValue = None


class SessionRow(NamedTuple):
    """A session as stored. Times are Unix seconds; `*_json`, `evidence_refs` and `linked` are JSON texts.

    `activity` is what a running session does, None if it is not known whether it still runs. `linked` are the keys of
    the sessions that were started inside it, and of the launcher's that it was started in. `about` is a JSON list:
    directory, first prompt, model, tokens in and out, each of which may be null. `moved_at` is the time of a foreign
    session's last record, if it has one. `not_judged_yet` comes from the run's own files. `cwd` is present if it was
    requested.
    """

    key: str
    session_id: str
    layout: str
    root: str
    path: str
    kind: str
    status: str
    attempt: int
    origin: str
    started_at: float
    finished_at: float | None
    ended_by: str | None
    reason_code: str
    reason_summary: str
    evidence_refs: str
    playbook: str | None
    agent: str | None
    invocation_id: str | None
    containment: str | None
    artifacts_path: str
    artifact_contract_json: str | None
    contract_basis: str | None
    contract_problem: str | None
    artifact_verification_json: str | None
    delivery: str | None
    folded: int
    activity: str | None
    linked: str
    about: str | None = None
    moved_at: float | None = None
    not_judged_yet: bool = False
    cwd: str | None = None

    def as_json(self, kept: Sequence[KeptFile]) -> dict[str, JsonValue]:
        """A session without the fields that only its own page needs."""
        ended = self.finished_at
        return {
            "session_id": self.session_id,
            "key": self.key,
            "attempt": self.attempt,
            "layout": self.layout,
            "path": self.path,
            "status": self.status,
            "activity": self.activity,
            "ended_by": self.ended_by,
            "reason": {
                "code": self.reason_code,
                "summary": self.reason_summary,
                "evidence_refs": json.loads(self.evidence_refs),
            },
            "started_at": iso(self.started_at),
            "finished_at": iso(ended),
            "duration_s": None if ended is None else round(ended - self.started_at, 6),
            "playbook": self.playbook,
            "agent": self.agent,
            "invocation_id": self.invocation_id,
            "contract_basis": self.contract_basis,
            "contract_problem": self.contract_problem,
            "delivery": self.delivery,
            "origin": self.origin,
            "linked": json.loads(self.linked),
            **about_of(self)._asdict(),
            "containment": self.containment,
            "files": files_of(self, kept),
            "not_judged_yet": self.not_judged_yet,
        }


class StatusChange(NamedTuple):
    """A row of a session's status history."""

    attempt: int
    at: float
    replaced: str | None
    status: str
    reason_code: str
    reason_summary: str
    evidence_refs: str
    source: str


def here() -> dict[str, str]:
    """The parameters of `ACTIVITY`."""
    place = own_host()
    return {"native": NATIVE, "here": place, "host": bare_host(place)}


STORED: Final = SessionRow._fields[: SessionRow._fields.index("activity")]
"""The columns of the table. What comes after them is worked out for each reading."""

STATE: Final = tuple(name for name in STORED if name not in ("key", "root", "path"))
"""What a session's journal tells of it. Where it is changes without an event, when files are moved."""


def session_rows(connection: sqlite3.Connection, keys: Sequence[str]) -> list[SessionRow]:
    """The sessions with these keys, newest first."""
    # Before the query: from then on this connection finds the rows of packed sessions in their tables.
    packed = packed_document.show(connection, keys)
    query = select(
        SessionRow,
        "from sessions s left join cursors c"
        " on c.key = case s.layout when :native then substr(s.key, length(:native) + 2) else s.key end"
        " where s.key in (select value from json_each(:keys)) order by started_at desc, s.key",
        "s",
        activity=ACTIVITY,
        linked="(select json_group_array(other) from (select linked as other from links where launcher = s.key"
        "  union all select launcher from links where linked = s.key))",
        about=_ABOUT,
        moved_at=_MOVED_AT,
        not_judged_yet=None,
        cwd=None,
    )
    rows = connection.execute(query, {"keys": listed(keys), **here()})
    sessions = rows_of(SessionRow, rows)
    return [_whole(row, packed[row.key]) if row.key in packed else row for row in sessions]


def _whole(row: SessionRow, document: packed_document.Document) -> SessionRow:
    return row._replace(
        evidence_refs=document.evidence_refs, artifact_verification_json=document.verification
    )


def session(connection: sqlite3.Connection, key: str) -> SessionRow | None:
    """The session with this key."""
    return next(iter(session_rows(connection, [key])), None)


def status_history(connection: sqlite3.Connection, key: str) -> list[StatusChange]:
    """How a session's status changed, first change first."""
    rows = connection.execute(
        select(StatusChange, "from status_history where session_key = ? order by id"), (key,)
    )
    return rows_of(StatusChange, rows)


def exit_code_of(connection: sqlite3.Connection, key: str, attempt: int) -> int | None:
    """The exit code of an attempt's command; None if it has none, or the record of its end was pruned."""
    row = connection.execute(
        "select payload ->> '$.exit_code' from events where key = ?", (f"{key}#{attempt}/ended",)
    ).fetchone()
    return value_of(int, row)


def is_seen(connection: sqlite3.Connection, key: str, attempt: int) -> bool:
    """Whether somebody has seen how this attempt ended."""
    seen = connection.execute("select 1 from events where key = ?", (f"{key}#{attempt}/seen",)).fetchone()
    return seen is not None


def about_of(row: SessionRow) -> About:
    """Where a foreign session works, its first prompt, its model and its tokens."""
    if row.about is None:
        return About()
    cwd, prompt, model, given, made = json.loads(row.about)
    usage = None if given is None else {"input_tokens": given, "output_tokens": made}
    return About(cwd, prompt, model, usage)


def contract_of(row: SessionRow) -> JsonValue:
    """The snapshot of the session's contract; None if it has no contract."""
    return None if row.artifact_contract_json is None else json.loads(row.artifact_contract_json)


def verification_of(row: SessionRow) -> JsonValue:
    """The verification object as ADR-0029 writes it; None if nothing was verified."""
    kept = _kept_verification(row)
    return {key: value for key, value in kept.items() if key != RULES} if kept is not None else None


def rules_of(row: SessionRow) -> list[JsonValue]:
    """The result of each rule of the contract at the last verification."""
    rules = (_kept_verification(row) or {}).get(RULES)
    return rules if isinstance(rules, list) else []


def _kept_verification(row: SessionRow) -> dict[str, JsonValue] | None:
    kept = None if row.artifact_verification_json is None else json.loads(row.artifact_verification_json)
    return kept if isinstance(kept, dict) else None


def files_of(row: SessionRow, kept: Sequence[KeptFile]) -> list[JsonValue]:
    """The files that the session left behind as its contract expects, with their hashes once computed.

    `size` is that of what was hashed, else that of what was verified.
    """
    known = {each.id: each for each in kept}
    return [_file(each, known.get(str(each["id"]))) for each in produced_of(row)]


def produced_of(row: SessionRow) -> list[dict[str, JsonValue]]:
    """What the last verification found: `id`, `path` and `size` of each."""
    verification = verification_of(row)
    produced = verification.get("produced") if isinstance(verification, dict) else None
    return objects(produced)


def _file(verified: dict[str, JsonValue], kept: KeptFile | None) -> JsonValue:
    hashed = kept.hashed if kept is not None else None
    taken = hashed is not None and hashed.sha256 is not None
    return {
        "id": verified["id"],
        "path": verified["path"],
        "size": hashed.size if hashed is not None and taken else verified["size"],
        "sha256": hashed.sha256 if hashed is not None else None,
        "problem": hashed.problem if hashed is not None else None,
    }


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
    # An attempt ends once: its evidence is never replaced.
    " where session_key = ? and attempt = ? and ended_by is null"
)

# Never changed: it says what was concluded when, and from what.
INSERT_HISTORY: Final = Write(
    "insert into status_history (session_key, attempt, at, replaced, status, reason_code,"
    " reason_summary, evidence_refs, source) values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


MOST_LACKING: Final = 200
"""Sessions that lack a file and that a daemon looks at as it begins."""

MOST_DECISIONS: Final = 10_000
"""The latest decisions among which a new daemon searches for their verdicts."""


async def known(store: Reader, keys: Iterable[str]) -> dict[str, Session]:
    """The sessions with these keys, as handlers see them."""
    from runward.handlers.model.sessions import Session

    query = select(
        Session,
        "from sessions where key in (select value from json_each(?))",
        contract_json="artifact_contract_json",
    )
    return {each.key: each for each in rows_of(Session, await store.read(query, (listed(keys),)))}


async def working_directories(store: Reader, keys: Iterable[str]) -> dict[str, str]:
    """Where these sessions work, if their files say it. One that began and ended in one look has no row yet."""
    rows = await store.read(
        f"select asked.value, coalesce(iif(asked.value glob ? || ':*', null, json_extract(c.state, '{CWD}')),"  # noqa: S608 # our own words
        " (select e.payload ->> '$.declaration.cwd' from events e where e.key = asked.value || '#1/started'))"
        " from json_each(?) asked left join cursors c on c.key = asked.value",
        (NATIVE, listed(keys)),
    )
    return {key: cwd for key, cwd in rows_of(tuple[str, str | None], rows) if cwd is not None}


class _Verdict(NamedTuple):
    """A verdict that a file was missing: what `lacking` takes."""

    attempt: int
    at: float
    artifacts_path: str
    contract_json: str
    started_at: float
    known: dict[str, JsonValue]


async def lacking_of(store: Reader, keys: Iterable[str]) -> dict[str, Lacking]:
    """What those of these sessions lack whose verdict may be corrected by a file that arrived, by key."""
    from runward.handlers.sessions.late import lacking

    query = select(
        _Verdict,
        "from json_each(?) asked join sessions s on s.key = asked.value join decisions d on d.id ="
        "  (select max(id) from decisions where subject = s.key and handler = 'sessions/ended'"
        "   and verdict = 'decided')"
        " where s.reason_code = 'run.failed.missing_artifact'",
        "s",
        by="s.key",
        at="d.at",
        contract_json="s.artifact_contract_json",
        known="d.known",
    )
    rows = rows_by_key(_Verdict, await store.read(query, (listed(keys),)))
    return {key: lacking(**row._asdict()) for key, row in rows.items()}


async def judged_lately(store: Reader) -> list[str]:
    """The keys of sessions whose verdict may be corrected by a file that arrived while no daemon ran.

    They were judged within the last minute in which anything was recorded: a daemon that went on saw to the others itself.
    """
    from runward.handlers.sessions.late import CORRECTED_WITHIN

    rows = await store.read(
        "select s.key from (select id, subject, at, handler from decisions order by id desc limit ?) d"
        " join sessions s on s.key = d.subject where d.handler = 'sessions/ended'"
        " and d.at > (select recorded_at from events order by seq desc limit 1) - ?"
        " and s.reason_code = 'run.failed.missing_artifact' group by s.key order by max(d.id) desc limit ?",
        (MOST_DECISIONS, CORRECTED_WITHIN, MOST_LACKING),
    )
    return values_of(str, rows)


def _open(batch: Batch, job: Job, effect: OpenSession) -> None:
    declaration, evidence = effect.declaration, _evidence(effect.reason.evidence_refs)
    batch.row(
        INSERT,
        (
            effect.key,
            declaration.session_id,
            declaration.layout,
            declaration.root,
            declaration.path,
            declaration.kind,
            effect.origin,
            effect.at,
            effect.reason.code,
            effect.reason.summary,
            evidence,
            declaration.playbook,
            declaration.agent,
            declaration.invocation_id,
            declaration.containment,
            declaration.artifacts_path,
            effect.contract_json,
            effect.contract_basis,
            effect.contract_problem,
        ),
    )
    if declaration.layout != NATIVE:
        batch.row(PLACE, (effect.key,))
    batch.row(INSERT_ATTEMPT, (effect.key, 1, effect.at))
    _change(batch, effect, 1, replaced=None, status="running", evidence=evidence)


def _resume(batch: Batch, job: Job, effect: OpenAttempt) -> None:
    reason, evidence = effect.reason, _evidence(effect.reason.evidence_refs)
    to = ("running", effect.attempt, None, None, reason.code, reason.summary, evidence, None, None)
    batch.row(TRANSIT, (*to, effect.key, effect.replaces, effect.attempt - 1))
    batch.row(INSERT_ATTEMPT, (effect.key, effect.attempt, effect.at))
    _change(batch, effect, effect.attempt, replaced=effect.replaces, status="running", evidence=evidence)


def _end(batch: Batch, job: Job, effect: EndAttempt) -> None:
    reason, evidence = effect.reason, _evidence(effect.reason.evidence_refs)
    why = (reason.code, reason.summary, evidence, effect.verification_json, effect.delivery)
    to = (effect.status, effect.attempt, effect.at, effect.ended_by, *why)
    batch.row(TRANSIT, (*to, effect.key, effect.replaces, effect.attempt))
    produced = _produced(effect.produced)
    ended = (effect.status, effect.ended_by, reason.code, effect.at, produced)
    batch.row(END_ATTEMPT, (*ended, effect.key, effect.attempt))
    _change(batch, effect, effect.attempt, replaced=effect.replaces, status=effect.status, evidence=evidence)


def _change(
    batch: Batch,
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


def _fold_contract(batch: Batch, job: Job, effect: FoldContract) -> None:
    batch.row(FOLD_CONTRACT, (effect.contract_json, effect.contract_basis, effect.key))


def _hold_to_launch(batch: Batch, job: Job, effect: HoldToLaunch) -> None:
    batch.row(HOLD_TO_LAUNCH, (effect.contract_json, effect.problem, effect.key))


def _refuse_fold(batch: Batch, job: Job, effect: RefuseFold) -> None:
    batch.row(REFUSE_FOLD, (effect.problem, effect.key))


def _link(batch: Batch, job: Job, effect: LinkSession) -> None:
    batch.row(LINK, (effect.invocation, effect.key))
    batch.row(artifacts.LINK, (effect.invocation, effect.key))


def _evidence(references: Iterable[EvidenceRef]) -> str:
    return stored_json(
        [{"kind": each.kind, "id": each.id, "label": each.label} for each in references]
    ).decode()


def _produced(files: tuple[Produced, ...]) -> str | None:
    """What was produced, as lists in the order of the tuple's fields; None if nothing was."""
    return stored_json(files).decode() if files else None


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.invocations import LinkSession
    from runward.handlers.model.sessions import (
        EndAttempt,
        FoldContract,
        HoldToLaunch,
        OpenAttempt,
        OpenSession,
        RefuseFold,
        SessionOf,
        WorkingDirectoryOf,
    )
    from runward.handlers.sessions.fold import fold

    changes = Fold(lambda effect: SessionOf(effect.key), lambda session, effect: fold(session, (effect,)))

    return Table(
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
        moved=("update sessions set path = moved(path), artifacts_path = moved(artifacts_path)",),
        folds=dict.fromkeys(
            (OpenSession, OpenAttempt, EndAttempt, FoldContract, HoldToLaunch, RefuseFold, LinkSession),
            (changes,),
        ),
    )
