"""What a replay says: to people, one line an event and a position in it; and its calls, for comparing and for learning."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import NotCanonical, canonical, parse
from runward.handlers.bundle.replay_lines import Event, ReplayLine, datetime_of, is_header

LONGEST_SHOWN: Final = 2000
"""Characters of an event that are shown; `--json` prints all of it."""


class ShownEvent(NamedTuple):
    """An event as it is shown; `at` is in seconds from the first event that has a time, None if it has none."""

    line: int
    at: float | None
    text: str


class ReplayView:
    """Turns the lines of one replay into the events that are shown."""

    def __init__(self) -> None:
        self._began: datetime | None = None

    def shown(self, line: ReplayLine) -> ShownEvent | None:
        """The line as it is shown; None for a blank one."""
        if line.problem is not None:
            return ShownEvent(line.number, None, f"line {line.number}: {line.problem}")
        if line.event is None:
            return None
        moment = datetime_of(line.event.get("t"))
        if moment is not None and self._began is None:
            self._began = moment
        at = None if moment is None or self._began is None else (moment - self._began).total_seconds()
        clock = " " * 10 if at is None else f"{at:9.3f}s"
        text = " ".join(part for part in _parts(line.event) if part)
        cut = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        return ShownEvent(line.number, at, f"{clock}  {cut}")


def _parts(event: Event) -> list[str]:
    name = event.get("event")
    if is_header(event):
        return ["ReplayHeader", _text(event.get("producer"))]
    match name:
        case "SessionStart":
            return [name, _text(event.get("session_id")), _named(event, "issue_number", "policy_bundle_id")]
        case "ToolCall":
            params = event.get("params")
            return [name, _text(event.get("id")), _text(event.get("tool")), _compact(params)]
        case "ToolResult":
            parts = _named(event, "exit_code", "latency_ms", "step_utility")
            return [name, _text(event.get("id")), parts, _output(event.get("output"))]
        case "SessionEnd":
            parts = _named(event, "confidence", "total_tool_calls", "total_latency_ms")
            return [name, _text(event.get("status")), parts]
    rest = {key: value for key, value in event.items() if key not in ("event", "t", "hash")}
    return [_text(name) or "?", _compact(rest)]


def _named(event: Event, *keys: str) -> str:
    return " ".join(f"{key}={_compact(event[key])}" for key in keys if event.get(key) is not None)


def _output(output: JsonValue) -> str:
    """What a call returned: its content, or its error."""
    if isinstance(output, dict):
        if output.get("success") is False:
            return f"failed: {_plain(output.get('error'))}"
        if "content" in output:
            return _plain(output["content"])
    return "" if output is None else _plain(output)


def _plain(value: JsonValue) -> str:
    return value if isinstance(value, str) else _compact(value)


def _text(value: JsonValue) -> str:
    return "" if value is None else _plain(value)


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


class Playback:
    """A person's position in a replay: the index of the next event, and whether it is playing."""

    def __init__(self, events: list[ShownEvent], speed: float, *, is_paused: bool) -> None:
        self._events = events
        self._speed = speed
        self.position = 0
        self.is_paused = is_paused

    @property
    def count(self) -> int:
        return len(self._events)

    @property
    def is_over(self) -> bool:
        return self.position >= len(self._events)

    def wait(self, longest: float) -> float:
        """Seconds from the previous event until the next one is due; at most `longest`."""
        if self.is_over or self.position == 0:
            return 0.0
        before, following = self._events[self.position - 1].at, self._events[self.position].at
        if before is None or following is None:
            return 0.0
        return min(max(following - before, 0.0) / self._speed, longest)

    def next(self) -> ShownEvent | None:
        """Return the next event and move past it. None at the end."""
        if self.is_over:
            return None
        event = self._events[self.position]
        self.position += 1
        return event

    def toggle(self) -> None:
        """Pause, or continue."""
        self.is_paused = not self.is_paused

    def jump(self, line: int) -> bool:
        """Go to the first event at or after a line of the replay. False if there is none."""
        index = next((index for index, each in enumerate(self._events) if each.line >= line), None)
        if index is None:
            return False
        self.position, self.is_paused = index, True
        return True

    def search(self, text: str) -> bool:
        """Go to the next event that contains the text. The search wraps around at the end."""
        wanted = text.casefold()
        count = len(self._events)
        for step in range(count):
            index = (self.position + step) % count
            if wanted in self._events[index].text.casefold():
                self.position, self.is_paused = index, True
                return True
        return False


@dataclass(slots=True)
class ToldCall:
    """A call of a replay. `output` is None until something came back."""

    id: str
    tool: str
    params: JsonValue
    params_hash: JsonValue = None
    output: JsonValue = None
    output_hash: JsonValue = None
    step_utility: JsonValue = None

    def as_json(self) -> JsonValue:
        """The call for programs."""
        return {"id": self.id, "tool": self.tool, "params": self.params, "output": self.output}

    @property
    def made(self) -> tuple[str, str]:
        """What was called, and with what: by the hash of the whole if that is known."""
        return self.tool, _known(self.params_hash, self.params)

    @property
    def same(self) -> tuple[str, str, str]:
        """What two equal calls have in common."""
        return *self.made, _known(self.output_hash, self.output)


class ToldReplay(NamedTuple):
    """The calls of a replay in their order, and the difference that its verification made."""

    calls: list[ToldCall]
    verification_delta: JsonValue = None


def told_replay(lines: Iterable[bytes]) -> ToldReplay:
    """What the lines of a replay say about calls. Other lines, and malformed ones, are skipped."""
    calls: dict[str, ToldCall] = {}
    delta: JsonValue = None
    for line in _objects(lines):
        match line:
            case {"event": "ToolCall", "id": str(number), "tool": str(tool)} if number not in calls:
                calls[number] = ToldCall(number, tool, line.get("params"), line.get("params_hash"))
            case {"event": "ToolResult", "id": str(number)} if number in calls:
                call = calls[number]
                call.output, call.output_hash = line.get("output"), line.get("output_hash")
                call.step_utility = line.get("step_utility")
            case {"event": "Verification"}:
                delta = line.get("verification_delta")
    return ToldReplay(list(calls.values()), delta)


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, JsonValue]]:
    for line in lines:
        try:
            value = parse(line)
        except NotCanonical:
            continue
        if isinstance(value, dict):
            yield value


def _known(digest: JsonValue, value: JsonValue) -> str:
    if isinstance(digest, str):
        return digest
    try:
        return canonical(value)
    except NotCanonical:
        return repr(value)


def costs_of(receipt: bytes) -> dict[str, JsonValue]:
    """The tokens of each call, by its id, as a receipt has them. Empty if the receipt can't be read."""
    try:
        fields = parse(receipt)
    except NotCanonical:
        return {}
    calls = fields.get("tool_calls") if isinstance(fields, dict) else None
    return {
        str(each["id"]): each.get("cost_tokens")
        for each in (calls if isinstance(calls, list) else [])
        if isinstance(each, dict) and "id" in each
    }


class Divergence(NamedTuple):
    """The first call that differs, counted from 0; a side that has no further call has None."""

    at: int
    left: ToldCall | None
    right: ToldCall | None


class Alignment(NamedTuple):
    """How many calls are the same, how many were the same but had different results, how many only one side made."""

    same: int
    changed: int
    left_only: int
    right_only: int


def first_divergence(left: Sequence[ToldCall], right: Sequence[ToldCall]) -> Divergence | None:
    """Where the calls diverge. None if they are the same."""
    for index in range(max(len(left), len(right))):
        ours = left[index] if index < len(left) else None
        theirs = right[index] if index < len(right) else None
        if ours is None or theirs is None or ours.same != theirs.same:
            return Divergence(index, ours, theirs)
    return None


def aligned(left: Sequence[ToldCall], right: Sequence[ToldCall]) -> Alignment:
    """The calls of both, aligned by what was called."""
    matcher = SequenceMatcher(
        None, [each.made for each in left], [each.made for each in right], autojunk=False
    )
    same = changed = matched = 0
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            is_same = left[block.a + offset].same == right[block.b + offset].same
            same, changed = same + is_same, changed + (not is_same)
        matched += block.size
    return Alignment(same, changed, len(left) - matched, len(right) - matched)
