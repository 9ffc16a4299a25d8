"""Events: every fact that Runward records, as data. Each capability defines its own from these bases.

An event is recorded once, under a key that makes a second report of it harmless. Events are past tense. Each class has a
`version`; an older stored version is lifted in `UPCASTERS` when it is read, so no handler ever sees an old shape.
"""

import json
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias

from msgspec import Struct

from runward.config.json_value import LATEST, MAX_INTEGER, JsonValue
from runward.handlers.model.stored import Stored, as_json

MAXIMUM_DEPTH: Final = 32
"""How many events may cause one another in a row; a longer chain is a loop and is refused."""

Upcaster: TypeAlias = Callable[[dict[str, JsonValue]], dict[str, JsonValue]]
UPCASTERS: Final[dict[tuple[str, int], Upcaster]] = {}
"""From (type, version) to a function that lifts a payload to the next version."""


class _Timed:
    """Each event has these fields at the places where its first version stored them."""

    __slots__ = ()
    at: float
    """When it happened, in Unix seconds."""


class Event(_Timed, Struct, frozen=True):
    """What can happen. Its fields, in this order, are its stored payload; `type` is the name of its class."""

    type: ClassVar[str]
    version: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.type = cls.__name__
        # A Struct's metaclass isn't `ABCMeta`. Without this check, an event without a key would be noticed only when it is
        # put: by then the fact that it stands for has been seen, and is lost.
        lacking = [name for name in ("key", "lane") if getattr(cls, name) is getattr(Event, name)]
        if lacking and (cls.__module__ != Event.__module__ or cls.__name__ not in _BASES):
            raise TypeError(f"{cls.__name__} has no {' and no '.join(lacking)}")

    @property
    @abstractmethod
    def key(self) -> str:
        """The key under which it is recorded once."""

    @property
    @abstractmethod
    def lane(self) -> str:
        """The lane of its jobs, unless their route says otherwise."""


_BASES: Final = ("FromInbox", "Request")
"""Only bases of others. What is made from them says its own lane."""


class OfSession:
    """A statement about a session: it goes into the session's lane."""

    __slots__ = ()
    session_key: str

    @property
    def lane(self) -> str:
        return self.session_key


class OfFiles:
    """A statement about files that its jobs read in the background, `produced_bytes` in all."""

    __slots__ = ()
    produced_bytes: int


class AfterTime:
    """What happens because time has passed, or others ended. Its cause is past, and it begins a new line of causes."""

    __slots__ = ()


class FromInbox(Event, frozen=True):
    """What came through the inbox: its key is the name of the inbox file."""

    request: str
    at: float

    @property
    def key(self) -> str:
        return self.request


class _Asked:
    """As `_Timed`: who asked, by the owner of the inbox file."""

    __slots__ = ()
    said_by: str


class Request(_Asked, FromInbox, frozen=True):
    """What a person asks for, or a program in a person's name."""


class UnknownEvent(ValueError):
    """A stored or submitted event has a type, version or shape that this program doesn't know."""


def load(stored: Stored[Event], kind: type[Event], version: int, payload: bytes | str) -> Event:
    """The event of this kind that was stored as `payload`. Raises `UnknownEvent`."""
    if version > kind.version:
        raise UnknownEvent(
            f"{kind.type} version {version} was written by a newer Runward (this one knows {kind.version})"
        )
    try:
        if version == kind.version:
            return stored.load(payload)
        fields_then: dict[str, JsonValue] = json.loads(payload)
        for step in range(version, kind.version):
            fields_then = UPCASTERS[kind.type, step](fields_then)
        return stored.load(as_json(fields_then))
    except (ValueError, KeyError) as error:
        raise UnknownEvent(f"{kind.type} version {version} can't be read: {error}") from error


def impossible(event: Event) -> str | None:
    """Which of the event's own numbers neither the store nor a calendar can hold. None if all are possible.

    For events that arrive as files: what is put once must be readable for ever.
    """
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, float) and not math.isfinite(value):
            return f"{name} is not a finite number"
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            return f"{name} has more than 64 bits"
        if name == "at" and not 0.0 <= value <= LATEST:
            return "at is not a time from 1970 to 9999"
    return None
