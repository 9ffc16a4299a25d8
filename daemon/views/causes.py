"""The causes of a session or a job, in order: from the store's rows to entries with words for them.

Each event comes with what followed from it: decisions, changes of status with their evidence, lines of
journals, and jobs that aren't done. `why.py` makes stories of them.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from runward.config.document import read_json
from runward.config.json_value import JsonValue, objects, texts
from runward.daemon.store.tables import cancellations, journal_lines, sessions, starts
from runward.daemon.store.tables.cancellations import CancellationRow
from runward.daemon.store.tables.events import (
    DecisionRow,
    EventRow,
    decisions_about,
    event_recorded,
    events_with_causes,
    session_events,
)
from runward.daemon.store.tables.jobs import JobRow, jobs_for_events
from runward.daemon.store.tables.journal_lines import LineRow
from runward.daemon.store.tables.sessions import StatusChange
from runward.daemon.views.text import duration, fields, local
from runward.handlers.subjects import of_job, of_start
from runward.handlers.times import iso

Fact: TypeAlias = Mapping[str, JsonValue]

_NAMED: Final = 5
"""Legs of a flow that are named in one sentence."""

_NOBODY: Final = "Runward"
"""Who an event comes from that no person sent: a run that is over, a changed file."""

_HOOK_WORDS: Final = {
    "started": "started",
    "prompted": "was given a prompt",
    "turn_ended": "closed a turn",
    "turn_failed": "failed in a turn",
    "ended": "ended",
}


def sentence(kind: str, fact: Fact) -> str:
    """The event in words. If there are none for its type, these are the words of its name, with its fields."""
    words = SENTENCES.get(kind)
    if words is None:
        return f"{_CAPITAL.sub(_lower, kind).lstrip()}, with {json.dumps(fact, ensure_ascii=False)}"
    if not fact.get("said_by"):
        fact = {**fact, "said_by": _NOBODY}
    return words(fact) if callable(words) else words.format_map(fact)


_CAPITAL: Final = re.compile("[A-Z]")


def _lower(capital: re.Match[str]) -> str:
    return f" {capital[0].lower()}"


def _started(fact: Fact) -> str:
    over = ", and was over when it was first seen" if fact.get("seen_over") else ""
    return f"attempt {fact['attempt']} began{over}"


def _ended(fact: Fact) -> str:
    ended = f"attempt {fact['attempt']} ended: {fact['reason_summary']} (evidence: {fact['evidence']})"
    alive_at, gone_by = fact.get("at"), fact.get("gone_by")
    if not isinstance(alive_at, int | float) or not isinstance(gone_by, int | float):
        return ended
    return f"{ended}; its process was last known alive at {local(alive_at)}, and first found gone at {local(gone_by)}"


def _flow_planned(fact: Fact) -> str:
    legs = fact.get("legs")
    named = [str(leg.get("id")) for leg in objects(legs)]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"a flow was planned, with the legs {', '.join(named[:_NAMED])}{more}"


def _finished(fact: Fact) -> str:
    delivery = f", delivery {fact['delivery']}" if fact.get("delivery") else ""
    return f"the verdict on attempt {fact['attempt']}: {fact['status']}{delivery}"


def _play_requested(fact: Fact) -> str:
    given = json.dumps(fact["given"], ensure_ascii=False) if fact.get("given") else "nothing"
    return f"{fact['said_by']} asked for the playbook {fact['playbook']} with {given}"


def _hook_spoke(fact: Fact) -> str:
    return f"the hook of {fact['layout']} reported that it {_HOOK_WORDS.get(str(fact['kind']))}"


def _action_taken(fact: Fact) -> str:
    done = "was carried out" if fact.get("is_success") else f"failed ({fact.get('error_code')})"
    further = fact.get("further")
    if isinstance(further, list) and further:
        failed = sum(
            not (each.get("is_success") if isinstance(each, dict) else False) for each in (fact, *further)
        )
        return f"{1 + len(further)} actions have their results, and {failed} of them failed"
    return f"the action {fact.get('action_type') or 'of a line that is not an intent'} {done}"


def _status_requested(fact: Fact) -> str:
    asked = {"active": "resume", "paused": "pause", "disabled": "disable"}[str(fact["status"])]
    return f"{fact['said_by']} asked to {asked} the chain {fact['chain']}{_after(fact.get('note'))}"


def _cancel_requested(fact: Fact) -> str:
    if fact.get("superseded"):
        return f"a later run takes the place of {fact['run']}"
    return f"{fact['said_by']} asked to cancel {fact['run']}{_after(fact.get('reason'))}"


def _session_cancel_requested(fact: Fact) -> str:
    return f"{fact['said_by']} asked to cancel attempt {fact['attempt']}{_after(fact.get('reason'))}"


def _answered(fact: Fact) -> str:
    verb = "approved" if fact["decision"] == "approved" else "denied"
    return f"{fact['said_by']} {verb} {fact['approval']}{_after(fact.get('note'))}"


def _schedule_changed(fact: Fact) -> str:
    words = fact.get("words")
    if words is None:
        return f"{fact['chain']} has no schedule now"
    value = read_json(str(words), "").value
    trigger = value.root.get("trigger") if value is not None and isinstance(value.root, dict) else None
    times = trigger.get("schedule") if isinstance(trigger, dict) else None
    return f"the schedule of {fact['chain']} changed" + (f": {times}" if isinstance(times, str) else "")


def _timer_set(fact: Fact) -> str:
    due = fact["due"]
    assert isinstance(due, int | float)
    return f"{fact['subject']} is due at {local(due)}"


def _after(text: JsonValue) -> str:
    return f": {text}" if text else ""


SENTENCES: Final[Mapping[str, str | Callable[[Fact], str]]] = {
    "AttemptStarted": _started,
    "FlowPlanned": _flow_planned,
    "AttemptEnded": _ended,
    "SessionFinished": _finished,
    "JournalDamaged": "in {name}, {lost} of Runward's lines were lost, {changed} changed and {moved} moved",
    "RunLaunched": "a launcher started the command",
    "HookSpoke": _hook_spoke,
    "JobRetryRequested": "{said_by} asked to retry job {job}",
    "JobDiscardRequested": "{said_by} asked to discard job {job}: {reason}",
    "SessionCancelRequested": _session_cancel_requested,
    "SessionSeenRequested": "{said_by} has seen how attempt {attempt} ended",
    "ReceiptSignRequested": "{said_by} asked to sign the receipt of attempt {attempt} with {scheme}",
    "PlayRunRequested": _play_requested,
    "ScanRequested": "{said_by} asked for a scan of every root",
    "PruneRequested": "{said_by} asked to prune old sessions",
    "RootAcceptRequested": "{said_by} accepted the directory of the root {root}",
    "EventOccurred": "{said_by} reported that {name} happened, as {id}",
    "ChainFireRequested": "{said_by} asked to fire the chain {chain}",
    "ChainStatusRequested": _status_requested,
    "ChainRunCancelRequested": _cancel_requested,
    "ChainFired": "{event} fired the chain {chain}",
    "TriggerMatched": "the trigger of {chain} waits for {event}",
    "ChainRunFinished": "the chain run ended {status}: {reason_code}",
    "SlotOffered": "there is a slot for step {step} of {run}",
    "ChainRunTurn": "it is the turn of {run}, after {after}",
    "ApprovalWanted": "step {step} waits for a person",
    "ApprovalRequested": _answered,
    "ApprovalDecided": "the approval of step {step} was decided: {decision}",
    "ScheduleChanged": _schedule_changed,
    "NoticeRetryRequested": "{said_by} asked to try the notice {notice} again",
    "ArtifactAddRequested": "{said_by} added the artifact {kind} {name}",
    "IntentMade": "line {line} of its intents was read",
    "ActionRequested": "{said_by} asked for an action of {principal}",
    "ActionTaken": _action_taken,
    "PrincipalCreateRequested": "{said_by} asked for the principal {principal}",
    "MintRequested": "{said_by} asked to mint {amount} {resource} for {principal}",
    "OutcomesChanged": "attempt {attempt} wrote outcomes",
    "PlayChanged": "the data of the play changed",
    "ArtifactFilesNamed": "artifacts have their content in files",
    "StartFailed": "the run can never begin: {why}",
    "RecordMoved": "the record was restored at other paths",
    "StartedEarlier": "the run had begun before its request was recorded",
    "RemoteStepTaken": "{host} took the order {id}",
    "RemoteStepBegun": "{host} says that the order {id} begins",
    "RemoteStepOver": "the order {id} is over: {end}",
    "RemoteStepOrdered": "this host took the order {id} of {origin}",
    "RemoteStepCancelled": "{origin} does not want the order {id} any more",
    "TimerSet": _timer_set,
    "TimerRang": "the time of {subject} came",
}
"""Templates over an event's fields, or functions of them, by their types. A type without one is told by its name."""


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
    events = [event for event in session_events(connection, key) if event.type not in _CAUSE_NOTHING]
    jobs = jobs_for_events(connection, [event.seq for event in events])
    decisions = decisions_about(connection, key)
    history = sessions.status_history(connection, key)
    lines = journal_lines.lines_of(connection, key)
    orders = cancellations.cancellations(connection, key)
    entries = list(_entries(events, jobs, decisions, key=key, history=history, lines=lines, orders=orders))
    start = starts.start_of_session(connection, key)
    return entries if start is None else [*causes_of_start(connection, start.name), *entries]


def causes_of_start(connection: sqlite3.Connection, name: str) -> list[Entry]:
    """Who asked for the run called `name`, and what followed, first cause first."""
    return _causes(connection, decisions_about(connection, of_start(name)))


MOST_FIRINGS: Final = 50
"""Of a chain that fired thousands of times the newest are shown."""


def causes_of_chain(connection: sqlite3.Connection, subject: str) -> list[Entry]:
    """What fired a chain lately, was skipped, paused or resumed it, the first cause first."""
    return _causes(connection, decisions_about(connection, subject)[-MOST_FIRINGS:])


def causes_of_chain_run(connection: sqlite3.Connection, run: str) -> list[Entry]:
    """What fired a chain run, what was decided of its steps, and how it ended, the first cause first."""
    finished = event_recorded(connection, f"{run}/finished")
    further = () if finished is None else (finished,)
    return _causes(connection, decisions_about(connection, run), further)


def _causes(
    connection: sqlite3.Connection, decisions: Sequence[DecisionRow], further: Sequence[int] = ()
) -> list[Entry]:
    """These decisions with their events and causes, and those of `further` events."""
    numbers = {*(each.event for each in decisions), *further}
    events = events_with_causes(connection, numbers)
    jobs = jobs_for_events(connection, [event.seq for event in events])
    return list(_entries(events, jobs, decisions))


def causes_of_job(connection: sqlite3.Connection, job: JobRow) -> list[Entry]:
    """Everything that is recorded about a job, first cause first; also what people asked of it."""
    asked = decisions_about(connection, of_job(job.id))
    about = decisions_about(connection, job.lane)
    decisions = [each for each in about if each.event == job.event and each.handler == job.handler]
    numbers = {job.event, *(each.event for each in asked)}
    events = events_with_causes(connection, sorted(numbers))
    jobs = jobs_for_events(connection, numbers)
    # An event has a job for each handler. The others tell nothing about this one.
    mine = [each for each in jobs if each.id == job.id or each.event != job.event]
    return list(_entries(events, mine, [*decisions, *asked]))


def _entries(
    events: Sequence[EventRow],
    jobs: Sequence[JobRow],
    decisions: Sequence[DecisionRow],
    *,
    key: str = "",
    history: Sequence[StatusChange] = (),
    lines: Sequence[LineRow] = (),
    orders: Sequence[CancellationRow] = (),
) -> Iterator[Entry]:
    for event in events:
        yield _event(event)
        yield from (_decision(event, each) for each in decisions if each.event == event.seq)
        yield from (_order(event, each) for each in orders if each.event == event.seq)
        yield from (_status(event, each) for each in history if _brought_about(key, each) == event.key)
        yield from (_line(event, each) for each in lines if each.event == event.seq)
        yield from (_job(event, each) for each in jobs if each.event == event.seq and each.state != "done")


def _brought_about(key: str, change: StatusChange) -> str:
    """The key of the event that a change of status followed from."""
    # The history has no event's number. The keys of such events are made of the session and its attempt.
    return f"{key}#{change.attempt}/{'started' if change.status == 'running' else 'ended'}"


def _event(event: EventRow) -> Entry:
    # Others pay to read what is in the exchange: `why` must not show it for nothing.
    payload = _without_content(event.type, json.loads(event.payload))
    late = event.recorded_at - event.at
    noted = f"recorded {duration(late)} later, at {local(event.recorded_at)}" if late > _LATE else None
    caused = f"caused by {event.cause}" if event.cause is not None else None
    return Entry(
        kind="event",
        at=event.at,
        event=event.key,
        summary=f"{event.type}: {sentence(event.type, payload)}",
        detail={**fields(event, "type recorded_at cause hash"), "payload": payload},
        notes=tuple(note for note in (noted, caused) if note is not None),
    )


def _without_content(kind: str, payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What an event says, without what others pay for in the exchange."""
    if kind not in ("ActionTaken", "IntentMade", "ActionRequested"):
        return payload
    from runward.handlers.exchange.intent import (  # most do without actions
        line_without_content,
        without_content,
    )

    text, line = payload.get("text"), payload.get("told")
    if kind == "ActionTaken" and isinstance(line, dict):
        bare = {name: without_content(line.get(name)) for name in ("intent", "result")}
        payload = {**payload, "told": {**line, **bare}}
        further = payload.get("further")
        if isinstance(further, list):
            bare_ones: list[JsonValue] = [
                _without_content(kind, each) for each in further if isinstance(each, dict)
            ]
            payload["further"] = bare_ones
        return payload
    if kind != "ActionTaken" and isinstance(text, str):
        return {**payload, "text": line_without_content(text)}
    return payload


def _decision(event: EventRow, decision: DecisionRow) -> Entry:
    known = _by_file_at_fault(json.loads(decision.known) if decision.known is not None else None)
    reasons = known.get("not_delivered") if isinstance(known, dict) else None
    notes = [f"{path}: {why}" for path, why in reasons.items()] if isinstance(reasons, dict) else []
    if isinstance(known, dict) and known.get("artifacts_root"):
        notes.append(f"the artifacts' directory is {known['artifacts_root']}")
    if isinstance(known, dict):
        invalid = invalid_outcomes(known)
        notes += [f"invalid outcome {file}: {problem}" for file, problems in invalid for problem in problems]
        notes += [f"accepted by {each}" for each in texts(known.get("accepted_by"))]
    return Entry(
        kind="decision",
        at=decision.at,
        event=event.key,
        summary=f"{decision.handler} {decision.verdict}: {decision.summary}",
        detail={**fields(decision, "verdict handler"), "known": known},
        notes=tuple(notes),
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


def invalid_outcomes(known: Mapping[str, JsonValue]) -> list[tuple[str, list[str]]]:
    """Each file that a verdict knew as no valid outcome, with each of its wrong fields."""
    invalid = known.get("invalid_outcomes")
    if not isinstance(invalid, dict):
        return []
    return [
        (file, [str(each) for each in (problems if isinstance(problems, list) else [problems])])
        for file, problems in invalid.items()
    ]


def _order(event: EventRow, order: CancellationRow) -> Entry:
    """The result of the order to end the run."""
    done = "no process could be asked to end: " if order.told is False else ""
    return Entry(
        "order",
        event.recorded_at if order.at is None else order.at,
        event.key,
        f"{done}{order.outcome}" if order.outcome is not None else "the run has not been asked to end yet",
        fields(order, "attempt told outcome"),
    )


def _status(event: EventRow, change: StatusChange) -> Entry:
    references = json.loads(change.evidence_refs)
    before = f" (it was {change.replaced})" if change.replaced is not None else ""
    return Entry(
        kind="status",
        at=change.at,
        event=event.key,
        summary=f"{change.status}{before}: {change.reason_code}, {change.reason_summary}",
        detail={
            **fields(change, "status replaced reason_code reason_summary source"),
            "evidence_refs": references,
        },
        notes=tuple(f"evidence: {each['kind']} {each['id']} ({each['label']})" for each in references),
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
        fields(line, "name state offset length why"),
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
            **fields(job, "handler state tries error"),
            "due_at": iso(job.run_after) if job.run_after else None,
            "blocked_by": job.blocked_by,
        },
    )
