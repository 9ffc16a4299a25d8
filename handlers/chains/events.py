"""What can happen to chains."""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import JsonValue

from runward.handlers.chains.effects import ChainStatus
from runward.handlers.event_kinds import Request

_STEP: Final = re.compile(r".*/(cr_[0-9a-f]{12})-[0-9]{1,3}-[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class EventOccurred(Request):
    """Something happened outside that chains may be fired by. The same name and id is the same event.

    `fields` are what a chain sees as `trigger`.
    """

    type: ClassVar[str] = "EventOccurred"
    version: ClassVar[int] = 1

    request: str
    at: float
    name: str
    id: str
    fields: dict[str, JsonValue]
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"events:{self.name}"


@dataclass(frozen=True, slots=True)
class ChainFireRequested(Request):
    """A person wants a chain fired, whatever its trigger. `fields` are what it sees as `trigger`."""

    type: ClassVar[str] = "ChainFireRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    chain: str
    fields: dict[str, JsonValue]
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"chain:{self.chain}"


@dataclass(frozen=True, slots=True)
class ChainStatusRequested(Request):
    """A person wants a chain to fire again (`active`), or to fire no more: `paused` for a while, `disabled` for good."""

    type: ClassVar[str] = "ChainStatusRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    chain: str
    status: ChainStatus
    note: str = ""
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"chain:{self.chain}"


@dataclass(frozen=True, slots=True)
class ChainRunCancelRequested(Request):
    """A person wants a chain run ended, with the step that runs."""

    type: ClassVar[str] = "ChainRunCancelRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    run: str
    reason: str = ""
    said_by: str = ""

    @property
    def lane(self) -> str:
        return self.run


@dataclass(frozen=True, slots=True)
class ChainFired:
    """A chain was fired: by an event that passed its filter, or by a person.

    `definition` is the chain as it was then, `fields` what it sees as `trigger`. `fired_by` is the key of the event, and
    `said_by` the person who caused it.
    """

    type: ClassVar[str] = "ChainFired"
    version: ClassVar[int] = 1

    chain: str
    at: float
    fired_by: str
    event: str
    event_id: str
    fields: dict[str, JsonValue]
    definition: JsonValue
    said_by: str = ""

    @property
    def key(self) -> str:
        return f"{self.chain}@{self.fired_by}"

    @property
    def lane(self) -> str:
        return f"chain:{self.chain}"


def chain_run_of(session_key: str) -> str | None:
    """The chain run whose step a session would be by its name; whether it is one is said by the store."""
    found = _STEP.fullmatch(session_key) if "/cr_" in session_key else None
    return None if found is None else found[1]
