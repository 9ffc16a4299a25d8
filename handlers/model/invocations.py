"""Invocations as data: events, effects, questions and their answers."""

from typing import Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect

EndStatus: TypeAlias = Literal["completed", "failed", "timed_out", "aborted", "cancelled"]


class OpenInvocation(Effect, frozen=True):
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


class EndInvocation(Effect, frozen=True):
    """End an invocation. One that is over stays as it is."""

    id: str
    at: float
    status: EndStatus
    reason_code: str


class LinkSession(Effect, frozen=True):
    """Record that a session, which was opened before that was known, was started for an invocation."""

    key: str
    invocation: str


class Invocation(NamedTuple):
    """An invocation: its skill, the chain of its chain run, and the chain run that it came from, if there is one."""

    id: str
    skill: str
    chain: str | None = None
    by_run: str | None = None


class InvocationOf(Question["Invocation | None"], frozen=True):
    """Question: for which invocation a session was started. Answer: `Invocation`, or None if nobody requested it."""

    session_key: str
