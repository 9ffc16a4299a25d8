"""What can happen to chains."""

import re
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.chains.effects import ChainRunStatus, ChainStatus
from runward.handlers.event_kinds import AfterTime, Request

_STEP: Final = re.compile(r"(?:.*/)?(cr_[0-9a-f]{12})-[0-9]{1,3}-[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class EventOccurred(Request):
    """Something happened outside that may fire chains. The same name and id is the same event.

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
    by_run: str | None = None
    """The chain run that caused it, as far as that is known."""

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
    by_run: str | None = None

    @property
    def lane(self) -> str:
        return f"chain:{self.chain}"


@dataclass(frozen=True, slots=True)
class ChainStatusRequested(Request):
    """A person wants a chain to fire again (`active`), or to stop firing: `paused` for a while, `disabled` for good."""

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
    """A person wants a chain run ended, together with its current step."""

    type: ClassVar[str] = "ChainRunCancelRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    run: str
    reason: str = ""
    said_by: str = ""
    superseded: bool = False
    """Whether a later run takes its place, without anybody's request."""
    before_it_began: bool = False
    """Whether the run itself was only asked for so far."""

    @property
    def lane(self) -> str:
        return self.run


@dataclass(frozen=True, slots=True)
class ChainFired:
    """A chain was fired: by an event that passed its filter, by a schedule, or by a person.

    `definition` is the chain as it was then, `fields` what it sees as `trigger`. `fired_by` is the key of the event,
    `said_by` the person who caused it, `by_run` the chain run, and `result` the reason of the firing.
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
    by_run: str | None = None
    result: str = "firing.fired.event"
    due_at: float | None = None
    events: list[JsonValue] = field(default_factory=list)
    """All events that fired it together, if its trigger is a composite. The last one is this event."""

    @property
    def key(self) -> str:
        return f"{self.chain}@{self.fired_by}"

    @property
    def lane(self) -> str:
        return f"chain:{self.chain}"


@dataclass(frozen=True, slots=True)
class TriggerMatched(AfterTime):
    """Something happened that the composite trigger of a chain waits for: an event, or the time of a schedule.

    `items` are the numbers of the events and schedules in the trigger that it is meant for. The other fields are those
    of `ChainFired`. It begins a new line of causes: a chain run is between, and chain runs count their own depth.
    """

    type: ClassVar[str] = "TriggerMatched"
    version: ClassVar[int] = 1

    chain: str
    at: float
    fired_by: str
    event: str
    event_id: str
    fields: dict[str, JsonValue]
    definition: JsonValue
    items: tuple[int, ...]
    said_by: str = ""
    by_run: str | None = None
    result: str = "firing.fired.event"
    due_at: float | None = None

    @property
    def key(self) -> str:
        return f"{self.chain}@{self.fired_by}/matched"

    @property
    def lane(self) -> str:
        return f"chain:{self.chain}"


@dataclass(frozen=True, slots=True)
class ChainRunFinished:
    """A chain run is over."""

    type: ClassVar[str] = "ChainRunFinished"
    version: ClassVar[int] = 1

    run: str
    chain: str
    at: float
    status: ChainRunStatus
    reason_code: str

    @property
    def key(self) -> str:
        return f"{self.run}/finished"

    @property
    def lane(self) -> str:
        return f"chain:{self.chain}"


@dataclass(frozen=True, slots=True)
class ChainRunTurn:
    """A chain run that waited for another one may begin; `after` is that one."""

    type: ClassVar[str] = "ChainRunTurn"
    version: ClassVar[int] = 1

    run: str
    at: float
    after: str

    @property
    def key(self) -> str:
        return f"{self.run}/turn/{self.after}"

    @property
    def lane(self) -> str:
        return self.run


@dataclass(frozen=True, slots=True)
class SlotOffered(AfterTime):
    """There is a slot for a try of a step that waits for one; `by` distinguishes the offers.

    If the step no longer waits, the slot is offered to the next. So each offer begins a new line of causes.
    """

    type: ClassVar[str] = "SlotOffered"
    version: ClassVar[int] = 1

    run: str
    step: int
    attempt: int
    at: float
    by: str

    @property
    def key(self) -> str:
        return f"{self.run}/{self.step}/{self.attempt}/slot/{self.by}"

    @property
    def lane(self) -> str:
        return self.run


ChainEvent: TypeAlias = (
    EventOccurred
    | TriggerMatched
    | ChainFireRequested
    | ChainStatusRequested
    | ChainRunCancelRequested
    | ChainFired
    | ChainRunFinished
    | ChainRunTurn
    | SlotOffered
)


def chain_run_of(session_key: str) -> str | None:
    """The chain run whose step a session would be, judging by its name. The store says whether it really is one."""
    found = _STEP.fullmatch(session_key) if "cr_" in session_key else None
    return None if found is None else found[1]
