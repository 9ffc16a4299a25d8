"""The older replay bundle, one JSON file: `{version "1.0", id, created_at, metadata, timeline, receipts}`, both ways.

Each event of a replay is kept whole in the `data` of its entry. So a bundle that came from a replay gives the same
replay again.
"""

from collections import deque
from datetime import timedelta
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import hash_of
from runward.handlers.bundle.replay_lines import Event, datetime_of, is_header

VERSION: Final = "1.0"
_PREFIX: Final = "replay_"
_TYPES: Final = {
    "SessionStart": "phase_start",
    "SessionEnd": "phase_end",
    "ToolCall": "tool_call",
    "ToolResult": "tool_result",
    "PlanStart": "plan_start",
    "StepComplete": "step_complete",
    "Verification": "verification",
}
_EDITING: Final = frozenset({"Edit", "Write"})
_LONGEST_MS: Final = 10**14


class NotABundle(ValueError):
    """The value is not an older replay bundle; the message says why."""


def to_bundle(events: list[Event]) -> dict[str, JsonValue]:
    """The older bundle of a replay. Fields that the replay does not fill are null."""
    entries = [event for event in events if not is_header(event)]
    moments = [moment for event in entries if (moment := datetime_of(event.get("t"))) is not None]
    began = moments[0] if moments else None
    timeline: list[JsonValue] = []
    tools: dict[str, JsonValue] = {}
    latest = 0
    edited = 0
    session_id: JsonValue = None
    for event in entries:
        name, identifier = event.get("event"), event.get("id")
        session_id = event.get("session_id") if name == "SessionStart" and session_id is None else session_id
        moment = datetime_of(event.get("t"))
        if moment is not None and began is not None:
            latest = max(0, round((moment - began).total_seconds() * 1000))
        entry: dict[str, JsonValue] = {"t": latest, "type": _TYPES.get(str(name), str(name))}
        if name == "ToolCall" and isinstance(identifier, str):
            tools[identifier] = event.get("tool")
        if name in ("ToolCall", "ToolResult"):
            entry["tool"] = tools.get(identifier) if isinstance(identifier, str) else None
            edited += name == "ToolResult" and entry["tool"] in _EDITING
        timeline.append({**entry, "data": event})
    duration = int((moments[-1] - moments[0]).total_seconds()) if moments else 0
    return {
        "version": VERSION,
        "id": f"{_PREFIX}{session_id if isinstance(session_id, str) else ''}",
        "created_at": began.isoformat() if began is not None else None,
        "metadata": {
            "issue_url": None,
            "pr_url": None,
            "duration_seconds": max(0, duration),
            "playback_speed": 1.0,
            "demo_duration_seconds": max(0, duration),
            "model": "unknown",
            "cost_usd": None,
            "tokens_in": None,
            "tokens_out": None,
        },
        "timeline": timeline,
        "receipts": {
            "tests_run": None,
            "tests_passed": None,
            "ci_status": None,
            "files_changed": edited,
            "lines_added": 0,
            "lines_removed": 0,
        },
    }


def to_events(bundle: JsonValue) -> list[Event]:
    """The events of an older bundle. Raises `NotABundle`, and `NotCanonical` for values without a hash."""
    if not isinstance(bundle, dict):
        raise NotABundle("not a JSON object")
    timeline = bundle.get("timeline")
    if bundle.get("version") != VERSION:
        raise NotABundle('`version` is not "1.0"')
    if not isinstance(timeline, list) or not all(isinstance(each, dict) for each in timeline):
        raise NotABundle("`timeline` is not a list of objects")
    entries = [each for each in timeline if isinstance(each, dict)]
    kept = [data for each in entries if isinstance(data := each.get("data"), dict) and "event" in data]
    if entries and len(kept) == len(entries):
        return kept
    return _Told(bundle).events(entries)


class _Told:
    """Events made from entries whose data is the older program's own."""

    def __init__(self, bundle: dict[str, JsonValue]) -> None:
        self._began = datetime_of(bundle.get("created_at"))
        self._id = bundle.get("id")
        self._calls = 0
        self._open: deque[str] = deque()
        self._latency = 0
        self._called_at: dict[str, int] = {}

    def events(self, entries: list[Event]) -> list[Event]:
        session_id = self._id.removeprefix(_PREFIX) if isinstance(self._id, str) else None
        start: Event = {
            "event": "SessionStart",
            "t": self._time(0),
            "session_id": session_id,
            "issue_number": None,
            "policy_bundle_id": None,
        }
        events = [self._event(each) for each in entries]
        last = max((_ms(each) for each in entries), default=0)
        end: Event = {
            "event": "SessionEnd",
            "t": self._time(last),
            "status": None,
            "confidence": None,
            "total_tool_calls": self._calls,
            "total_latency_ms": self._latency,
        }
        return [start, *events, end]

    def _time(self, ms: int) -> JsonValue:
        if self._began is None:
            return None
        try:
            moment = self._began + timedelta(milliseconds=ms)
        except OverflowError:
            return None
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _event(self, entry: Event) -> Event:
        at = _ms(entry)
        data = entry.get("data")
        match entry.get("type"):
            case "tool_call":
                return self._call(entry, data, at)
            case "tool_result" if self._open:
                return self._result(data, at)
        return {"event": str(entry.get("type")), "t": self._time(at), "data": data}

    def _call(self, entry: Event, data: JsonValue, at: int) -> Event:
        self._calls += 1
        identifier = f"tc_{self._calls:03d}"
        self._open.append(identifier)
        self._called_at[identifier] = at
        params = data
        if isinstance(data, dict):
            params = next((data[key] for key in ("params", "input", "arguments") if key in data), data)
        return {
            "event": "ToolCall",
            "t": self._time(at),
            "id": identifier,
            "tool": entry.get("tool"),
            "params": params,
            "params_hash": hash_of(params),
            "step_id": None,
        }

    def _result(self, data: JsonValue, at: int) -> Event:
        """The result of the call that has waited longest: the older form does not name the call."""
        identifier = self._open.popleft()
        latency = max(0, at - self._called_at[identifier])
        self._latency += latency
        output = data
        if isinstance(data, dict):
            output = next((data[key] for key in ("output", "content", "result") if key in data), data)
        return {
            "event": "ToolResult",
            "t": self._time(at),
            "id": identifier,
            "output": output,
            "output_hash": hash_of(output),
            "exit_code": None,
            "step_utility": None,
            "latency_ms": latency,
        }


def _ms(entry: Event) -> int:
    at = entry.get("t")
    return at if isinstance(at, int) and not isinstance(at, bool) and 0 <= at <= _LONGEST_MS else 0
