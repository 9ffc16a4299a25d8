"""What can be ordered for invocations: rows of their table."""

from typing import Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue

EndStatus: TypeAlias = Literal["completed", "failed", "timed_out", "aborted", "cancelled"]


class OpenInvocation(NamedTuple):
    """Insert an invocation. It is a chain run's root, the `attempt` of a `step` of one, or the run of a playbook.

    `session_key` is the session that was ordered for it. `metadata` is what it was ordered with.
    """

    id: str
    skill: str
    at: float
    session_key: str | None = None
    chain_run: str | None = None
    step: int | None = None
    attempt: int | None = None
    metadata: JsonValue = None


class EndInvocation(NamedTuple):
    """End an invocation. One that is over stays as it is."""

    id: str
    at: float
    status: EndStatus
    reason_code: str


class LinkSession(NamedTuple):
    """Record that a session, which was opened before that was known, was started for an invocation."""

    key: str
    invocation: str


InvocationEffect: TypeAlias = OpenInvocation | EndInvocation | LinkSession
