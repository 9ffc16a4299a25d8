"""What `runward inspect` shows of a run directory: what its documents say, and what is in its journals."""

import time
from contextlib import closing
from typing import Final, NamedTuple

from runward.config.intent import NotAnIntent
from runward.config.json_value import JsonValue
from runward.daemon.rundir.changes import last_change
from runward.daemon.rundir.growing import Line, Tail
from runward.daemon.rundir.intents import INTENTS
from runward.daemon.rundir.opening import NotRegular, open_in_run
from runward.daemon.views.native_run import NativeRun, read_native
from runward.daemon.views.text import fields
from runward.handlers.exchange.intent import RESULTS, parse_intent, shown
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts import native
from runward.handlers.layouts.transcript import Counts, Usage
from runward.handlers.model.sessions import Complaint
from runward.handlers.sessions.standing import Standing
from runward.handlers.times import iso


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
