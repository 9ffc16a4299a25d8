"""Plays a handler with known answers, until it decides or asks for something else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from runward.handlers.model.asking import Given, Question, TryLater
from runward.handlers.model.effects import Effects
from runward.handlers.route import Decision

Answer: TypeAlias = object
AnyQuestion: TypeAlias = Question[Any]
Event = TypeVar("Event")
Event_contra = TypeVar("Event_contra", contravariant=True)


@dataclass(frozen=True)
class Need:
    """What the handler asks next and has no answer to."""

    question: AnyQuestion


class Played(Protocol[Event_contra]):
    """A handler as a function of its event, the event's hash, all answers, and the time."""

    def __call__(
        self,
        event: Event_contra,
        event_hash: str,
        known: Mapping[AnyQuestion, Answer],
        now: float,
        tries: int = 0,
        /,
    ) -> Effects | Need | TryLater: ...


def played(decide: Callable[[Event, Given], Decision]) -> Played[Event]:
    """The handler as a function of its event, the event's hash, all answers, and the time."""

    def play(
        event: Event, event_hash: str, known: Mapping[AnyQuestion, Answer], now: float, tries: int = 0, /
    ) -> Effects | Need | TryLater:
        return conclusion(lambda: decide(event, Given(event_hash, now, tries)), known)

    return play


def conclusion(
    begin: Callable[[], Decision], known: Mapping[AnyQuestion, Answer]
) -> Effects | Need | TryLater:
    """What it comes to with these answers."""
    try:
        decision = begin()
        if isinstance(decision, tuple):
            return decision
        question = next(decision)
        while question in known:
            question = decision.send(known[question])
    except StopIteration as stopped:
        effects: Effects = stopped.value
        return effects
    except TryLater as later:
        return later
    return Need(question)
