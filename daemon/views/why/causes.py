"""The causes of a session or a job, in order: from the store's rows to entries with words for them.

Each event comes with what followed from it: decisions, changes of status with their evidence, lines of
journals, and jobs that aren't done. `stories.py` makes stories of them.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store import reading_causes, reading_sessions, reading_starts
from runward.daemon.store.reading_causes import CancellationRow, DecisionRow, EventRow, JobRow, LineRow
from runward.daemon.store.reading_sessions import StatusChange
from runward.daemon.views.units import duration, iso, local
from runward.daemon.views.why.event_sentences import sentence
from runward.handlers.exchange.intent import line_without_content, without_content
from runward.handlers.requests.subjects import of_start

_LATE = 2.0
"""Seconds between a fact and its record from which on it is worth a word."""


class Entry(NamedTuple):
    """One cause. `kind` is event, decision, order, status, journal or job; `at` Unix seconds; `notes` its evidence."""

    kind: str
    at: float
    event: str
    summary: str
    detail: Mapping[str, JsonValue]
    notes: tuple[str, ...] = ()

    def as_json(self) -> JsonValue:
        return {
            "at": iso(self.at),
            "kind": self.kind,
            "event": self.event,
            "summary": self.summary,
            **self.detail,
        }


_CAUSE_NOTHING: Final = ("RunLaunched", "SessionSeenRequested")
"""Types of events that change nothing about their session."""


def causes_of_session(connection: sqlite3.Connection, key: str) -> list[Entry]:
    """Everything that is recorded about a session, first cause first."""
    events = [
        event for event in reading_causes.session_events(connection, key) if event.type not in _CAUSE_NOTHING
    ]
    jobs = reading_causes.jobs_for_events(connection, [event.seq for event in events])
    decisions = reading_causes.decisions_about(connection, key)
    history = reading_sessions.status_history(connection, key)
    lines = reading_causes.lines_of(connection, key)
    orders = reading_causes.cancellations(connection, key)
    found = list(_entries(events, jobs, decisions, history, lines, key, orders))
    start = reading_starts.start_of_session(connection, key)
    return found if start is None else [*causes_of_start(connection, start.name), *found]


def causes_of_start(connection: sqlite3.Connection, name: str) -> list[Entry]:
    """Who asked for the run called `name`, and what followed, first cause first."""
    decisions = reading_causes.decisions_about(connection, of_start(name))
    events = reading_causes.events_with_causes(connection, {each.event for each in decisions})
    jobs = reading_causes.jobs_for_events(connection, [event.seq for event in events])
    return list(_entries(events, jobs, decisions, (), (), ""))


MOST_FIRINGS: Final = 50
"""Of a chain that fired thousands of times the newest are shown."""


def causes_of_chain(connection: sqlite3.Connection, subject: str) -> list[Entry]:
    """What fired a chain lately, was skipped, paused or resumed it, the first cause first."""
    return _causes(connection, reading_causes.decisions_about(connection, subject)[-MOST_FIRINGS:])


def causes_of_chain_run(connection: sqlite3.Connection, run: str) -> list[Entry]:
    """What fired a chain run, what was decided of its steps, and how it ended, the first cause first."""
    finished = reading_causes.event_recorded(connection, f"{run}/finished")
    further = () if finished is None else (finished,)
    return _causes(connection, reading_causes.decisions_about(connection, run), further)


def _causes(
    connection: sqlite3.Connection, decisions: Sequence[DecisionRow], further: Sequence[int] = ()
) -> list[Entry]:
    """These decisions with their events and causes, and those of `further` events."""
    numbers = {*(each.event for each in decisions), *further}
    events = reading_causes.events_with_causes(connection, numbers)
    jobs = reading_causes.jobs_for_events(connection, [event.seq for event in events])
    return list(_entries(events, jobs, decisions, (), (), ""))


def causes_of_job(connection: sqlite3.Connection, job: JobRow) -> list[Entry]:
    """Everything that is recorded about a job, first cause first; also what people asked of it."""
    asked = reading_causes.decisions_about(connection, f"job {job.id}")
    about = reading_causes.decisions_about(connection, job.lane)
    decisions = [each for each in about if each.event == job.event and each.handler == job.handler]
    numbers = {job.event, *(each.event for each in asked)}
    events = reading_causes.events_with_causes(connection, sorted(numbers))
    jobs = reading_causes.jobs_for_events(connection, numbers)
    mine = [each for each in jobs if each.id == job.id or each.event != job.event]
    return list(_entries(events, mine, [*decisions, *asked], (), (), job.lane))


def _entries(
    events: Sequence[EventRow],
    jobs: Sequence[JobRow],
    decisions: Sequence[DecisionRow],
    history: Sequence[StatusChange],
    lines: Sequence[LineRow],
    key: str,
    orders: Sequence[CancellationRow] = (),
) -> Iterator[Entry]:
    for event in events:
        yield _event(event)
        for decision in decisions:
            if decision.event == event.seq:
                yield _decision(event, decision)
        for order in orders:
            if order.event == event.seq:
                yield _order(event, order)
        for change in history:
            if _brought_about(key, change) == event.key:
                yield _status(event, change)
        for line in lines:
            if line.event == event.seq:
                yield _line(event, line)
        for job in jobs:
            if job.event == event.seq and job.state != "done":
                yield _job(event, job)


def _brought_about(key: str, change: StatusChange) -> str:
    """The key of the event that a change of status followed from."""
    return f"{key}#{change.attempt}/{'started' if change.status == 'running' else 'ended'}"


def _event(event: EventRow) -> Entry:
    payload = _without_content(event.type, json.loads(event.payload))
    late = event.recorded_at - event.at
    noted = f"recorded {duration(late)} later, at {local(event.recorded_at)}" if late > _LATE else None
    caused = f"caused by {event.cause}" if event.cause is not None else None
    return Entry(
        "event",
        event.at,
        event.key,
        f"{event.type}: {sentence(event.type, payload)}",
        {
            "type": event.type,
            "recorded_at": iso(event.recorded_at),
            "cause": event.cause,
            "hash": event.hash,
            "payload": payload,
        },
        tuple(note for note in (noted, caused) if note is not None),
    )


def _without_content(kind: str, payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What an event says, without what others pay for in the exchange."""
    text, told = payload.get("text"), payload.get("told")
    if kind == "ActionTaken" and isinstance(told, dict):
        bare = {name: without_content(told.get(name)) for name in ("intent", "result")}
        return {**payload, "told": {**told, **bare}}
    if kind in ("IntentMade", "ActionRequested") and isinstance(text, str):
        return {**payload, "text": line_without_content(text)}
    return payload


def _decision(event: EventRow, decision: DecisionRow) -> Entry:
    known = _by_file_at_fault(json.loads(decision.known) if decision.known is not None else None)
    found = known.get("not_delivered") if isinstance(known, dict) else None
    notes = [f"{path}: {why}" for path, why in found.items()] if isinstance(found, dict) else []
    if isinstance(known, dict) and known.get("artifacts_root"):
        notes.append(f"the artifacts' directory is {known['artifacts_root']}")
    if isinstance(known, dict):
        notes += _invalid_outcomes(known.get("invalid_outcomes"))
    return Entry(
        "decision",
        decision.at,
        event.key,
        f"{decision.handler} {decision.verdict}: {decision.summary}",
        {"verdict": decision.verdict, "handler": decision.handler, "known": known},
        tuple(notes),
    )


def _by_file_at_fault(known: JsonValue) -> JsonValue:
    """What a verdict knew, with what was not delivered under the names of the files that are the reasons."""
    if not isinstance(known, dict):
        return known
    not_delivered, files = known.get("not_delivered"), known.get("at_fault")
    if not isinstance(not_delivered, dict) or not isinstance(files, dict):
        return known
    reasons: dict[str, list[str]] = {}
    for path, why in not_delivered.items():
        file = str(files.get(path, path))
        reasons.setdefault(file, []).append(str(why).removeprefix(f"{file}: "))
    by_file: dict[str, JsonValue] = {file: "; ".join(whys) for file, whys in reasons.items()}
    return {**{key: each for key, each in known.items() if key != "at_fault"}, "not_delivered": by_file}


def _invalid_outcomes(invalid: JsonValue) -> list[str]:
    """Each wrong field of each invalid outcome, after the name of its file."""
    if not isinstance(invalid, dict):
        return []
    return [
        f"invalid outcome {file}: {problem}"
        for file, problems in invalid.items()
        for problem in (problems if isinstance(problems, list) else [problems])
    ]


def _order(event: EventRow, order: CancellationRow) -> Entry:
    """The result of the order to end the run."""
    done = "no process could be asked to end: " if order.told is False else ""
    return Entry(
        "order",
        event.recorded_at if order.at is None else order.at,
        event.key,
        f"{done}{order.outcome}" if order.outcome is not None else "the run has not been asked to end yet",
        {"attempt": order.attempt, "told": order.told, "outcome": order.outcome},
    )


def _status(event: EventRow, change: StatusChange) -> Entry:
    references = json.loads(change.evidence_refs)
    before = f" (it was {change.replaced})" if change.replaced is not None else ""
    return Entry(
        "status",
        change.at,
        event.key,
        f"{change.status}{before}: {change.reason_code}, {change.reason_summary}",
        {
            "status": change.status,
            "replaced": change.replaced,
            "reason_code": change.reason_code,
            "reason_summary": change.reason_summary,
            "source": change.source,
            "evidence_refs": references,
        },
        tuple(f"evidence: {each['kind']} {each['id']} ({each['label']})" for each in references),
    )


def _line(event: EventRow, line: LineRow) -> Entry:
    place = {
        "done": f"{line.length} bytes are at {line.offset}",
        "owed": f"{line.length} bytes are on their way (not synced yet)",
        "discarded": f"{line.length} bytes were given up: {line.why}",
    }[line.state]
    return Entry(
        "journal",
        event.recorded_at,
        event.key,
        f"{line.name}: {place}",
        {
            "name": line.name,
            "state": line.state,
            "offset": line.offset,
            "length": line.length,
            "why": line.why,
        },
    )


def _job(event: EventRow, job: JobRow) -> Entry:
    error = f": {job.error}" if job.error else ""
    return Entry(
        "job",
        job.updated_at,
        event.key,
        f"job {job.id} ({job.handler}) is {job.state}{error}",
        {
            "job": job.id,
            "handler": job.handler,
            "state": job.state,
            "tries": job.tries,
            "error": job.error,
            "due_at": iso(job.run_after) if job.run_after else None,
            "blocked_by": job.blocked_by,
        },
    )
