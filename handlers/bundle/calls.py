"""What a session's files say about its calls, in the order of the files: the input of a replay.

Times are Unix seconds, or None where the line has none. `line` is the number of the line, counted from 1, and
`source` the path of its file below the session's own directory, as the reader names it.
"""

from typing import NamedTuple, TypeAlias

from runward.config.json_value import JsonValue


class Place(NamedTuple):
    """Where a record was read: the file, the line (counted from 1), and the bytes of that line."""

    source: str
    line: int
    start: int
    length: int


class Called(NamedTuple):
    """A tool was called. `tokens` are those of the reply that made the call, at the reply's first call, else None.

    `problem` says why the params can't be hashed, when the file holds only nearly what they are. `attempt` is the
    attempt that made it, if the store says so.
    """

    place: Place
    at: float | None
    id: str
    tool: str
    params: JsonValue
    step_id: str | None = None
    tokens: int | None = None
    problem: str | None = None
    attempt: int | None = None


class Returned(NamedTuple):
    """A call came back. `content` is the content of the tool's record; for a failed call, `error` has it and `content` is
    None.

    `tokens` are those of the reply that made the call, if they are told after the call. `problem` says why the
    output can't be hashed.
    """

    place: Place
    at: float | None
    id: str
    content: JsonValue
    error: JsonValue = None
    success: bool = True
    exit_code: int | None = None
    step_utility: float | None = None
    tokens: int | None = None
    problem: str | None = None


class PlanTold(NamedTuple):
    """The session reported its plan: all steps, in order, as the tool wrote them.

    `hash` is the plan's hash as the session reports it, if it does not report the steps.
    """

    place: Place
    at: float | None
    steps: JsonValue
    step_count: int
    hash: str | None = None


class StepDone(NamedTuple):
    """The session reported a step as done."""

    place: Place
    at: float | None
    step_id: str
    status: str
    iterations: int | None = None


class VerificationTold(NamedTuple):
    """The session reported its verification: each command with its exit code (None: unknown).

    `delta` are the tests that failed at first minus those that failed at the end.
    """

    place: Place
    at: float | None
    commands: tuple[tuple[str, int | None], ...]
    delta: int | None = None


class Stated(NamedTuple):
    """What a native run says about itself in its trace. None for what it does not say."""

    place: Place
    issue_number: int | None = None
    policy_bundle_id: str | None = None
    confidence: float | None = None


class Paid(NamedTuple):
    """What a reply cost, by the session's own account."""

    place: Place
    at: float | None
    usd: float


class Unusable(NamedTuple):
    """A line that describes a call and cannot be used, and why. It becomes a problem with its line."""

    place: Place
    problem: str


Told: TypeAlias = Called | Returned | PlanTold | StepDone | VerificationTold | Stated | Paid | Unusable
