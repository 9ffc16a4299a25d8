"""What a run directory says by itself: its files, and the process where they name one. No daemon, no store.

The conclusions are those of the daemon's own functions; an open run that nobody can judge is `unknown`.
"""

import os
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.cli.output import iso
from runward.daemon.ports import Gone
from runward.daemon.processes.machine import RealProcesses
from runward.daemon.rundir.inspecting import last_change
from runward.daemon.rundir.looking import look
from runward.daemon.rundir.tailing import NotRegular, Tail, open_in_run
from runward.handlers.events import AttemptEnded, Evidence
from runward.handlers.facts import Unreadable
from runward.handlers.layouts import native
from runward.handlers.layouts.foreign_json import NotJson, read_json
from runward.handlers.layouts.scanner import Complaint, Item, Signature, Started
from runward.handlers.sessions.observe import NEVER_SEEN, RootRule, see, together

_GONE: Final = "run.aborted.process_gone"
_NO_PROCESS: Final = "run.unknown.no_process"
_OPEN_TURN: Final = "run.unknown.open_turn"
_JOURNAL: Final = "events.jsonl"
_TRACE: Final = "trace.jsonl"
_COMPLAINTS: Final = 20
"""Ill-formed lines of one file that are named."""


class Inspected(NamedTuple):
    """A run directory as it was found: a session's object, or None with what is wrong with its files."""

    session: dict[str, JsonValue] | None
    problems: list[JsonValue]


class State(NamedTuple):
    """Where a run stands, by what evidence and for what reason; `ended_at` in Unix seconds."""

    state: str
    evidence: Evidence | None
    reason_code: str
    ended_at: float | None = None


class Journals(NamedTuple):
    """What is counted in a run's journals, and the lines that say nothing."""

    events: int
    tool_calls: int
    problems: list[JsonValue]


def inspect_native(path: str) -> Inspected:
    """What the run directory at `path` (absolute) says."""
    place, directory = os.path.split(path)
    sight = look(place, directory, native.DOCUMENTS, {})
    if isinstance(sight, Unreadable | Gone):
        why = sight.why if isinstance(sight, Unreadable) else "it is no directory of its own"
        return Inspected(None, [_problem(None, f"{directory}: {why}")])
    items = list(native.scan("", path, sight.documents))
    problems = [
        _problem(each.line, f"{each.file}: {each.message}") for each in items if isinstance(each, Complaint)
    ]
    started = next((each for each in items if isinstance(each, Started)), None)
    if started is None:
        return Inspected(None, problems)
    state = _state(started, items, directory, sight.signatures)
    counted = _journals(path)
    problems += counted.problems
    changed = last_change(path)
    is_open = state.ended_at is None and changed is not None
    said = started.declaration
    return Inspected(
        {
            "layout": native.LAYOUT,
            "session_id": said.session_id,
            "state": state.state,
            "evidence": state.evidence,
            "idle_s": round(max(0.0, time.time() - changed), 3) if is_open and changed is not None else None,
            "reason_code": state.reason_code,
            "started_at": iso(started.at),
            "finished_at": iso(state.ended_at),
            "agent": said.agent,
            "model": None,
            "cwd": None,
            "path": path,
            "parent_session_id": None,
            "attempt": 1,
            "activity": None,
            "counts": {
                "events": counted.events,
                "tool_calls": counted.tool_calls,
                "errors": 0,
                "subagents": 0,
            },
            "usage": None,
            "problems": problems,
        },
        problems,
    )


def _state(
    started: Started, items: Sequence[Item], directory: str, signatures: tuple[tuple[str, Signature], ...]
) -> State:
    key = native.session_key("", directory)
    watched, events = see(NEVER_SEEN, key, RootRule(False, 0.0), signatures, items)
    ended = next((each for each in events if isinstance(each, AttemptEnded)), None)
    if ended is not None:
        return State(ended.status, ended.evidence, ended.reason_code, ended.at)
    named = [each for each in (watched.launcher, watched.process) if each is not None]
    processes = RealProcesses()
    if not named:
        return State("unknown", None, _NO_PROCESS)
    if started.host is not None and started.host != processes.host():
        return State("unknown", None, _OPEN_TURN)
    match together([processes.state(each) for each in named]):
        case "alive":
            return State("running", None, "run.started.ok")
        case "gone":
            return State("aborted", "process_gone", _GONE)
        case "unknown":
            return State("unknown", None, _OPEN_TURN)


def _journals(path: str) -> Journals:
    problems: list[JsonValue] = []
    events = _count(path, _JOURNAL, None, problems)
    return Journals(events, _count(path, _TRACE, "ToolCall", problems), problems)


def _count(path: str, name: str, event: str | None, problems: list[JsonValue]) -> int:
    """The lines of a journal that are objects; only those of one event, where one is named."""
    try:
        tail = Tail(lambda: open_in_run(path, name))
    except FileNotFoundError:
        return 0
    except NotRegular:
        problems.append(_problem(None, f"{name}: is not a regular file"))
        return 0
    except OSError as error:
        problems.append(_problem(None, f"{name}: can't be read: {error.strerror}"))
        return 0
    count = wrong = 0
    for line in tail.lines():
        value = NotJson("too long") if line.is_cut else read_json(line.content)
        if not isinstance(value, dict):
            wrong += 1
            if wrong <= _COMPLAINTS:
                why = value.message if isinstance(value, NotJson) else "holds no JSON object"
                problems.append(_problem(line.number, f"{name}: {why}"))
        elif event is None or value.get("event") == event:
            count += 1
    tail.close()
    return count


def _problem(line: int | None, message: str) -> JsonValue:
    return {"line": line, "message": message}
