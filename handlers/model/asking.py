"""How a handler asks: it yields a question and gets the answer back.

    session = yield from ask(SessionOf(event.session_key))

The type of the answer belongs to the question. An absent thing is a value (`None`). "Cannot read" is a value of its
own and never the same as empty or gone.
"""

from collections.abc import Generator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from runward.handlers.model.files import Unreadable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Question(Struct, Generic[T_co], frozen=True):
    """A question whose answer is a `T_co`. Equal questions have equal answers."""


Asking: TypeAlias = Generator[Question[Any], Any, T]
"""What a function returns if it may ask questions before it returns a `T`."""


class Given(NamedTuple):
    """What a handler gets with its event: the event's hash, the time (Unix seconds), and how often it was put off."""

    event_hash: str
    at: float
    tries: int = 0


def ask(question: Question[T]) -> Asking[T]:
    """The answer to the question."""
    answer: T = yield question
    return answer


def ask_readable(question: Question[T | Unreadable], what: str) -> Asking[T]:
    """The answer to the question. If it can't be read now, the job is tried again."""
    answer = yield from ask(question)
    if isinstance(answer, Unreadable):
        raise TryLater(f"{what} can't be read: {answer.why}")
    return answer


class TryLater(Exception):
    """The world refused a fact that is needed (busy, full, unreadable): the job is tried again, with backoff."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class NotYet(TryLater):
    """It is too early: the job waits until `until` (Unix seconds). This does not count as a failed try."""

    def __init__(self, until: float) -> None:
        super().__init__(f"not before {until}")
        self.until = until
