"""What the reader of a layout's calls gets and returns, and what several readers share: plans, and REPLAY events.

Also the reader of a native run, whose trace has such events.

A reader goes through a session's files once, in order, and reports each call with its place. It keeps nothing
of what it has reported except what it needs to continue. It never raises because of what an agent wrote.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.calls import (
    Called,
    Place,
    PlanTold,
    Returned,
    Stated,
    StepDone,
    Told,
    Unusable,
    VerificationTold,
    answered,
)
from runward.handlers.exchange.results import CALL, NAMES
from runward.handlers.foreign_json import NotJson, parse_time, read_json
from runward.handlers.layouts.foreign_values import (
    document_object,
    number_in,
    text_in,
    whole_in,
    whole_text_in,
)
from runward.handlers.layouts.native import RUN
from runward.handlers.model.sessions import Complaint, Document

LONGEST_LINE: Final = 64 << 20
"""Bytes of a line that is read. Longer lines are not read at all."""


class PlacedLine(NamedTuple):
    """A line without its newline, and the byte at which it begins. `number` counts from 1."""

    number: int
    start: int
    content: bytes

    def place(self, source: str) -> Place:
        """The place of this line."""
        return Place(source, self.number, self.start, len(self.content))


class CallReader(Protocol):
    """Reads the calls of one session. `source` is a file's path relative to the session's place."""

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """Take in further whole lines of a log."""
        ...

    def see(self, document: Document) -> Iterator[Told]:
        """Take in a document that is new or was rewritten."""
        ...


LinesBeside: TypeAlias = Callable[[str], Iterable[bytes]]
"""The lines of the log of this name beside a session's own; none if it can't be read."""


class CallLayout(NamedTuple):
    """How a layout records calls.

    `start` gives a reader for the session whose file or directory has this name; it may also ask for other logs. `logs` and
    `documents` are the files to read in a session's directory; the documents come first. A session that is a single log
    has neither.
    """

    start: Callable[[str, LinesBeside], CallReader]
    logs: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()


class WithoutDocuments:
    """A reader that reads no documents."""

    def see(self, document: Document) -> Iterator[Told]:
        """There are none."""
        return iter(())


DONE_KEPT: Final = 1000
"""Steps that are remembered as done, so that each is reported once."""

_COMPLETED: Final = "completed"
_SUCCESS: Final = "Success"


class Plans:
    """What was reported of a session's plans so far: each list, and each step when it is done.

    The agent keeps a plan with a tool, which gets the whole list of steps each time, with their states.
    """

    def __init__(self) -> None:
        self._done: dict[str, None] = {}

    def told(self, place: Place, at: float | None, steps: JsonValue, names: Sequence[str]) -> Iterator[Told]:
        """What a list of steps says. A step is identified by the first of these fields that it has."""
        if not isinstance(steps, list):
            return
        yield PlanTold(place, at, steps, len(steps))
        for step in steps:
            if not isinstance(step, dict) or step.get("status") != _COMPLETED:
                continue
            name = next((text for key in names if (text := text_in(step.get(key)))), None)
            # The agent gives the whole list each time, so a step that is done comes again and again.
            if name is None or name in self._done:
                continue
            self._done[name] = None
            # An agent may name any number of steps.
            if len(self._done) > DONE_KEPT:
                del self._done[next(iter(self._done))]
            yield StepDone(place, at, name, _SUCCESS)


LONGEST_COMMAND: Final = 16 << 10
"""Characters of a command in a session's own verification."""

LONGEST_ID: Final = 1000
"""Characters of an id: a longer one would be cut, and name another thing."""

_OUTPUT_KEYS: Final = frozenset({"content", "error", "success"})


def told_by_events(
    source: str, lines: Iterable[PlacedLine], *, hashes_alone: str | None = None, verifies: bool = False
) -> Iterator[Told]:
    """What lines of REPLAY events say: those of a native run's `trace.jsonl`, and of Adjutant's `REPLAY.jsonl`.

    All forms that were ever written are read: with `event` and `t`, or with `type` and `ts`, and with events and fields
    that are not known here. An event that describes a call and can't be used is reported as such.
    `hashes_alone` is the problem of a result whose output isn't there, if that is one.

    With `verifies`, the session's own `Verification` counts, because its calls don't show their outputs.
    """
    for line in lines:
        content = line.content
        if not content or content.isspace():
            continue
        value = read_json(content)
        if isinstance(value, NotJson):
            yield Unusable(line.place(source), value.message)
        elif not isinstance(value, dict):
            yield Unusable(line.place(source), "is not a JSON object")
        else:
            yield from _event(line.place(source), value, hashes_alone)
            # Its calls don't show their outputs, so what it says itself is all there is.
            if verifies and (value.get("event") or value.get("type")) == "Verification":
                yield _verification(line.place(source), value)


def _event(place: Place, record: dict[str, JsonValue], hashes_alone: str | None) -> Iterator[Told]:
    kind = record.get("event") or record.get("type")
    at = parse_time(record.get("t") or record.get("ts"))
    if kind == "ToolCall":
        yield from _called(place, at, record)
    elif kind == "ToolResult":
        yield from _returned(place, at, record, hashes_alone)
    elif kind == "PlanStart":
        yield _plan(place, at, record)
    elif kind == "StepComplete":
        yield from _step(place, at, record)
    elif kind == "SessionStart":
        yield from _started(place, record)
    elif kind == "SessionEnd":
        yield from _ended(place, record)


def _called(place: Place, at: float | None, record: dict[str, JsonValue]) -> Iterator[Told]:
    call, tool = whole_text_in(record.get("id"), LONGEST_ID), whole_text_in(record.get("tool"), LONGEST_ID)
    if call is None or tool is None:
        missing = "id" if call is None else "tool"
        yield Unusable(place, f"a ToolCall without {missing} (a text of at most {LONGEST_ID} characters)")
        return
    step = whole_text_in(record.get("step_id"), LONGEST_ID)
    yield Called(
        place=place,
        at=at,
        id=call,
        tool=tool,
        params=record.get("params"),
        step_id=step,
        tokens=_count(record.get("cost_tokens")),
    )


def _returned(
    place: Place, at: float | None, record: dict[str, JsonValue], hashes_alone: str | None
) -> Iterator[Told]:
    call = whole_text_in(record.get("id"), LONGEST_ID)
    if call is None:
        yield Unusable(place, f"a ToolResult without id (a text of at most {LONGEST_ID} characters)")
        return
    exit_code = whole_in(record.get("exit_code"))
    utility = number_in(record.get("step_utility"), -1, 1)
    if utility is None and record.get("step_utility") is not None:
        yield Unusable(place, "step_utility is not a number from -1 to 1: it is left out")
    output, failed = _output(record, exit_code)
    problem = hashes_alone if "output" not in record else None
    yield answered(
        place,
        at,
        call,
        output,
        failed=failed,
        exit_code=exit_code,
        step_utility=utility,
        problem=problem,
    )


def _output(record: dict[str, JsonValue], exit_code: int | None) -> tuple[JsonValue, bool]:
    """The content of a result, or the error of what failed, and whether it failed."""
    output = record.get("output")
    # An output of this form is the record's own envelope. Anything else is the content itself.
    if isinstance(output, dict) and output and output.keys() <= _OUTPUT_KEYS:
        content, error, success = output.get("content"), output.get("error"), output.get("success")
        failed = success is False if isinstance(success, bool) else error is not None
        return error if failed and error is not None else content, failed
    return output, bool(exit_code)


def _plan(place: Place, at: float | None, record: dict[str, JsonValue]) -> PlanTold:
    """The whole plan; only its size if the run doesn't write it."""
    from runward.handlers.bundle.receipt import is_hash  # few runs write plans

    plan = record.get("plan", record.get("steps"))
    count = _count(record.get("step_count"))
    if count is None:
        steps = plan.get("steps") if isinstance(plan, dict) else plan
        count = len(steps) if isinstance(steps, list) else 0
    reported = record.get("plan_hash")
    return PlanTold(
        place, at, plan, count, reported if isinstance(reported, str) and is_hash(reported) else None
    )


def _verification(place: Place, record: dict[str, JsonValue]) -> Told:
    """The commands with their exit codes, as far as both are there."""
    from runward.handlers.bundle.verification_runs import MOST_COMMANDS  # few runs write them

    commands, codes = record.get("commands"), record.get("exit_codes")
    if not isinstance(commands, list) or not isinstance(codes, list) or len(commands) != len(codes):
        return Unusable(place, "a Verification without as many exit_codes as commands: it is left out")
    pairs = [
        (whole_text_in(command, LONGEST_COMMAND), whole_in(code))
        for command, code in zip(commands, codes, strict=True)
    ]
    known = tuple((command, code) for command, code in pairs[:MOST_COMMANDS] if command is not None)
    at = parse_time(record.get("t") or record.get("ts"))
    return VerificationTold(place, at, known, whole_in(record.get("verification_delta")))


def _step(place: Place, at: float | None, record: dict[str, JsonValue]) -> Iterator[Told]:
    step, status = whole_text_in(record.get("step_id"), LONGEST_ID), whole_text_in(record.get("status"))
    if step is None or status is None:
        yield Unusable(place, f"a StepComplete without {'step_id' if step is None else 'status'}")
    else:
        yield StepDone(place, at, step, status, _count(record.get("iterations")))


def _started(place: Place, record: dict[str, JsonValue]) -> Iterator[Told]:
    issue = whole_in(record.get("issue_number"))
    if issue is None and record.get("issue_number") is not None:
        yield Unusable(place, "issue_number is not a whole number: it is left out")
    policy = whole_text_in(record.get("policy_bundle_id")) or whole_text_in(record.get("policy_version"))
    if issue is not None or policy is not None:
        yield Stated(place, issue_number=issue, policy_bundle_id=policy)


def _ended(place: Place, record: dict[str, JsonValue]) -> Iterator[Told]:
    confidence = number_in(record.get("confidence"), 0, 1)
    if confidence is not None:
        yield Stated(place, confidence=confidence)
    elif record.get("confidence") is not None:
        yield Unusable(place, "confidence is not a number from 0 to 1: it is left out")


def _count(value: JsonValue) -> int | None:
    count = whole_in(value)
    return count if count is not None and count >= 0 else None


# A native run writes REPLAY events without hashes to its trace. `SessionStart` and `SessionEnd` only say what Runward can't
# know: the issue, the policy and the confidence. If the trace names no issue, it is the `issue_number` in the metadata of
# `run.json`. The run's actions in the exchange are calls, too, and the store reports them.

TRACE: Final = "trace.jsonl"


class NativeCalls(WithoutDocuments):
    """Reads a run's trace."""

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """What further lines say. These lines don't report actions in the exchange."""
        for record in told_by_events(source, lines):
            # The store reports these calls, with their results. A run can write any line into its trace.
            if isinstance(record, Called | Returned) and record.id.startswith(CALL):
                yield Unusable(record.place, f"an id that begins with {CALL} is one of Runward's own")
            elif isinstance(record, Called) and record.tool.startswith(NAMES):
                yield Unusable(
                    record.place,
                    f"a tool that begins with {NAMES} belongs to the exchange, and Runward reports it itself",
                )
            else:
                yield record

    def see(self, document: Document) -> Iterator[Told]:
        """The issue that the launcher kept with the run. Faults in the file are reported where it is judged."""
        run = document_object(document) if document.name == RUN else {}
        metadata = {} if isinstance(run, Complaint) else run.get("metadata")
        issue = whole_in(metadata.get("issue_number")) if isinstance(metadata, dict) else None
        if issue is not None:
            yield Stated(Place(RUN, 0, 0, 0), issue_number=issue)


CALLS: Final = CallLayout(lambda name, beside: NativeCalls(), logs=(TRACE,), documents=(RUN,))
