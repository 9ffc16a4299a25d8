"""The CTCP run directory: `RUN.json` where there is one, `events.jsonl`, and `artifacts/verify_report.json`.

Source: the CTCP artifact contracts, I (verify_report.json) and J (events.jsonl). `RUN.json` came with the orchestrator.
If it is there it decides, because the orchestrator itself relies on it. Its words, and what they become:

- `running`: an open turn. `blocked`: an open turn that waits for a person, also where a limit of its own blocks it
  (`blocked_reason` `max_iterations_exceeded`, `budget_exceeded`), because a person may raise the limit.
- `pass`: `completed`, `run.completed.ok`.
- `fail`: `failed`, `run.failed.exception`, the orchestrator's own word for any failed step; `run.failed.limit_reached`
  where `blocked_reason` names a budget or the iterations. A failed run may go on: the word then stays `fail` while the
  log reports work, so work in the log after the failure opens the next attempt.
- any other word: an open turn, and a complaint.

Without `RUN.json` the log's own ends count (`run_pass`; `VERIFY_FAILED`, `failure_bundle_created`), and where the log
knows no verification, as in a sister workflow's, the report's `result`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Place, Unusable, answered
from runward.handlers.calls import Told as ToldCall
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.call_readers import CallLayout, PlacedLine
from runward.handlers.layouts.ctcp_log import (
    KNOWN,
    LONGEST_TIME,
    LineFault,
    Log,
    ahead_of_utc,
    read_line,
    time_at,
)
from runward.handlers.layouts.foreign_values import document_object, text_in, whole_in
from runward.handlers.layouts.native import OF_A_RUN
from runward.handlers.layouts.transcript import (
    Close,
    Counts,
    Heads,
    KeepsState,
    LogLine,
    Resumed,
    Told,
    clip_prompt,
    closed,
)
from runward.handlers.layouts.transcript_lines import Unreadable, records
from runward.handlers.model.sessions import Complaint, Document

LAYOUT: Final = "ctcp"
SHOWN_BY: Final = (
    "a `RUN.json` or `repo_ref.json` with CTCP's `schema_version`, or an `artifacts` folder and "
    "an `events.jsonl` with CTCP's keys"
)
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
_LINES_LOOKED_AT: Final = 20

_FIX: Final = "counted as far as it can be read"

_LIMITS: Final = ("max_iterations", "budget")
_OPEN_WORDS: Final = frozenset({"running", "blocked"})


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


def recognises_directory(names: frozenset[str], heads: Heads) -> bool:
    """A run of the orchestrator by its own files, or a run that only follows the artifact contracts."""
    if any(_SCHEMA.search(heads.get(name, b"")) for name in (RUN, REPOSITORY)):
        return True
    # A native run's journal has lines of the same form.
    if "artifacts" not in names or names & OF_A_RUN:
        return False
    first = heads.get(EVENTS, b"").split(b"\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]
    return any(all(key in line for key in _EVENT_KEYS) and not _OF_RUNWARD.search(line) for line in first)


class CtcpScanner(KeepsState[State]):
    """Reads CTCP run directories. The module's docstring says what its words mean."""

    def start(self, name: str) -> State:
        return State(1, name, Log())

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        if file != EVENTS:
            return state, ()
        log, ahead, known = replace(state.log), _ahead(state.run), KNOWN
        unreadable = Unreadable(state.unreadable, state.complaints)
        resumed: list[Resumed] = []
        events, moved_at = 0, log.moved_at
        for record in _events(lines, unreadable):
            if not isinstance(record, dict):
                continue
            events += 1
            at = record.get("ts")
            if isinstance(at, str):
                moved_at = at
            else:
                at = None
            if not log.attempt:
                log.attempt, log.started_at = 1, at and at[:LONGEST_TIME]
            name = record.get("event")
            if isinstance(name, str) and (event := known.get(name)) is not None:
                end, ended_at, attempt, began_at = log.end, log.ended_at, log.attempt, log.started_at
                # Work after an end begins the next attempt, and the end before it is reported with it.
                if log.take(event, record.get("rc"), at):
                    before = _close_of_log(end, ended_at, ahead)
                    started_at, began = time_at(log.started_at, ahead), time_at(began_at, ahead)
                    resumed.append(Resumed(log.attempt, before, started_at, attempt, began))
        log.events, log.moved_at = log.events + events, moved_at and moved_at[:LONGEST_TIME]
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
        started_at = time_at(log.started_at, ahead)
        if started_at is None and attempt == 1 and run:
            started_at = time_at(run.created_at, ahead)
        return Told(
            session_id=(run and run.run_id) or state.name,
            attempt=attempt,
            turn="closed" if close else "open" if is_open else "none",
            close=close,
            declared=declared,
            headless=True,
            waiting=is_open and not log.is_verifying and (status == "blocked" or log.is_waiting),
            started_at=started_at,
            moved_at=_later(time_at(log.moved_at, ahead), time_at(run.updated_at, ahead) if run else None),
            cwd=run.repository if run else None,
            prompt=run.goal if run else None,
            counts=Counts(log.events, log.commands, log.errors),
            unreadable=state.unreadable,
            complaints=(*state.in_documents, *state.complaints),
            turns=attempt,
        )


SCANNER: Final = CtcpScanner(State)


def _events(lines: Sequence[LogLine], unreadable: Unreadable) -> Iterator[JsonValue]:
    """What the lines hold. Each line that breaks contract J is named, but what can be read of it still counts."""
    beside = Unreadable(0, ())
    for line in lines:
        if not line.is_cut and line.content and not line.content.isspace():
            event = read_line(line.content)
            if isinstance(event, LineFault):
                unreadable.add(EVENTS, line.number, event.message, _FIX)
        yield from records(EVENTS, (line,), unreadable if line.is_cut else beside)


def _run(content: dict[str, JsonValue], modified_at: float) -> Run:
    updated_at = text_in(content.get("updated_at"), LONGEST_TIME)
    goal = text_in(content.get("goal"))
    return Run(
        run_id=text_in(content.get("run_id")),
        status=(text_in(content.get("status"), 40) or "").lower(),
        blocked_reason=text_in(content.get("blocked_reason"), 200),
        goal=clip_prompt(goal) if goal else None,
        repository=text_in(content.get("repo_root")),
        created_at=text_in(content.get("created_at"), LONGEST_TIME),
        updated_at=updated_at,
        ahead=ahead_of_utc(updated_at, modified_at),
    )


def _strange_word(run: Run) -> tuple[Complaint, ...]:
    if not run.status or run.status in _OPEN_WORDS or run.status in ("pass", "fail"):
        return ()
    message = f"status is {run.status!r}, which is not a known status"
    return (Complaint(RUN, None, message, "known are running, blocked, pass and fail"),)


def _close(state: State) -> tuple[Close | None, bool]:
    """How the run ended if it did, and whether a file that is written whole says so."""
    run, log, ahead = state.run, state.log, _ahead(state.run)
    if run is not None and run.status:
        at = time_at(run.updated_at, ahead)
        if run.status == "pass":
            return closed("run.completed.ok", "the run passed", at), True
        goes_on = log.attempt > 1 and not log.end
        if run.status == "fail" and not goes_on:
            return _failed(run.blocked_reason, at), True
        return None, False
    if log.end:
        return _close_of_log(log.end, log.ended_at, ahead), False
    if not log.knows_verification:
        if state.result == "PASS":
            return closed("run.completed.ok", "its verification passed"), True
        if state.result == "FAIL":
            return _failed(None, None), True
    return None, False


def _close_of_log(end: str, ended_at: str | None, ahead: int) -> Close:
    at = time_at(ended_at, ahead)
    if end == "passed":
        return closed("run.completed.ok", "the run passed", at)
    return _failed(None, at)


def _failed(why: str | None, at: float | None) -> Close:
    summary = f"the run failed: {why}" if why else "its verification failed"
    if why and any(word in why for word in _LIMITS):
        return closed("run.failed.limit_reached", summary, at)
    return closed("run.failed.exception", summary, at)


def _ahead(run: Run | None) -> int:
    return run.ahead if run else 0


def _later(one: float | None, other: float | None) -> float | None:
    return max((at for at in (one, other) if at is not None), default=None)


_VERIFY: Final = "verify"
_BEGINS: Final = "verify_started"
_OVER: Final = "verify_complete"
_TOOLS: Final[Mapping[str, str]] = {
    "verify_complete": _VERIFY,
    "local_exec_completed": "local_exec",
    "local_exec_failed": "local_exec",
    "patch_reverted": "patch_revert",
    "patch_revert_failed": "patch_revert",
}
"""What was called, for events whose name says how it ended."""

_NO_OUTPUT: Final = frozenset({"ts", "role", "event", "rc", "cmd"})


@dataclass(slots=True)
class CallsState:
    """What is known so far: how far zoneless times are ahead of UTC (s), and the verification that runs."""

    ahead: int = 0
    verifying: str | None = None


class CtcpCalls:
    """Reads the commands in a run's log: each event that reports a command's result is a call with its result.

    A verification begins with one event and ends with another. Every other command is recorded when it is over, by a
    single line, so its call and its result have the same time.
    """

    def __init__(self) -> None:
        self._state = CallsState()

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[ToldCall]:
        """What further lines say."""
        for line in lines:
            content = line.content
            if not content or content.isspace():
                continue
            value = read_json(content)
            if isinstance(value, NotJson):
                yield Unusable(line.place(source), value.message)
            elif isinstance(value, dict):
                yield from self._event(line.place(source), value)

    def see(self, document: Document) -> Iterator[ToldCall]:
        """The run's own file says in which zone the times are."""
        content = document_object(document) if document.name == RUN else {}
        if not isinstance(content, Complaint):
            written = text_in(content.get("updated_at"))
            if written is not None:
                self._state.ahead = ahead_of_utc(written, document.modified_at)
        return iter(())

    def _event(self, place: Place, record: dict[str, JsonValue]) -> Iterator[ToldCall]:
        name = record.get("event")
        known = KNOWN.get(name) if isinstance(name, str) else None
        if known is None or not isinstance(name, str):
            return
        event, ts = name.lower(), record.get("ts")
        at = time_at(ts, self._state.ahead) if isinstance(ts, str) and len(ts) <= 64 else None
        if event == _BEGINS:
            self._state.verifying = f"{_VERIFY}@{place.line}"
            yield Called(place, at, self._state.verifying, _VERIFY, _command(record))
            return
        if not known.is_command:
            return
        if event == _OVER and self._state.verifying is not None:
            call, self._state.verifying = self._state.verifying, None
        else:
            tool = _TOOLS.get(event, event)
            call = f"{tool}@{place.line}"
            yield Called(place, at, call, tool, _command(record))
        exit_code = whole_in(record.get("rc"))
        output: JsonValue = {key: value for key, value in record.items() if key not in _NO_OUTPUT}
        failed = known.is_failure or bool(exit_code)
        yield answered(place, at, call, output, failed=failed, exit_code=exit_code)


def _command(record: dict[str, JsonValue]) -> JsonValue:
    return {key: record[key] for key in ("cmd", "path") if key in record}


CALLS: Final = CallLayout(lambda name, beside: CtcpCalls(), logs=(EVENTS,), documents=(RUN,))
