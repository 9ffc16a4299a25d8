"""`replay check`: whether the lines of a replay are consistent. A bad line hides nothing about the others."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Severity, quoted
from runward.handlers.bundle.canonical import (
    FORMS,
    Form,
    NotCanonical,
    as_written,
    hash_of,
    hash_of_text,
    piece_of,
)
from runward.handlers.bundle.parts import REPLAY
from runward.handlers.bundle.replay_lines import (
    Event,
    ReplayLine,
    datetime_of,
    is_header,
    is_number,
    is_whole,
)
from runward.handlers.bundle.shown import is_cut, is_redacted


@dataclass(slots=True)
class ReplayedCall:
    """A tool call and its result. A hash is the one that the line states, else the one of its value."""

    line: int
    id: str
    tool: JsonValue
    params_hash: JsonValue
    result_line: int | None = None
    output_hash: JsonValue = None
    step_utility: JsonValue = None
    latency_ms: JsonValue = None


@dataclass(slots=True)
class HashCounts:
    """The result of checking the hashes of params and outputs. `parts` are those of the receipt and of whole parts."""

    recomputed: int = 0
    redacted: int = 0
    cut: int = 0
    unknown: int = 0
    parts: int = 0

    def as_json(self) -> dict[str, JsonValue]:
        return asdict(self)


@dataclass(slots=True)
class ReplayFacts:
    """The facts of one replay, with their line numbers."""

    events: int = 0
    start: dict[str, JsonValue] | None = None
    start_line: int | None = None
    plan_hash: JsonValue = None
    plan_line: int | None = None
    calls: list[ReplayedCall] = field(default_factory=list)
    verification: dict[str, JsonValue] | None = None
    verification_line: int | None = None
    end: dict[str, JsonValue] | None = None
    end_line: int | None = None
    hashes: HashCounts = field(default_factory=HashCounts)


class BundleProblem(NamedTuple):
    """What is wrong, in which part, on which line, in which field. None where there is no single one."""

    part: str
    line: int | None
    field: str | None
    message: str
    severity: Severity = "error"


_OF_THE_VERDICT: Final = ("Verification", "SessionEnd")
"""Events at the time of the verdict: what a run left behind may be carried out after that."""

MOST_PROBLEMS: Final = 1000
"""Problems that are listed. Further ones are only counted: a hostile replay can have any number of them."""

SESSION_STATUS: Final = frozenset(
    {"Success", "Failed", "Cancelled", "Timeout", "TimedOut", "Aborted", "success", "failure", "cancelled"}
)
STEP_STATUS: Final = frozenset(
    {"Success", "Failed", "Skipped", "MaxIterationsReached", "success", "failure", "skipped"}
)


class ReplayCheck:
    """Takes the lines of a replay one by one, then says what is wrong; `facts` is what they said.

    Hashes are in one of the given forms: a replay alone does not say which.
    """

    def __init__(self, forms: Iterable[Form] = FORMS) -> None:
        self.facts = ReplayFacts()
        self.problems: list[BundleProblem] = []
        self._forms = tuple(forms)
        self._readers: dict[str, Callable[[int, Event], None]] = {
            "SessionStart": self._session_start,
            "PlanStart": self._plan_start,
            "StepComplete": self._step_complete,
            "ToolCall": self._tool_call,
            "ToolResult": self._tool_result,
            "Verification": self._verification,
            "SessionEnd": self._session_end,
        }
        self._text: bytes | None = None
        self._left_out = 0
        self._first_seen = False
        self._latest: datetime | None = None
        self._has_lines = False
        self._open: dict[str, deque[ReplayedCall]] = {}
        self._answered: set[str] = set()
        self._results = 0
        self._latency: float = 0
        self._latency_known = True

    def take(self, line: ReplayLine) -> None:
        """The next line."""
        self._has_lines = True
        self._text = line.text
        event = line.event
        if line.problem is not None:
            self._say(line.number, None, line.problem)
        elif event is None:
            self._say(line.number, None, "a blank line", "warning")
        elif is_header(event):
            self._header(line.number, event)
        else:
            self._event(line.number, event)

    def finish(self) -> tuple[BundleProblem, ...]:
        """All problems, in the order of their lines."""
        if not self._has_lines:
            self._say(None, None, "the file is empty")
        elif self.facts.end is None:
            self._say(None, None, "there is no SessionEnd")
        if self._left_out:
            self.problems.append(
                BundleProblem(REPLAY, None, None, f"{self._left_out} more problems are not listed")
            )
        return tuple(self.problems)

    def _say(self, line: int | None, field: str | None, message: str, severity: Severity = "error") -> None:
        if len(self.problems) >= MOST_PROBLEMS:
            self._left_out += severity == "error"
            return
        self.problems.append(BundleProblem(REPLAY, line, field, message, severity))

    def _header(self, number: int, event: Event) -> None:
        self.facts.events += 1
        if self._first_seen or self.facts.events > 1:
            self._say(number, "replay_version", "a header that is not the first line")
        if event.get("replay_version") != 1 or not is_whole(event.get("replay_version")):
            self._say(number, "replay_version", "the version of the replay is not 1")

    def _event(self, number: int, event: Event) -> None:
        name = event.get("event")
        if not isinstance(name, str):
            self._say(number, "event", "the line has no `event`" if name is None else "`event` is not a text")
            return
        self.facts.events += 1
        if not self._first_seen and name != "SessionStart":
            self._say(number, "event", f"the first event is {quoted(name)} and not SessionStart")
        self._first_seen = True
        if self.facts.end is not None:
            self._say(number, "event", f"{quoted(name)} comes after SessionEnd")
        self._time(number, event)
        read = self._readers.get(name)
        if read is not None:
            read(number, event)

    def _time(self, number: int, event: Event) -> None:
        at = datetime_of(event.get("t"))
        if at is None:
            return
        # These lines have the time of the verdict. What the run left behind, such as its intents, may be carried out
        # after that.
        is_verdict = event.get("event") in _OF_THE_VERDICT
        if self._latest is not None and at < self._latest and not is_verdict:
            self._say(number, "t", "the time goes back", "warning")
        self._latest = at

    def _session_start(self, number: int, event: Event) -> None:
        if self.facts.start is not None:
            self._say(number, "event", "a second SessionStart")
            return
        self.facts.start, self.facts.start_line = event, number

    def _plan_start(self, number: int, event: Event) -> None:
        if self.facts.plan_line is None:
            self.facts.plan_hash, self.facts.plan_line = event.get("plan_hash"), number

    def _step_complete(self, number: int, event: Event) -> None:
        self._status(number, event, STEP_STATUS)

    def _status(self, number: int, event: Event, known: frozenset[str]) -> None:
        status = event.get("status")
        if status is not None and not (isinstance(status, str) and status in known):
            self._say(number, "status", f"the status {quoted(status)} is not known", "warning")

    def _tool_call(self, number: int, event: Event) -> None:
        identifier = event.get("id")
        if not isinstance(identifier, str):
            self._say(number, "id", "a ToolCall without `id`")
            identifier = ""
        params_hash = self._hash(number, event, "params", "params_hash")
        call = ReplayedCall(number, identifier, event.get("tool"), params_hash)
        self.facts.calls.append(call)
        self._open.setdefault(identifier, deque()).append(call)

    def _tool_result(self, number: int, event: Event) -> None:
        output_hash = self._hash(number, event, "output", "output_hash")
        latency = event.get("latency_ms")
        if isinstance(latency, int | float) and not isinstance(latency, bool):
            self._latency += latency
        identifier = event.get("id")
        if not isinstance(identifier, str):
            self._say(number, "id", "a ToolResult without `id`")
            return
        waiting = self._open.get(identifier)
        if not waiting:
            known = identifier in self._answered
            problem = "a second result for the call" if known else "a result without an earlier call"
            self._say(number, "id", f"{problem} {quoted(identifier)}")
            return
        # Two calls may have one id. Their results are paired with them in order.
        call = waiting.popleft()
        self._answered.add(identifier)
        call.result_line = number
        call.output_hash = output_hash
        call.step_utility = event.get("step_utility")
        call.latency_ms = latency

    def _hash(self, number: int, event: Event, key: str, hash_key: str) -> JsonValue:
        """The hash of a value: as stated, else as computed. Null if it is not known."""
        stated = event.get(hash_key)
        counts = self.facts.hashes
        if is_redacted(event, key):
            counts.redacted += 1
        elif is_cut(event, key):
            counts.cut += 1
        elif key not in event or (stated is None and hash_key in event):
            counts.unknown += 1
        else:
            return self._recomputed(number, event, key, stated)
        return stated

    def _recomputed(self, number: int, event: Event, of: str, stated: JsonValue) -> JsonValue:
        self.facts.hashes.recomputed += 1
        hash_key = f"{of}_hash"
        computed: str | None = None
        for form in self._forms:
            try:
                computed = self._hash_of(event, of, form)
            except NotCanonical:
                continue
            if stated is None or stated == computed:
                return computed
        if computed is None:
            self._say(number, hash_key, f"the {of} has no canonical form, so its hash cannot be right")
        else:
            self._say(
                number, hash_key, f"`{of}` was changed: its hash is {computed}, not {quoted_hash(stated)}"
            )
        return stated

    def _hash_of(self, event: Event, key: str, form: Form) -> str:
        if self._text is not None and form == "seed":
            return hash_of_text(piece_of(self._text, event, key))
        try:
            return hash_of(event[key], form)
        except NotCanonical:
            if form == "seed":
                raise
            # RFC 8785 writes large floats like whole numbers, so a reader can't tell them apart.
            return hash_of(as_written(event[key]), form)

    def _verification(self, number: int, event: Event) -> None:
        self.facts.verification, self.facts.verification_line = event, number
        commands, codes = event.get("commands"), event.get("exit_codes")
        if isinstance(commands, list) and isinstance(codes, list) and len(commands) != len(codes):
            self._say(number, "exit_codes", f"{len(codes)} exit codes for {len(commands)} commands")

    def _session_end(self, number: int, event: Event) -> None:
        if self.facts.end is not None:
            return  # it was already reported that something comes after the first one
        self.facts.end, self.facts.end_line = event, number
        self._status(number, event, SESSION_STATUS)
        self._total(number, event, "total_tool_calls", len(self.facts.calls), "calls")
        self._total(number, event, "total_latency_ms", self._latency, "milliseconds")

    def _total(self, number: int, event: Event, key: str, total: float, unit: str) -> None:
        stated = event.get(key)
        if stated is None:
            return
        if not is_number(stated) or stated != total:
            self._say(number, key, f"`{key}` is {quoted(stated)}, but the lines have {total:g} {unit}")


def quoted_hash(stated: JsonValue) -> str:
    """A stated hash for a message, in full if it can be one."""
    return stated if isinstance(stated, str) and len(stated) <= 80 else quoted(stated)
