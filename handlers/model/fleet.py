"""Steps on other hosts as data: events, effects, questions and their answers.

An order is a row of the fleet's database. `id` names it at its origin, `take` counts how often it was taken. So what is said of
one take can't be meant for another one.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Asking, Question, ask
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Request

if TYPE_CHECKING:
    from runward.config.fleet import Labelled

MOST_OUTCOME: Final = 64 << 10
"""Characters of an outcome that travel back, as JSON writes it in ASCII and as the database does."""

MOST_SENT: Final = 896 << 10
"""Bytes of what a step gives another host, as the database writes them. It takes an order of 1 MiB, with what else is in it."""

NOT_APPROVED: Final = "what it would start is not what was approved"
"""Why a host declines an order whose approval was for another playbook. Its origin asks a person again."""

TOO_LATE: Final = "the time to begin it (start_within) has passed"
"""Why a host declines an order that it took in time and came to too late."""

OrderEnd: TypeAlias = Literal["ended", "declined", "withdrawn", "given_up"]

_ORDER: Final = re.compile(r"(cr_[0-9a-f]{12})-([0-9]{1,3})-([0-9]{1,6})")
_RUN: Final = re.compile(r"(?:.*/)?(fl_[0-9a-f]{12}-[0-9]{1,9})")


def size_in_database(value: JsonValue) -> int:
    """Bytes of a value's text in the fleet's database. It writes numbers with all their digits: 1e+23 as a one and 23 zeros."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    with_exponent = (short for short in map(repr, _floats(value)) if "e" in short)
    return len(text) + sum(len(f"{Decimal(short):f}") - len(short) for short in with_exponent)


def _floats(value: JsonValue) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _floats(each)


def storable(value: JsonValue) -> JsonValue:
    """Without the characters that PostgreSQL's JSON can't hold: one of them would be refused for ever."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [storable(each) for each in value]
    if isinstance(value, dict):
        return {str(storable(key)): storable(each) for key, each in value.items()}
    return value


class Try(NamedTuple):
    """A try of a step of a chain run."""

    run: str
    step: int
    attempt: int


def order_id(of: Try) -> str:
    """The id of the order for a try."""
    return f"{of.run}-{of.step}-{of.attempt}"


def try_of(order: str) -> Try | None:
    """The try that an order is for, judging by its id."""
    match = _ORDER.fullmatch(order)
    return None if match is None else Try(match[1], int(match[2]), int(match[3]))


def run_of_order(origin: str, order: str, take: int) -> str:
    """The run directory and session id of an order that this host takes, known before anything is started."""
    return f"fl_{hashlib.sha256(f'{origin}/{order}'.encode()).hexdigest()[:12]}-{take}"


def lane_of_taken(session_key: str) -> str | None:
    """The lane of the order that a session would have been begun for, judging by its name; None if it is none."""
    match = _RUN.fullmatch(session_key) if "fl_" in session_key else None
    return None if match is None else f"fleet:{match[1]}"


class _OfOrder:
    """What another host did with an order of this one: it goes into the lane of its chain run."""

    __slots__ = ()
    id: str

    @property
    def lane(self) -> str:
        of = try_of(self.id)
        return f"fleet:{self.id}" if of is None else of.run


class _OfTake:
    """What concerns a take of an order by this host: it goes into the lane in which its session's end is decided, too."""

    __slots__ = ()
    origin: str
    id: str
    take: int

    @property
    def lane(self) -> str:
        return f"fleet:{run_of_order(self.origin, self.id, self.take)}"


class RemoteStepTaken(_OfOrder, Request, frozen=True):
    """Another host took an order of this one: it begins the step, or says why not."""

    id: str
    host: str
    take: int
    said_by: str = ""
    taken_at: float | None = None
    """Unix seconds, by the clock of the fleet's database."""


class RemoteStepBegun(_OfOrder, Request, frozen=True):
    """The host that took an order of this one says that the step begins: its own store has that."""

    id: str
    host: str
    take: int
    said_by: str = ""


class RemoteStepOver(_OfOrder, Request, frozen=True):
    """An order of this host is over: its taker says how the step ended, or nobody begins it.

    `result` is what `EndTaken` has; None unless it `ended`. `declined` says why hosts don't begin it, by their names. If a person gave
    it up, `host` is the one that took it, and `declined` has the person's note.
    """

    id: str
    end: OrderEnd
    host: str | None
    result: JsonValue
    declined: dict[str, JsonValue]
    said_by: str = ""


class RemoteStepOrdered(_OfTake, Request, frozen=True):
    """This host took an order: `body` is what the origin wrote, which may be anything.

    If it is `cancelled`, the origin did not want it any more when it was read. `begin_within` are the seconds that were left to begin it
    then, by the clock of the fleet's database; None: without limit.
    """

    origin: str
    id: str
    take: int
    body: JsonValue
    cancelled: bool = False
    said_by: str = ""
    begin_within: float | None = None


class RemoteStepCancelled(_OfTake, Request, frozen=True):
    """The origin does not want an order any more that this host took."""

    origin: str
    id: str
    take: int
    said_by: str = ""


class PlaceOrder(Effect, frozen=True):
    """Have a try of a step ordered from `host`, or from any that has all `labels`. `body` is what travels.

    `begin_within` are the seconds in which it must begin.
    """

    of: Try
    at: float
    host: str | None
    skill: str
    body: JsonValue
    begin_within: float | None
    labels: tuple[str, ...] = ()


class CancelOrder(Effect, frozen=True):
    """Have an order withdrawn, or its step ended. One that is settled stays as it is."""

    of: Try
    at: float


class SettleOrder(Effect, frozen=True):
    """Record that what an order became is known here, so the fleet may forget it."""

    id: str
    at: float


class BeginTaken(Effect, frozen=True):
    """Record that this host begins a step of another one as a session, for this take of its order."""

    origin: str
    id: str
    take: int
    session_key: str
    at: float
    depth: int = 0
    """How many chain runs fired one another in a row before it, with that of the order."""


class DeclineTaken(Effect, frozen=True):
    """Record that this host never begins an order that it took, and why. Only then another host may get it."""

    origin: str
    id: str
    take: int
    why: str
    at: float


class EndTaken(Effect, frozen=True):
    """Record how a step of another host ended, for its origin."""

    origin: str
    id: str
    take: int
    result: JsonValue
    at: float


TakenState: TypeAlias = Literal["begun", "declined", "ended"]


class Taken(NamedTuple):
    """What this host did with an order that it took."""

    origin: str
    id: str
    take: int
    state: TakenState
    session_key: str | None
    depth: int = 0


class TakenAs(Question["Taken | None"], frozen=True):
    """Question: for which order a session was begun. Answer: `Taken`, or None if no other host ordered it."""

    session_key: str


def depth_behind(session_key: str) -> Asking[int]:
    """How many chain runs fired one another in a row before what this session does: 0, unless another host ordered it."""
    # A loop over several hosts must end, too, also if it goes through the steps that they order.
    taken = None if lane_of_taken(session_key) is None else (yield from ask(TakenAs(session_key)))
    return 0 if taken is None else taken.depth


class TakenOf(Question["Taken | None"], frozen=True):
    """Question: what became of a take of an order. Answer: `Taken`, or None if this host did nothing about it yet."""

    origin: str
    id: str
    take: int


class BegunBefore(Question[bool], frozen=True):
    """Question: whether this host has begun an order, under whichever number of a take. Answer: whether it has."""

    origin: str
    id: str


class Accepted(NamedTuple):
    """What this host may do for another one. `longest` are seconds; None: as long as the origin wants.

    `entries` are those of the settings that say so, in words.
    """

    allow: frozenset[str]
    longest: float | None
    entries: tuple[str, ...] = ()


class AcceptedNow(Question["Accepted | None"], frozen=True):
    """Question: whether the settings accept this playbook or action from this host, as an order that `signer` signed (a public key; None:
    nobody). Answer: `Accepted`, or None if not."""

    origin: str
    kind: Literal["skill", "action"]
    name: str
    signer: str | None = None


class Offer(NamedTuple):
    """A host that accepts a playbook or an action from this one: its labels, when the database heard of it (Unix seconds, None if
    never), and a hash of what it would start."""

    host: str
    labels: tuple[str, ...]
    last_seen: float | None
    hash: str

    def is_of(self, wanted: "str | Labelled") -> bool:
        """Whether its host is the one of this name, or has these labels."""
        return self.host == wanted if isinstance(wanted, str) else {*wanted.labels} <= {*self.labels}


class OffersOf(Question["tuple[Offer, ...]"], frozen=True):
    """Question: which other hosts accept this playbook or action from this one, as far as is known here? Answer: `Offer`s, by host."""

    kind: Literal["skill", "action"]
    name: str


def taken_after(taken: Taken | None, effect: BeginTaken | DeclineTaken | EndTaken) -> Taken | None:
    """What this host did after the effect."""
    match effect:
        case BeginTaken():
            return Taken(effect.origin, effect.id, effect.take, "begun", effect.session_key, effect.depth)
        case DeclineTaken():
            return Taken(effect.origin, effect.id, effect.take, "declined", None)
    return None if taken is None else taken._replace(state="ended")


class PublishEvent(Effect, frozen=True):
    """Have the fleet told of an event of this host, which another host accepts. `depth` is that of the chain run behind it."""

    key: str
    at: float
    name: str
    id: str
    fields: JsonValue
    depth: int


AWAITED: Final[tuple[type[Effect], ...]] = (PlaceOrder, CancelOrder, DeclineTaken, EndTaken, PublishEvent)
"""Of what the fleet is told, that for which another host waits."""


class HeardElsewhere(Question[bool], frozen=True):
    """Question: whether another host accepts events of this name from this one. Answer: true or false."""

    event: str


class EventAccepted(Question[bool], frozen=True):
    """Question: whether the settings accept events of this name from this host. Answer: true or false."""

    host: str
    event: str


class OwnHost(Question["str | None"], frozen=True):
    """Question: the name of this host in its fleet, by the settings in force. Answer: the name, or None without a fleet."""
