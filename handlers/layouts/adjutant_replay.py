"""What the records of an Adjutant replay say about the session, one after the other, in every form ever written.

`adjutant.py` says how the words of `SessionEnd` are read, and why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.foreign_values import is_error_code, text_in
from runward.handlers.layouts.transcript import Close
from runward.handlers.model.reasons import ReasonCode, status_of

IDS_KEPT: Final = 64
"""Ids of tool calls that are remembered, the latest ones: a copied or glued record counts once."""

SERVICE: Final = "openagents-runtime"

LONGEST_TIME: Final = 40
"""Characters of a time that are kept: no real time is longer."""

BEGINS: Final = frozenset({"ReplayHeader", "SessionStart"})
_GOES_ON: Final = frozenset({"SessionStart", "PlanStart", "ToolCall"})
KINDS: Final = BEGINS | _GOES_ON | {"ToolResult", "StepComplete", "SessionEnd"}
"""The kinds that matter. Others, as of later versions, are only counted."""


class _End(NamedTuple):
    reason_code: ReasonCode
    reason_summary: str


_COMPLETED: Final = _End("run.completed.ok", "the session ended well")
_FAILED: Final = _End("run.failed.exception", "the session failed")
_OUT_OF_ITERATIONS: Final = _End("run.failed.limit_reached", "a step ran out of iterations")
_TIMED_OUT: Final = _End("run.timed_out.deadline", "the session's own time limit passed")
_CANCELLED: Final = _End("run.cancelled.user", "the session was cancelled")

ENDS: Final[Mapping[str, _End]] = {
    "success": _COMPLETED,
    "failed": _FAILED,
    "failure": _FAILED,
    "timeout": _TIMED_OUT,
    "timed_out": _TIMED_OUT,
    "cancelled": _CANCELLED,
    "canceled": _CANCELLED,
}


@dataclass(slots=True)
class Replay:
    """What `REPLAY.jsonl` has said so far.

    `end` is the word of the `SessionEnd` that ended the attempt, `strange_end` the last one that is unknown here.
    Only `feed` changes such a value, and only its own copy.
    """

    session_id: str | None = None
    producer: str | None = None
    attempt: int = 0
    has_begun: bool = False
    end: str | None = None
    strange_end: str | None = None
    started_at: str | None = None
    moved_at: str | None = None
    ended_at: str | None = None
    step_failed: bool = False
    ran_out: bool = False
    last_ids: tuple[str, ...] = ()
    events: int = 0
    tool_calls: int = 0
    errors: int = 0

    def take(self, kind: str, record: dict[str, JsonValue], at: str | None) -> bool:
        """Take in a record of a known kind. True if it begins the next attempt after an end."""
        goes_on = self.end is not None and kind in _GOES_ON
        if goes_on:
            self.attempt, self.end, self.started_at, self.ended_at = (
                self.attempt + 1,
                None,
                _clipped(at),
                None,
            )
            self.has_begun = self.step_failed = self.ran_out = False
        match kind:
            case "ToolCall":
                self._called(record.get("id"))
            case "ToolResult":
                self.errors += is_error_code(record.get("exit_code"))
            case "StepComplete":
                self.step_failed |= record.get("status") == "Failed"
                self.ran_out |= record.get("status") == "MaxIterationsReached"
            case "SessionEnd":
                self._ended(record, at)
            case "SessionStart":
                self._begun(record, at)
            case "ReplayHeader":
                self.producer = text_in(record.get("producer"), 100)
        return goes_on

    def _begun(self, record: dict[str, JsonValue], at: str | None) -> None:
        self.session_id = self.session_id or text_in(record.get("session_id"))
        if not self.has_begun:
            self.has_begun, self.started_at = True, _clipped(at) or self.started_at

    def _called(self, call: JsonValue) -> None:
        if isinstance(call, str):
            call = call[:100]
            if call in self.last_ids:
                return
            self.last_ids = (*self.last_ids[1 - IDS_KEPT :], call)
        self.tool_calls += 1

    def _ended(self, record: dict[str, JsonValue], at: str | None) -> None:
        word = (text_in(record.get("status"), 40) or "").lower()
        if word not in ENDS:
            self.strange_end = word
        elif not (self.producer == SERVICE and word == "success" and record.get("confidence") == 0.5):
            self.end, self.ended_at, self.strange_end = word, _clipped(at), None

    def close(self) -> Close | None:
        """How the attempt ended, if it did."""
        if self.end is None:
            return None
        end = ENDS[self.end]
        if end is _FAILED and self.ran_out and not self.step_failed:
            end = _OUT_OF_ITERATIONS
        return Close(status_of(end.reason_code), *end, at=parse_time(self.ended_at))


def _clipped(at: str | None) -> str | None:
    return text_in(at, LONGEST_TIME)
