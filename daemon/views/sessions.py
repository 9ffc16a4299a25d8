"""Sessions as programs read them: the objects of `session list --json` and `session show --json`."""

import json
import os
import shlex
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.config.settings import Settings
from runward.daemon.rundir.changes import last_change
from runward.daemon.rundir.opening import NotRegular, open_in_run
from runward.daemon.store import reading_sessions
from runward.daemon.store.reading_artifacts import Wanted, artifacts
from runward.daemon.store.reading_files import KeptFile, kept_files
from runward.daemon.store.reading_problems import problems
from runward.daemon.store.reading_sessions import SessionRow, StatusChange
from runward.daemon.views.text import ago, duration, iso, local
from runward.daemon.views.unjudged import as_its_files_tell, unjudged, unjudged_called
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.files import RULES
from runward.handlers.secrets import json_without_secrets, without_secrets_in

_LONGEST: Final = 1 << 20


class LaunchedCommand(NamedTuple):
    """None where `run.json` doesn't say it."""

    words: list[str] | None = None
    cwd: str | None = None

    @property
    def command(self) -> str | None:
        """The command as a shell would read it."""
        return shlex.join(self.words) if self.words else None


def launched_command(row: SessionRow) -> LaunchedCommand:
    """What the `run.json` of a native run says now: the run may have changed it. Nothing for other sessions."""
    if row.layout != NATIVE:
        return LaunchedCommand()
    path = row.path
    try:
        descriptor = open_in_run(path, "run.json")
    except (OSError, NotRegular):
        return LaunchedCommand()
    try:
        content = os.pread(descriptor, _LONGEST, 0)
    except OSError:
        return LaunchedCommand()
    finally:
        os.close(descriptor)
    value = read_json(content)
    if isinstance(value, NotJson) or not isinstance(value, dict):
        return LaunchedCommand()
    cwd = value.get("cwd")
    return LaunchedCommand(_words(value.get("command")), cwd if isinstance(cwd, str) else None)


def _words(command: JsonValue) -> list[str] | None:
    if not isinstance(command, list):
        return None
    return [each for each in command if isinstance(each, str)] or None


STATUSES: Final = ("running", "completed", "failed", "timed_out", "aborted", "cancelled")
FAILED: Final = ("failed", "timed_out", "aborted")


def summary_of(row: SessionRow, kept: Sequence[KeptFile]) -> dict[str, JsonValue]:
    """A session without the fields that only its own page needs."""
    ended = row.finished_at
    return {
        "session_id": row.session_id,
        "key": row.key,
        "attempt": row.attempt,
        "layout": row.layout,
        "path": row.path,
        "status": row.status,
        "activity": row.activity,
        "ended_by": row.ended_by,
        "reason": {
            "code": row.reason_code,
            "summary": row.reason_summary,
            "evidence_refs": json.loads(row.evidence_refs),
        },
        "started_at": iso(row.started_at),
        "finished_at": iso(ended),
        "duration_s": None if ended is None else round(ended - row.started_at, 6),
        "playbook": row.playbook,
        "agent": row.agent,
        "invocation_id": row.invocation_id,
        "contract_basis": row.contract_basis,
        "contract_problem": row.contract_problem,
        "delivery": row.delivery,
        "origin": row.origin,
        "linked": json.loads(row.linked),
        **about_of(row)._asdict(),
        "containment": row.containment,
        "files": files_of(row, kept),
        "not_judged_yet": row.not_judged_yet,
    }


class About(NamedTuple):
    """What a foreign session is about. `usage` has `input_tokens` and `output_tokens`."""

    cwd: str | None = None
    prompt: str | None = None
    model: str | None = None
    usage: JsonValue = None


def about_of(row: SessionRow) -> About:
    """Where a foreign session works, its first prompt, its model and its tokens."""
    if row.about is None:
        return About()
    cwd, prompt, model, given, made = json.loads(row.about)
    usage = None if given is None else {"input_tokens": given, "output_tokens": made}
    return About(cwd, prompt, model, usage)


def tokens_of(told: About) -> str | None:
    """The tokens of a foreign session, if they are known."""
    usage = told.usage
    return f"{usage['input_tokens']} in, {usage['output_tokens']} out" if isinstance(usage, dict) else None


def details_of(
    row: SessionRow,
    history: Sequence[StatusChange],
    kept: Sequence[KeptFile],
    outcomes: Sequence[JsonValue],
) -> dict[str, JsonValue]:
    """A session with its contract, its verification, its outcomes and its timeline."""
    changes: list[JsonValue] = [
        {
            "at": iso(change.at),
            "status": change.status,
            "reason_code": change.reason_code,
            "source": change.source,
        }
        for change in history
    ]
    launched = launched_command(row)
    summary = summary_of(row, kept)
    words: list[JsonValue] | None = None if launched.words is None else [*launched.words]
    return {
        **summary,
        "cwd": summary["cwd"] or launched.cwd,
        "command": words,
        "contract": contract_of(row),
        "verification": verification_of(row),
        "rules": rules_of(row),
        "artifacts": [*outcomes],
        "history": changes,
    }


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
    return [each for each in produced if isinstance(each, dict)] if isinstance(produced, list) else []


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


def newest_sessions(
    connection: sqlite3.Connection, settings: Settings, wanted: reading_sessions.Wanted, limit: int
) -> tuple[list[SessionRow], bool]:
    """The newest `limit` sessions (0: all) that are wanted, and whether there are more. Those not judged yet are among them."""
    most = limit + 1 if limit else None
    fresh = unjudged(connection, settings, most)
    cwds = reading_sessions.working_directories(connection, [row.key for row in fresh]) if wanted.cwd else {}
    fresh = [row for row in fresh if wanted.has(row._replace(cwd=row.cwd or cwds.get(row.key)))]
    known = {row.key for row in fresh}
    rows = [row for row in reading_sessions.sessions(connection, wanted, most) if row.key not in known]
    rows = sorted([*fresh, *rows], key=lambda row: (-row.started_at, row.key))
    is_cut = bool(limit) and len(rows) > limit
    return (rows[:limit] if is_cut else rows), is_cut


def session_with_key(connection: sqlite3.Connection, settings: Settings, key: str) -> SessionRow | None:
    """The session of this very key, also one that is not judged yet. None if there is none."""
    row = reading_sessions.session(connection, key)
    if row is not None:
        return as_its_files_tell(connection, settings, row)
    name = key.rpartition("/")[2]
    return next((each for each in unjudged_called(connection, settings, name) if each.key == key), None)


def sessions_as_json(
    connection: sqlite3.Connection, settings: Settings, rows: Sequence[SessionRow]
) -> list[JsonValue]:
    """What a list says of each of these sessions, without what looks like a secret."""
    kept = kept_files(connection, [row.key for row in rows])
    listed = json_without_secrets(
        [summary_of(row, kept.get(row.key, [])) for row in rows], settings.bundle.rules.redact
    )
    assert isinstance(listed, list)
    return listed


def session_as_json(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, report: Callable[[str], None]
) -> dict[str, JsonValue]:
    """Everything that is known of a session, without what looks like a secret.

    `report` takes what keeps signatures from being checked.
    """
    from runward.daemon.views.bundles import bundle_json, shown_bundle
    from runward.daemon.views.outcomes import artifact_as_json

    history = reading_sessions.status_history(connection, row.key)
    kept = kept_files(connection, [row.key]).get(row.key, [])
    outcomes = artifacts(connection, Wanted(session=row.key))[::-1]
    bundle = shown_bundle(connection, settings, row)
    complaints: list[JsonValue] = [
        {"path": each.path, "line": each.line, "message": each.message, "fix": each.fix}
        for each in problems(connection, row.path)
    ]
    details = details_of(row, history, kept, [artifact_as_json(each) for each in outcomes])
    told = {**details, "bundle": bundle_json(bundle, settings, report), "problems": complaints}
    return without_secrets_in(told, settings.bundle.rules.redact)


NOT_KNOWN: Final = "it is not known whether it still runs"

_HOOKED: Final = ("claude-code", "codex")


def is_unknown(row: SessionRow) -> bool:
    """Whether the record says `running` only because nobody saw the session's end."""
    return row.status == "running" and row.activity is None


def silence(row: SessionRow, now: float) -> str:
    """How long it has been silent, which is the only evidence."""
    heard = last_change(row.path)
    return "-" if heard is None else f"silent {duration(max(0.0, now - heard))}"


def activity_in_full(row: SessionRow, now: float) -> str:
    """What it is doing, for its page: that this is unknown, and how long it has been silent."""
    heard = last_change(row.path)
    said = f"unknown: {NOT_KNOWN}"
    return (
        said if heard is None else f"{said}; nothing has been heard since {local(heard)} ({ago(heard, now)})"
    )


def fix_of_unknown(layout: str) -> str:
    """What can be done about such a session, and about future ones."""
    if layout == NATIVE:
        return "write its exit.json; the next one should name its process in process.json"
    said = "`stale_after` of its root ends such a session after a silence"
    if layout not in _HOOKED:
        return said
    return f"{said}; `runward hook install {layout}` makes the processes of later sessions known"
