"""What can be asked about invocations, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.handlers.asking import Question


class Invocation(NamedTuple):
    """An invocation: its skill, the chain of its chain run, and the chain run that it came from, if there is one."""

    id: str
    skill: str
    chain: str | None = None
    by_run: str | None = None


@dataclass(frozen=True, slots=True)
class InvocationOf(Question["Invocation | None"]):
    """Question: for which invocation a session was started. Answer: `Invocation`, or None if nobody requested it."""

    session_key: str


QUESTIONS: Final = (InvocationOf,)
