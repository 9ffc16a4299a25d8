"""The CTCP run directory: `RUN.json` where there is one, `events.jsonl`, and `artifacts/verify_report.json`.

Source: the CTCP artifact contracts, I (verify_report.json) and J (events.jsonl). `RUN.json` came with the orchestrator;
where it is there it judges, for the orchestrator itself goes by it. Its words, and what they become:

- `running`: an open turn. `blocked`: an open turn that waits for a person, also where a limit of its own blocks it
  (`blocked_reason` `max_iterations_exceeded`, `budget_exceeded`), for a person may raise the limit.
- `pass`: `completed`, `run.completed.ok`.
- `fail`: `failed`, `run.failed.exception`, the orchestrator's own word for any failed step; `run.failed.limit_reached`
  where `blocked_reason` names a budget or the iterations. A failed run may go on: the word then stays `fail` while the
  log tells of work, so work in the log after the failure opens the next attempt.
- any other word: an open turn, and a complaint.

Without `RUN.json` the log's own ends count (`run_pass`; `VERIFY_FAILED`, `failure_bundle_created`), and where the log
knows no verification, as in a sister workflow's, the report's `result`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from runward.config.json_value import JsonValue
from runward.handlers.layouts.foreign_json import LATEST
from runward.handlers.layouts.foreign_values import document_object, is_error_code, text_in
from runward.handlers.layouts.scanner import Complaint, Document, clip_prompt
from runward.handlers.layouts.transcript import Close, Counts, Heads, LogLine, Resumed, Told
from runward.handlers.layouts.transcript_lines import Unreadable, records

LAYOUT: Final = "ctcp"
RUN: Final = "RUN.json"
REPORT: Final = "artifacts/verify_report.json"
EVENTS: Final = "events.jsonl"
REPOSITORY: Final = "repo_ref.json"
DOCUMENTS: Final = (RUN, REPORT)
LOGS: Final = (EVENTS,)
MARKERS: Final = (RUN, REPOSITORY, EVENTS)

_SCHEMA: Final = re.compile(rb'"schema_version"\s*:\s*"ctcp-(?:run|repo-ref)-v\d+"')
_EVENT_KEYS: Final = (b'"ts"', b'"role"', b'"event"', b'"path"')
_OF_RUNWARD: Final = re.compile(rb'"role"\s*:\s*"runward"')
_OF_NATIVE: Final = frozenset({"run.json", "exit.json", "process.json"})
"""A native run's journal has lines of the same form: who has one of these files is no CTCP run."""

_LINES_LOOKED_AT: Final = 20

Meaning: TypeAlias = Literal["works", "verifies", "verified", "moves", "waits", "passed", "failed"]


class _Event(NamedTuple):
    """What an event says of the run, whether it tells what came of a command, and whether that went wrong."""

    meaning: Meaning
    is_command: bool = False
    is_failure: bool = False


_KNOWN: Final[Mapping[str, _Event]] = {
    "run_created": _Event("works"),
    "find_local_run": _Event("works", True),
    "local_exec_completed": _Event("works", True),
    "fixer_patch_promoted": _Event("works"),
    "patch_backup_created": _Event("works"),
    "patch_revert_started": _Event("works"),
    "patch_reverted": _Event("works", True),
    "patch_apply": _Event("works", True),
    "verify_started": _Event("verifies"),
    "verify_complete": _Event("verified", True),
    "verify_passed": _Event("verified"),
    "outbox_prompt_fulfilled": _Event("moves"),
    "outbox_prompt_created": _Event("waits"),
    "local_exec_failed": _Event("waits", True, True),
    "patch_rejected": _Event("waits"),
    "patch_revert_failed": _Event("waits", True, True),
    "apply_blocked_dirty": _Event("waits"),
    "stop_budget_exceeded": _Event("waits"),
    "stop_max_iterations": _Event("waits"),
    "blocked": _Event("waits"),
    "run_pass": _Event("passed"),
    "verify_failed": _Event("failed"),
    "failure_bundle_created": _Event("failed"),
}
_EVENTS: Final[Mapping[str, _Event]] = {
    **_KNOWN,
    **{name.upper(): event for name, event in _KNOWN.items()},
}
"""Real logs have names in both cases."""

_WORK: Final = frozenset({"works", "verifies"})
_VERIFICATION: Final = frozenset({"verifies", "verified", "passed", "failed"})
_LIMITS: Final = ("max_iterations", "budget")
_OPEN_WORDS: Final = frozenset({"running", "blocked"})
_LONGEST_TIME: Final = 40
_QUARTER: Final = 900
_FARTHEST_ZONE: Final = 14 * 3600
_LAG: Final = 2


@dataclass(frozen=True, slots=True)
class Run:
    """What `RUN.json` says; `ahead` is how far its zoneless times are ahead of UTC (s)."""

    run_id: str | None
    status: str
    blocked_reason: str | None
    goal: str | None
    repository: str | None
    created_at: str | None
    updated_at: str | None
    ahead: int


@dataclass(slots=True)
class Log:
    """What `events.jsonl` told so far. Times are as it writes them: their zone may be learnt later.

    Only `feed` changes one, and only its own copy.
    """

    attempt: int = 0
    end: Literal["", "passed", "failed"] = ""
    is_waiting: bool = False
    is_verifying: bool = False
    knows_verification: bool = False
    started_at: str | None = None
    moved_at: str | None = None
    ended_at: str | None = None
    events: int = 0
    commands: int = 0
    errors: int = 0

    def clip_times(self) -> None:
        """Nobody's idea of a time is long."""
        self.started_at = text_in(self.started_at, _LONGEST_TIME)
        self.moved_at = text_in(self.moved_at, _LONGEST_TIME)
        self.ended_at = text_in(self.ended_at, _LONGEST_TIME)

    def take(self, event: _Event, exit_code: JsonValue, at: str | None) -> bool:
        """Take in an event that is known; True where it begins the next attempt after an end."""
        meaning, is_command, is_failure = event
        if is_command:
            self.commands += 1
            self.errors += is_failure or is_error_code(exit_code)
        goes_on = self.end != ""
        if goes_on and meaning not in _WORK:
            return False
        self.is_verifying = meaning == "verifies"
        self.is_waiting = meaning == "waits"
        if meaning in _VERIFICATION:
            self.knows_verification = True
            if meaning == "passed" or meaning == "failed":
                self.end, self.ended_at = meaning, at
                return False
        if goes_on:
            self.attempt, self.end, self.started_at, self.ended_at = self.attempt + 1, "", at, None
        return goes_on


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a run."""

    version: Literal[1]
    name: str
    log: Log
    run: Run | None = None
    result: str = ""
    unreadable: int = 0
    complaints: tuple[Complaint, ...] = ()
    in_documents: tuple[Complaint, ...] = ()


_STATE: Final = TypeAdapter(State)


def recognises_directory(names: frozenset[str], heads: Heads) -> bool:
    """A run of the orchestrator by its own files, or one that holds to the artifact contracts alone."""
    if any(_SCHEMA.search(heads.get(name, b"")) for name in (RUN, REPOSITORY)):
        return True
    if "artifacts" not in names or names & _OF_NATIVE:
        return False
    first = heads.get(EVENTS, b"").split(b"\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]
    return any(all(key in line for key in _EVENT_KEYS) and not _OF_RUNWARD.search(line) for line in first)


class CtcpScanner:
    """Reads CTCP run directories; the head of the module says what becomes of their words."""

    def start(self, name: str) -> State:
        return State(1, name, Log())

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        if file != EVENTS:
            return state, ()
        log, ahead, known = replace(state.log), _ahead(state.run), _EVENTS
        unreadable = Unreadable(state.unreadable, state.complaints)
        resumed: list[Resumed] = []
        events, moved_at = 0, log.moved_at
        for record in records(file, lines, unreadable):
            if not isinstance(record, dict):
                continue
            events += 1
            at = record.get("ts")
            if isinstance(at, str):
                moved_at = at
            else:
                at = None
            if not log.attempt:
                log.attempt, log.started_at = 1, at
            name = record.get("event")
            if isinstance(name, str) and (event := known.get(name)) is not None:
                end, ended_at = log.end, log.ended_at
                if log.take(event, record.get("rc"), at):
                    before = _close_of_log(end, ended_at, ahead)
                    resumed.append(Resumed(log.attempt, before, _time(at, ahead)))
        log.events, log.moved_at = log.events + events, moved_at
        log.clip_times()
        complaints = tuple(unreadable.complaints)
        return replace(state, log=log, unreadable=unreadable.count, complaints=complaints), tuple(resumed)

    def see(self, state: State, documents: Sequence[Document]) -> State:
        for document in documents:
            if document.name not in DOCUMENTS:
                continue
            content = document_object(document)
            others = tuple(each for each in state.in_documents if each.file != document.name)
            if isinstance(content, Complaint):
                state = replace(state, in_documents=(*others, content))
            elif document.name == RUN:
                run = _run(content, document.modified_at)
                state = replace(state, run=run, in_documents=(*others, *_strange_word(run)))
            else:
                result = (text_in(content.get("result"), 20) or "").upper()
                state = replace(state, result=result, in_documents=others)
        return state

    def tell(self, state: State) -> Told:
        run, log, ahead = state.run, state.log, _ahead(state.run)
        close, declared = _close(state)
        attempt = log.attempt or int(run is not None or bool(state.result))
        is_open = close is None and attempt > 0
        status = run.status if run else ""
        started_at = _time(log.started_at, ahead)
        if started_at is None and attempt == 1 and run:
            started_at = _time(run.created_at, ahead)
        return Told(
            session_id=(run and run.run_id) or state.name,
            attempt=attempt,
            turn="closed" if close else "open" if is_open else "none",
            close=close,
            declared=declared,
            headless=True,
            waiting=is_open and not log.is_verifying and (status == "blocked" or log.is_waiting),
            started_at=started_at,
            moved_at=_later(_time(log.moved_at, ahead), _time(run.updated_at, ahead) if run else None),
            cwd=run.repository if run else None,
            prompt=run.goal if run else None,
            counts=Counts(log.events, log.commands, log.errors),
            unreadable=state.unreadable,
            complaints=(*state.in_documents, *state.complaints),
        )

    def dump(self, state: State) -> str:
        return _STATE.dump_json(state).decode()

    def load(self, text: str) -> State:
        return _STATE.validate_json(text, strict=True)


SCANNER: Final = CtcpScanner()


def _run(content: dict[str, JsonValue], modified_at: float) -> Run:
    updated_at = text_in(content.get("updated_at"), _LONGEST_TIME)
    goal = text_in(content.get("goal"))
    return Run(
        text_in(content.get("run_id")),
        (text_in(content.get("status"), 40) or "").lower(),
        text_in(content.get("blocked_reason"), 200),
        clip_prompt(goal) if goal else None,
        text_in(content.get("repo_root")),
        text_in(content.get("created_at"), _LONGEST_TIME),
        updated_at,
        _ahead_of_utc(updated_at, modified_at),
    )


def _strange_word(run: Run) -> tuple[Complaint, ...]:
    if not run.status or run.status in _OPEN_WORDS or run.status in ("pass", "fail"):
        return ()
    message = f"status is {run.status!r}, which says nothing that is known here"
    return (Complaint(RUN, None, message, "known are running, blocked, pass and fail"),)


def _close(state: State) -> tuple[Close | None, bool]:
    """How the run ended if it did, and whether a file that is written whole says so."""
    run, log, ahead = state.run, state.log, _ahead(state.run)
    if run is not None and run.status:
        at = _time(run.updated_at, ahead)
        if run.status == "pass":
            return Close("completed", "run.completed.ok", "the run passed", at), True
        goes_on = log.attempt > 1 and not log.end
        if run.status == "fail" and not goes_on:
            return _failed(run.blocked_reason, at), True
        return None, False
    if log.end:
        return _close_of_log(log.end, log.ended_at, ahead), False
    if not log.knows_verification:
        if state.result == "PASS":
            return Close("completed", "run.completed.ok", "its verification passed"), True
        if state.result == "FAIL":
            return _failed(None, None), True
    return None, False


def _close_of_log(end: str, ended_at: str | None, ahead: int) -> Close:
    at = _time(ended_at, ahead)
    if end == "passed":
        return Close("completed", "run.completed.ok", "the run passed", at)
    return _failed(None, at)


def _failed(why: str | None, at: float | None) -> Close:
    summary = f"the run failed: {why}" if why else "its verification failed"
    if why and any(word in why for word in _LIMITS):
        return Close("failed", "run.failed.limit_reached", summary, at)
    return Close("failed", "run.failed.exception", summary, at)


def _ahead(run: Run | None) -> int:
    return run.ahead if run else 0


def _ahead_of_utc(written: str | None, modified_at: float) -> int:
    """How far zoneless times are ahead of UTC (s), by one of them and the moment at which its file was written.

    0 where the two don't belong together by the quarter of an hour, as in a copy that was made later.
    """
    local = _time(written, 0)
    if local is None:
        return 0
    difference = local - modified_at
    if abs(difference) > _FARTHEST_ZONE + _LAG:
        return 0
    zone = round(difference / _QUARTER) * _QUARTER
    return zone if abs(difference - zone) <= _LAG else 0


def _time(written: str | None, ahead: int) -> float | None:
    """ISO 8601 as Unix seconds. Real files have times with a zone and without one, side by side."""
    if written is None:
        return None
    try:
        moment = datetime.fromisoformat(written)
        at = moment.timestamp() if moment.tzinfo else moment.replace(tzinfo=UTC).timestamp() - ahead
    except (ValueError, OverflowError):
        return None
    return at if 0.0 <= at <= LATEST else None


def _later(one: float | None, other: float | None) -> float | None:
    return max((at for at in (one, other) if at is not None), default=None)
