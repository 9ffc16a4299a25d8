"""The Adjutant session directory: `REPLAY.jsonl`, and `RECEIPT.json` and `PR_SUMMARY.md` at the session's end.

Source: the MVP Artifacts page (the Verified PR Bundle) and the replay format that goes with it. All forms that were
written are read: with `policy_version` or `policy_bundle_id`, with a `ReplayHeader` as the first line or without, and
the service's, whose records have `type` and `ts` for `event` and `t` in the earliest version. The words of
`SessionEnd`, in any case, and what they become:

- `Success`: `completed`, `run.completed.ok`. The service writes `success` with a confidence of 0.5 also into the
  replay of a run that is not over, so from it that pair ends nothing.
- `Failed`, `failure`: `failed`, `run.failed.exception`; `run.failed.limit_reached` where no step failed otherwise than
  by running out of iterations (`MaxIterationsReached`).
- `Timeout`, `timed_out`: `timed_out`, `run.timed_out.deadline`: the deadline was Adjutant's, but means the same.
- `Cancelled`: `cancelled`, `run.cancelled.user`: it was asked to stop; who did so is not recorded.
- any other word: an open turn, and a complaint.

Only `SessionEnd` ends a session. A receipt doesn't say how it ended: a step may have failed with every check good.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from runward.config.json_value import JsonValue
from runward.handlers.calls import Told as ToldCall
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.call_readers import (
    CallLayout,
    PlacedLine,
    WithoutDocuments,
    told_by_events,
)
from runward.handlers.layouts.foreign_values import document_object, is_error_code, list_in, text_in
from runward.handlers.layouts.native import OF_A_RUN
from runward.handlers.layouts.transcript import (
    Close,
    Counts,
    Heads,
    KeepsState,
    LogLine,
    Resumed,
    Told,
    closed,
)
from runward.handlers.layouts.transcript_lines import Unreadable, decode, records
from runward.handlers.model.sessions import Complaint, Document

IDS_KEPT: Final = 64
"""Ids of tool calls that are remembered, the latest ones: a copied or glued record counts once."""

SERVICE: Final = "openagents-runtime"

LONGEST_TIME: Final = 40
"""Characters of a time that are kept: no real time is longer."""

BEGINS: Final = frozenset({"ReplayHeader", "SessionStart"})
_GOES_ON: Final = frozenset({"SessionStart", "PlanStart", "ToolCall"})
KINDS: Final = BEGINS | _GOES_ON | {"ToolResult", "StepComplete", "SessionEnd"}
"""The kinds that matter. Others, as of later versions, are only counted."""


_COMPLETED: Final = closed("run.completed.ok", "the session ended well")
_FAILED: Final = closed("run.failed.exception", "the session failed")
_OUT_OF_ITERATIONS: Final = closed("run.failed.limit_reached", "a step ran out of iterations")
_TIMED_OUT: Final = closed("run.timed_out.deadline", "the session's own time limit passed")
_CANCELLED: Final = closed("run.cancelled.user", "the session was cancelled")

ENDS: Final[Mapping[str, Close]] = {
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
        # Work after an end begins the next attempt. A header or a result that comes late does not.
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
            # A copied or glued record counts once.
            if call in self.last_ids:
                return
            self.last_ids = (*self.last_ids[1 - IDS_KEPT :], call)
        self.tool_calls += 1

    def _ended(self, record: dict[str, JsonValue], at: str | None) -> None:
        word = (text_in(record.get("status"), 40) or "").lower()
        if word not in ENDS:
            self.strange_end = word
        # The service writes this pair also into the replay of a run that is not over.
        elif not (self.producer == SERVICE and word == "success" and record.get("confidence") == 0.5):
            self.end, self.ended_at, self.strange_end = word, _clipped(at), None

    def close(self) -> Close | None:
        """How the attempt ended, if it did."""
        if self.end is None:
            return None
        end = ENDS[self.end]
        # A step that ran out of iterations fails the session, but the cause is the limit.
        if end is _FAILED and self.ran_out and not self.step_failed:
            end = _OUT_OF_ITERATIONS
        return end._replace(at=parse_time(self.ended_at))


def _clipped(at: str | None) -> str | None:
    return text_in(at, LONGEST_TIME)


LAYOUT: Final = "adjutant"
SHOWN_BY: Final = (
    "a `REPLAY.jsonl` with a `ReplayHeader` or a `SessionStart`, or a `RECEIPT.json` with "
    "`session_id` and a hash of the plan"
)
RECEIPT: Final = "RECEIPT.json"
REPLAY: Final = "REPLAY.jsonl"
DOCUMENTS: Final = (RECEIPT,)
LOGS: Final = (REPLAY,)
MARKERS: Final = (REPLAY, RECEIPT)

_RECEIPT_KEYS: Final = (b'"plan_hash"', b'"trajectory_hash"')
_LINES_LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `RECEIPT.json` says of its session."""

    session_id: str | None
    started_at: str | None
    completed_at: str | None
    tool_calls: int


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a session."""

    version: Literal[1]
    name: str
    replay: Replay
    receipt: Receipt | None = None
    unreadable: int = 0
    complaints: tuple[Complaint, ...] = ()
    in_receipt: Complaint | None = None


def recognises_directory(names: frozenset[str], heads: Heads) -> bool:
    """A replay that begins as one, or a receipt if there is no replay."""
    # Runward writes a bundle of the same form into native runs.
    if names & OF_A_RUN:
        return False
    lines = heads.get(REPLAY, b"").split(b"\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]
    if any(_begins_replay(line) for line in lines):
        return True
    receipt = heads.get(RECEIPT, b"")
    return b'"session_id"' in receipt and any(key in receipt for key in _RECEIPT_KEYS)


def _begins_replay(line: bytes) -> bool:
    try:
        record = decode(line)
    except ValueError:
        return False
    kind = (record.get("event") or record.get("type")) if isinstance(record, dict) else None
    return isinstance(kind, str) and kind in BEGINS


class AdjutantScanner(KeepsState[State]):
    """Reads Adjutant's session directories. The module's docstring says what its words mean."""

    def start(self, name: str) -> State:
        return State(1, name, Replay())

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        if file != REPLAY:
            return state, ()
        replay, known = replace(state.replay), KINDS
        unreadable = Unreadable(state.unreadable, state.complaints)
        resumed: list[Resumed] = []
        events, moved_at = 0, replay.moved_at
        for record in records(file, lines, unreadable):
            if not isinstance(record, dict):
                continue
            events += 1
            kind = record.get("event") or record.get("type")
            at = record.get("t") or record.get("ts") or record.get("created_at")
            if isinstance(at, str):
                moved_at = at
            else:
                at = None
            if not replay.attempt:
                replay.attempt, replay.started_at = 1, at and at[:LONGEST_TIME]
            if isinstance(kind, str) and kind in known:
                before = replay.close() if replay.end else None
                attempt, began_at = replay.attempt, replay.started_at
                if replay.take(kind, record, at) and before is not None:
                    started_at, began = parse_time(replay.started_at), parse_time(began_at)
                    resumed.append(Resumed(replay.attempt, before, started_at, attempt, began))
        replay.events, replay.moved_at = replay.events + events, moved_at and moved_at[:LONGEST_TIME]
        complaints = tuple(unreadable.complaints)
        state = replace(state, replay=replay, unreadable=unreadable.count, complaints=complaints)
        return state, tuple(resumed)

    def see(self, state: State, documents: Sequence[Document]) -> State:
        for document in documents:
            if document.name != RECEIPT:
                continue
            content = document_object(document)
            if isinstance(content, Complaint):
                state = replace(state, in_receipt=content)
            else:
                state = replace(state, receipt=_receipt(content), in_receipt=None)
        return state

    def tell(self, state: State) -> Told:
        replay, receipt, close = state.replay, state.receipt, state.replay.close()
        attempt = replay.attempt or int(receipt is not None)
        started_at, moved_at = parse_time(replay.started_at), parse_time(replay.moved_at)
        session_id, tool_calls = replay.session_id, replay.tool_calls
        if receipt is not None:
            session_id = session_id or receipt.session_id
            # The receipt stands in only where there is no replay.
            if not replay.events:
                started_at, tool_calls = parse_time(receipt.started_at), receipt.tool_calls
                moved_at = parse_time(receipt.completed_at) or started_at
        documents = () if state.in_receipt is None else (state.in_receipt,)
        return Told(
            session_id=session_id or state.name,
            attempt=attempt,
            turn="closed" if close else "open" if attempt else "none",
            close=close,
            headless=True,
            started_at=started_at,
            moved_at=moved_at,
            version=(replay.producer or "").partition("@")[2] or None,
            counts=Counts(replay.events, tool_calls, replay.errors),
            unreadable=state.unreadable,
            complaints=(*documents, *_strange_end(replay), *state.complaints),
            turns=attempt,
        )


SCANNER: Final = AdjutantScanner(State)


def _receipt(content: dict[str, JsonValue]) -> Receipt:
    started_at = text_in(content.get("started_at"), LONGEST_TIME)
    return Receipt(
        text_in(content.get("session_id")),
        started_at or text_in(content.get("created_at"), LONGEST_TIME),
        text_in(content.get("completed_at"), LONGEST_TIME),
        len(list_in(content.get("tool_calls"))),
    )


def _strange_end(replay: Replay) -> tuple[Complaint, ...]:
    if replay.strange_end is None:
        return ()
    message = f"SessionEnd has the status {replay.strange_end!r}, which is not a known status"
    return (Complaint(REPLAY, None, message, "known are Success, Failed, Cancelled and Timeout"),)


_HASHES_ALONE: Final = "the session's own replay has only the output's hash"


class AdjutantCalls(WithoutDocuments):
    """Reads a session's own `REPLAY.jsonl`.

    It has the hash of an output and not the output, so most results have none to show.
    """

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[ToldCall]:
        """What further lines tell."""
        return told_by_events(source, lines, hashes_alone=_HASHES_ALONE, verifies=True)


CALLS: Final = CallLayout(lambda name, beside: AdjutantCalls(), logs=(REPLAY,))
