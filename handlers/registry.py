"""All events, effects and questions that the capabilities define. A class is registered by being defined in its module."""

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from runward.handlers.exchange import acting_with_code
from runward.handlers.model import (
    approvals,
    bundle,
    chains,
    contracts,
    exchange,
    invocations,
    journal,
    notices,
    outcomes,
    requests,
    schedules,
    sessions,
    shows,
    starts,
    timers,
)
from runward.handlers.model import effects as everybodys
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, Request, UnknownEvent, load
from runward.handlers.model.stored import Stored

_CAPABILITIES: Final = (
    everybodys,
    sessions,
    contracts,
    journal,
    requests,
    starts,
    chains,
    timers,
    approvals,
    schedules,
    notices,
    outcomes,
    shows,
    exchange,
    acting_with_code,
    bundle,
    invocations,
)
"""In the order of their tables in the reference."""

T = TypeVar("T")


def _defined(base: type[T]) -> Iterator[type[T]]:
    for module in _CAPABILITIES:
        for value in vars(module).values():
            is_kind = isinstance(value, type) and issubclass(value, base) and value is not base
            if is_kind and value.__module__ == module.__name__:
                yield value


EVENTS: Final[dict[str, type[Event]]] = {each.type: each for each in _defined(Event)}
"""By their types."""

EFFECTS: Final[tuple[type[Effect], ...]] = tuple(_defined(Effect))
QUESTIONS: Final[tuple[type[Question[Any]], ...]] = tuple(_defined(Question))
REQUESTS: Final[tuple[type[Event], ...]] = tuple(
    each for each in EVENTS.values() if issubclass(each, Request)
)
"""The events that people ask for."""

_STORED: Final[dict[str, Stored[Event]]] = {name: Stored(kind) for name, kind in EVENTS.items()}


def load_payload(kind: str, version: int, payload: bytes | str) -> Event:
    """The event that was stored as `payload`. Raises `UnknownEvent`."""
    stored = _STORED.get(kind)
    if stored is None:
        raise UnknownEvent(f"unknown event type {kind!r}")
    return load(stored, EVENTS[kind], version, payload)
