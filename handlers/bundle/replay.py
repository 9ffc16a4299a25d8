"""The replay of an attempt: its lines, one by one, and the receipt and the summary that are made from it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import msgspec

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.handlers.bundle.canonical import NotCanonical, canonical_bytes
from runward.handlers.bundle.edits import Edits, with_git
from runward.handlers.bundle.receipt import file_entry
from runward.handlers.bundle.replay_lines import MOST_VALUES, OF_A_LINE, has_more_values
from runward.handlers.bundle.shown import DEEPEST, Redaction, Showing, is_deeper
from runward.handlers.bundle.summary import Failure, Summary, rates, verified
from runward.handlers.bundle.verification_runs import VerificationRuns
from runward.handlers.calls import (
    Called,
    Paid,
    Place,
    PlanTold,
    Returned,
    Stated,
    StepDone,
    Told,
    Unusable,
    VerificationTold,
)
from runward.handlers.exchange.intent import RESULTS
from runward.handlers.foreign_json import parse_time
from runward.handlers.model.bundle import BundleOrder, Cost, FileEdit
from runward.handlers.model.part import Part
from runward.handlers.model.sessions import Status
from runward.handlers.secrets import REDACTED
from runward.handlers.times import iso_time

TOO_MANY: Final = f"has more than {MOST_VALUES - OF_A_LINE:,} values"
"""The problem of a value that no reader of the replay would accept."""
_MOST_SHOWN: Final = MOST_VALUES - OF_A_LINE

MOST_PROBLEMS: Final = 20
"""Problems that are named; further ones are counted."""


@dataclass(slots=True)
class CallRecord:
    """A call as the receipt has it, and when it was made (Unix seconds)."""

    id: str
    tool: str
    params_hash: str | None
    at: float | None
    cost_tokens: int | None
    output_hash: str | None = None
    step_utility: float | None = None
    latency_ms: int | None = None
    is_back: bool = False
    success: bool = False


class _Shown(msgspec.Struct):
    """A line that was shown, as far as the facts about a replay need it."""

    event: str
    t: str | None = None
    id: str = ""
    tool: str = ""
    params: Any = None
    params_hash: str | None = None
    plan_hash: str | None = None
    output: dict[str, Any] | None = None
    output_hash: str | None = None
    exit_code: int | None = None
    step_utility: float | None = None
    latency_ms: int | None = None


class _Hashed(NamedTuple):
    """A value's hash and the text that it covers, or why there is none."""

    digest: str | None
    problem: str | None
    text: bytes | None = None


@dataclass(slots=True)
class Replay:
    """One replay being made. `lines` yields it; the facts about it are known afterwards."""

    order: BundleOrder
    calls: dict[str, CallRecord] = field(default_factory=dict)
    plan_hash: str | None = None
    issue_number: int | None = None
    policy_bundle_id: str | None = None
    confidence: float | None = None
    verification: VerificationRuns = field(default_factory=lambda: VerificationRuns(()))
    edits: Edits = field(default_factory=Edits)
    problems: list[str] = field(default_factory=list)
    more_problems: int = 0
    begun_with: tuple[int | None, str | None] = (None, None)
    """Issue and policy as its first line says them."""
    _is_own: bool = True
    _paid_usd: float | None = None
    _is_paid_whole: bool = True
    _has_plan: bool = False
    _has_begun: bool = False
    _adopted: dict[str, CallRecord] = field(default_factory=dict)
    """The calls that were shown before, although the session's files have changed since."""
    _adopted_steps: int = 0
    redaction: Redaction = field(init=False)
    """The one for all parts of the bundle."""
    _showing: Showing = field(init=False)

    def __post_init__(self) -> None:
        self.redaction = Redaction(self.order.rules.redact)
        self._showing = Showing(self.redaction, self.order.rules.longest_text)
        self.verification = VerificationRuns(self.order.rules.verification)
        self.policy_bundle_id = self.order.rules.policy_bundle_id
        # A record without a time belongs where the one before it does. The first ones are of this attempt if it is the
        # first, or if the place in the log divides attempts.
        self._is_own = self.order.stretch.begins is None or self.order.stretch.log_before is not None

    @property
    def problem(self) -> str | None:
        """What is wrong with the session's files, in one text. None if nothing is."""
        if not self.problems:
            return None
        problems = "; ".join(self.problems)
        return f"{problems}; and {self.more_problems} more" if self.more_problems else problems

    @property
    def cost_usd(self) -> float | None:
        """What the replies cost by the session's own account; None if that doesn't have all of them."""
        return self._paid_usd if self._is_paid_whole else None

    def lines(self, records: Iterable[Told], *, is_over: bool = True) -> Iterator[bytes]:
        """The lines of the replay, each with its newline. Those about the end come only if it `is_over`."""
        yield from self.more(records)
        yield from self.begin()
        if is_over:
            yield from self._verification()
            yield self._end()

    def more(self, records: Iterable[Told]) -> Iterator[bytes]:
        """The lines for what the files say beyond what they said before."""
        for each in records:
            # A run may say first what it begins with: its issue and its policy go into the first line.
            if not isinstance(each, Stated | Paid):
                yield from self.begin()
            yield from self._lines_of(each)

    def begin(self) -> Iterator[bytes]:
        """The first line, unless it was given already."""
        if not self._has_begun:
            self._has_begun = True
            yield self._start()

    def adopt(self, line: bytes) -> None:
        """Take in a line that was shown before, although the session's files may no longer say it."""
        # What was shown of a running session stays the beginning of the whole replay, also if the files no longer say
        # it.
        shown = msgspec.json.decode(line, type=_Shown)
        at = parse_time(shown.t)
        match shown.event:
            case "SessionStart":
                self._has_begun = True
            case "PlanStart":
                self._has_plan, self.plan_hash = True, shown.plan_hash
            case "StepComplete":
                self._adopted_steps += 1
            case "ToolCall":
                call = CallRecord(shown.id, shown.tool, shown.params_hash, at, None)
                self.calls[shown.id] = call
                self._adopted[shown.id] = call
                self.edits.called(shown.id, shown.tool, shown.params)
                self.verification.called(shown.id, shown.params)
            case "ToolResult":
                self._adopt_result(self.calls[shown.id], shown)

    def _adopt_result(self, call: CallRecord, shown: "_Shown") -> None:
        output = shown.output or {}
        call.is_back, call.success = True, output.get("success") is True
        call.output_hash, call.step_utility = shown.output_hash, shown.step_utility
        call.latency_ms = shown.latency_ms
        content = output.get("content" if call.success else "error")
        self.verification.returned(shown.id, content, call.success, shown.exit_code)
        self.edits.returned(shown.id, call.success)

    def found_changed(self, message: str) -> None:
        """Something about the session's files as a whole is a problem of this replay."""
        self.problems.insert(0, message)

    def _lines_of(self, record: Told) -> Iterator[bytes]:
        if self._is_after(record.place):
            return
        match record:
            case Called():
                yield from self._call(record)
            case Returned():
                yield from self._result(record)
            case PlanTold() if self._belongs(record.place, record.at):
                yield from self._plan(record)
            case StepDone() if self._belongs(record.place, record.at) and self._adopted_steps:
                self._adopted_steps -= 1
            case StepDone() if self._belongs(record.place, record.at):
                step: dict[str, JsonValue] = {
                    "step_id": record.step_id,
                    "status": record.status,
                    "iterations": record.iterations,
                }
                yield self._line("StepComplete", record.at, self._showing.fields(step))
            case VerificationTold() if self._belongs(record.place, record.at):
                for command, exit_code in record.commands:
                    self.verification.told(self._showing.name(" ".join(command.split())), exit_code)
                self.verification.told_delta = record.delta
            case Stated():
                self._state(record)
            case Paid() if self._belongs(record.place, record.at):
                if record.usd is None:
                    self._is_paid_whole = False
                else:
                    self._paid_usd = round((self._paid_usd or 0.0) + record.usd, 6)
            case Unusable() if not self._is_before(record.place):
                self._wrong(record.place, record.problem)

    def _belongs(self, place: Place, at: float | None, attempt: int | None = None) -> bool:
        """Whether a record is of this attempt: as the store says, by its place in the log, or else by its time. Without
        a time it belongs where the one before it does.
        """
        stretch = self.order.stretch
        # The store knows the attempt of an action in the exchange, because its intent names it.
        if attempt is not None and stretch.attempts is not None:
            return stretch.attempts[0] <= attempt <= stretch.attempts[1]
        # A place in the log divides attempts exactly. Times are used only where no place is known: the clock may have
        # been set back between two attempts.
        is_divided = self._is_in_log(place)
        begins = None if is_divided and stretch.log_before is not None else stretch.begins
        ends = None if is_divided and stretch.log_up_to is not None else stretch.ends
        if self._is_before(place):
            return False
        if begins is None and ends is None:
            return True
        if at is not None:
            self._is_own = (begins is None or at >= begins) and (ends is None or at < ends)
        return self._is_own

    def _is_in_log(self, place: Place) -> bool:
        """Whether a line of the session's log says this, and not the store, a document, or a log as a whole."""
        return place.line > 0 and place.source != RESULTS

    def _is_before(self, place: Place) -> bool:
        """Whether this is in the part of the log that belongs to earlier attempts."""
        before = self.order.stretch.log_before
        return before is not None and self._is_in_log(place) and self._position(place) <= before

    def _is_after(self, place: Place) -> bool:
        """Whether this is in the part of the log that came after this attempt."""
        up_to = self.order.stretch.log_up_to
        return up_to is not None and self._is_in_log(place) and self._position(place) > up_to

    def _position(self, place: Place) -> int:
        """The line, or a native run's byte, counted from 1."""
        return place.start + 1 if self.order.layout == NATIVE else place.line

    def _state(self, stated: Stated) -> None:
        if stated.issue_number is not None:
            self.issue_number = stated.issue_number
        if stated.policy_bundle_id is not None:
            self.policy_bundle_id = self._showing.name(stated.policy_bundle_id)
        if stated.confidence is not None and not self._is_before(stated.place):
            self.confidence = stated.confidence

    def _start(self) -> bytes:
        order, shown = self.order, self.order.grown
        issue, policy = (
            (self.issue_number, self.policy_bundle_id)
            if shown is None
            else (shown.issue_number, shown.policy_bundle_id)
        )
        self.begun_with = (issue, policy)
        fields: dict[str, JsonValue] = {
            "session_id": order.session_id,
            "issue_number": issue,
            "policy_bundle_id": policy,
            "attempt": order.attempt,
            "hash": order.stretch.hash,
        }
        if policy is not None and REDACTED in policy:
            fields["redacted"] = ["/policy_bundle_id"]
        return self._line("SessionStart", order.stretch.started_at, fields)

    def _plan(self, plan: PlanTold) -> Iterator[bytes]:
        if self._has_plan:
            return
        self._has_plan = True
        self.plan_hash = plan.hash if plan.steps is None else self._hash(plan.steps, plan.place).digest
        yield self._line("PlanStart", plan.at, {"plan_hash": self.plan_hash, "step_count": plan.step_count})

    def _call(self, call: Called) -> Iterator[bytes]:
        if not self._belongs(call.place, call.at, call.attempt):
            return
        # An id that was redacted still differs from others, so that two calls don't become one.
        name = self._showing.id(call.id)
        if name in self._adopted:
            return  # it was shown before
        if name in self.calls:
            self._wrong(call.place, f"the call {name} is reported twice")
            return
        hashed = self._hash(call.params, call.place, call.problem)
        tool = self._showing.name(call.tool)
        self.calls[name] = CallRecord(name, tool, hashed.digest, call.at, call.tokens)
        self.edits.called(name, call.tool, call.params)
        fields: dict[str, JsonValue] = {
            "id": call.id,
            "tool": call.tool,
            "params": call.params,
            "params_hash": hashed.digest,
            "step_id": call.step_id,
        }
        shown = self._shown(fields, "params", hashed.problem)
        self.verification.called(name, shown["params"])
        yield self._line("ToolCall", call.at, self._spliced(shown, "params", hashed))

    def _result(self, returned: Returned) -> Iterator[bytes]:
        name = self._showing.id(returned.id)
        call = self.calls.get(name)
        if call is None:
            return  # of a call of another attempt, or of one that can't be used, which was reported
        if call.is_back and name in self._adopted:
            return  # its result is in the part that was shown already
        if call.is_back:
            self._wrong(returned.place, f"the call {name} has two results")
            return
        output: JsonValue = {
            "content": returned.content if returned.success else None,
            "error": None if returned.success else returned.error,
            "success": returned.success,
        }
        call.is_back, call.success = True, returned.success
        hashed = self._hash(output, returned.place, returned.problem)
        call.output_hash = hashed.digest
        # Some versions report a reply's tokens before its calls, others after them.
        call.cost_tokens = returned.tokens if call.cost_tokens is None else call.cost_tokens
        call.step_utility = returned.step_utility
        if call.at is not None and returned.at is not None and returned.at >= call.at:
            call.latency_ms = round(returned.at * 1000) - round(call.at * 1000)
        raw = returned.content if returned.success else returned.error
        self.verification.returned(name, raw, returned.success, returned.exit_code)
        self.edits.returned(name, returned.success)
        fields: dict[str, JsonValue] = {
            "id": returned.id,
            "output": output,
            "output_hash": call.output_hash,
            "exit_code": returned.exit_code,
            "step_utility": returned.step_utility,
            "latency_ms": call.latency_ms,
        }
        shown = self._shown(fields, "output", hashed.problem)
        yield self._line("ToolResult", returned.at, self._spliced(shown, "output", hashed))

    def _verification(self) -> Iterator[bytes]:
        runs = self.verification.runs()
        if runs:
            yield self._line(
                "Verification",
                self.order.verdict.at,
                {
                    "commands": [run.command for run in runs],
                    "exit_codes": [run.exit_code for run in runs],
                    "verification_delta": self.verification.delta,
                },
            )

    def _end(self) -> bytes:
        verdict = self.order.verdict
        return self._line(
            "SessionEnd",
            verdict.at,
            {
                "status": replay_status(verdict.status, verdict.reason_code),
                "confidence": self.confidence,
                "total_tool_calls": len(self.calls),
                "total_latency_ms": sum(call.latency_ms or 0 for call in self.calls.values()),
                "reason_code": verdict.reason_code,
                "hash": verdict.hash,
            },
        )

    def _hash(self, value: JsonValue, place: Place, problem: str | None = None) -> _Hashed:
        """The hash of a value, or why there is none."""
        if problem is None and is_deeper(value, DEEPEST):
            problem = f"nested more than {DEEPEST} levels deep"
        if problem is None:
            try:
                text = canonical_bytes(value, self.order.rules.canonical_form)
                # No reader of the replay would accept such a line, because of the memory that it takes.
                if not has_more_values(text, _MOST_SHOWN):
                    return _Hashed(f"sha256:{sha256(text).hexdigest()}", None, text)
                problem = TOO_MANY
            except NotCanonical as error:
                problem = str(error)
        self._wrong(place, problem)
        return _Hashed(None, problem)

    def _shown(self, fields: dict[str, JsonValue], key: str, problem: str | None) -> dict[str, JsonValue]:
        """The fields as they are written. What can't be hashed is shown if possible, with the `problem`."""
        if problem is None:
            return self._showing.fields(fields)
        try:
            # Showing such a value would make a line that no reader accepts, so only the problem is shown.
            if problem == TOO_MANY or is_deeper(fields[key], DEEPEST):
                raise NotCanonical(problem)
            shown = self._showing.fields(fields)
            canonical_bytes(shown, self.order.rules.canonical_form)
        except NotCanonical:
            shown = self._showing.fields({**fields, key: None})
        return {**shown, "problem": problem}

    def _spliced(self, shown: dict[str, JsonValue], key: str, hashed: _Hashed) -> dict[str, JsonValue]:
        """The fields, with the hashed text in place of a value that is shown whole: so it is written only once."""
        # The text was already made for the hash. If nothing of it is missing, it is not written a second time.
        is_whole = "redacted" not in shown and "cut" not in shown
        if hashed.text is None or not is_whole or self.order.rules.canonical_form != "seed":
            return shown
        return {**shown, key: cast("JsonValue", msgspec.Raw(hashed.text))}

    def _line(self, event: str, at: float | None, fields: dict[str, JsonValue]) -> bytes:
        line: dict[str, JsonValue] = {"event": event, "t": None if at is None else iso_time(at), **fields}
        return canonical_bytes(line, self.order.rules.canonical_form) + b"\n"

    def _wrong(self, place: Place, problem: str) -> None:
        message = self.redaction.text(problem)
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(f"{place.source}:{place.line}: {message}")
        else:
            self.more_problems += 1


def replay_status(status: Status, reason_code: str) -> str:
    """The replay's word for how an attempt ended."""
    if status == "aborted":
        return "Cancelled" if reason_code == "run.aborted.user" else "Failed"
    return _STATUS[status]


_STATUS: Final[dict[Status, str]] = {
    "running": "Running",
    "completed": "Success",
    "failed": "Failed",
    "timed_out": "Timeout",
    "aborted": "Failed",
    "cancelled": "Cancelled",
}


def receipt_body(replay: Replay, parts: Sequence[Part], plain_names: Sequence[str]) -> dict[str, JsonValue]:
    """The fields in their order; `plain_names` are the names of the `parts` in an exported bundle."""
    order, runs = replay.order, replay.verification.runs()
    return {
        "session_id": order.session_id,
        "started_at": iso_time(order.stretch.started_at),
        "completed_at": iso_time(order.verdict.at),
        "issue_number": replay.issue_number,
        "plan_hash": replay.plan_hash,
        "tool_calls": [_call(each) for each in replay.calls.values()],
        "verification": {
            "commands_run": [run.command for run in runs],
            "exit_codes": [run.exit_code for run in runs],
            "verification_delta": replay.verification.delta,
        },
        "final_confidence": replay.confidence,
        "policy_bundle_id": replay.policy_bundle_id,
        "layout": order.layout,
        "attempt": order.attempt,
        "status": order.verdict.status,
        "reason_code": order.verdict.reason_code,
        "delivery": order.verdict.delivery,
        # The verdict's event is in the chain of all events. So the receipt proves a place in that chain, too.
        "event_hash": order.verdict.hash,
        "files": {
            name: file_entry(part.sha256, part.size) for name, part in zip(plain_names, parts, strict=True)
        },
    }


def _call(call: CallRecord) -> JsonValue:
    return {
        "id": call.id,
        "tool": call.tool,
        "params_hash": call.params_hash,
        "output_hash": call.output_hash,
        "step_utility": call.step_utility,
        "latency_ms": call.latency_ms,
        "cost_tokens": call.cost_tokens,
    }


def summary_of(replay: Replay) -> Summary:
    """The facts of a replay, once all its lines were made. What agents wrote is redacted as in the replay."""
    order, shown = replay.order, replay.redaction.text
    commits = () if order.work_tree is None else order.work_tree.commits
    duration_s = max(0.0, order.verdict.at - order.stretch.started_at)
    calls = len(replay.calls)
    succeeded = sum(call.success for call in replay.calls.values())
    apm, sapm = rates(calls, succeeded, duration_s)
    return Summary(
        session_id=order.session_id,
        changes=tuple(shown(each) for each in (*order.changes, *commits)),
        files=tuple(each._replace(path=shown(each.path)) for each in _files(replay)),
        verification=verified(replay.verification.runs()),
        confidence=replay.confidence,
        issue_number=replay.issue_number,
        duration_s=round(duration_s, 6),
        apm=apm,
        sapm=sapm,
        tokens=order.usage,
        cost=order.cost if replay.cost_usd is None else Cost(replay.cost_usd, "usd"),
        estimate=order.estimate if order.cost is None and replay.cost_usd is None else None,
        failure=_failure(order, shown),
        lacks_untracked=order.work_tree is not None and order.work_tree.lacks_untracked,
        calls=calls,
        failed_calls=sum(call.is_back and not call.success for call in replay.calls.values()),
    )


def _files(replay: Replay) -> tuple[FileEdit, ...]:
    """The changed files. Those in the session's working directory are named by their paths below it."""
    cwd, tree = replay.order.cwd, replay.order.work_tree
    files = replay.edits.files()
    if tree is not None:
        files = with_git(files, tree.top, tree.files)
    prefix = None if cwd is None else cwd.rstrip("/") + "/"
    return tuple(
        each._replace(path=each.path.removeprefix(prefix)) if prefix is not None else each for each in files
    )


def _failure(order: BundleOrder, shown: Callable[[str], str]) -> Failure | None:
    if order.verdict.status == "completed":
        return None
    return Failure(shown(order.verdict.reason_summary) or order.verdict.reason_code, order.next_steps)
