"""All events, effects and questions that the capabilities define. A class is registered by being defined in its module."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from runward.handlers import model
from runward.handlers.exchange import reading
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, FromInbox, Request, UnknownEvent, load
from runward.handlers.model.stored import Stored

# A capability that was left out of a list would lose its events: a stored one that nobody knows stops its lane. So there
# is no list. The modules come in the order of their names, and nothing but the tables of the reference follows it.
_MODULES: Final = (
    *(import_module(f"{model.__name__}.{module.name}") for module in iter_modules(model.__path__)),
    reading,
)

_BASES: Final = (Event, FromInbox, Request, Effect, Question)


def _defined() -> Iterator[type]:
    """The classes that these modules define, apart from those that others are made from."""
    for module in _MODULES:
        for value in vars(module).values():
            is_own = isinstance(value, type) and value.__module__ == module.__name__
            if is_own and value not in _BASES:
                yield value


_KINDS: Final = tuple(_defined())

EVENTS: Final[dict[str, type[Event]]] = {each.type: each for each in _KINDS if issubclass(each, Event)}
"""By their types."""

EFFECTS: Final[tuple[type[Effect], ...]] = tuple(each for each in _KINDS if issubclass(each, Effect))
QUESTIONS: Final[tuple[type[Question[Any]], ...]] = tuple(
    each for each in _KINDS if issubclass(each, Question)
)
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
