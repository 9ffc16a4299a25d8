"""Chains as data: events, effects, questions and their answers."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar, assert_never

from msgspec import field

from runward.config.chain import Chain  # noqa: F401 - in the types of answers
from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import AfterTime, Event, Request

ChainRunStatus: TypeAlias = Literal[
    "running", "completed", "failed", "timed_out", "aborted", "cancelled", "waiting_approval"
]
StepStatus: TypeAlias = Literal[
    "waiting",
    "waiting_approval",
    "skipped",
    "running",
    "completed",
    "failed",
    "timed_out",
    "aborted",
    "cancelled",
]


ChainStatus: TypeAlias = Literal["active", "paused", "disabled"]


class SetChainStatus(Effect, frozen=True):
    """Record whether a chain fires: from `at` (Unix seconds) on, as `said_by` asked."""

    chain: str
    at: float
    status: ChainStatus
    note: str
    said_by: str


BeganThere: TypeAlias = Literal["yes", "no", "unknown"]


class StepResult(NamedTuple):
    """What the session of a step left when it was judged, apart from its last outcome of a registered kind.

    `verification` is the object as ADR-0029 writes it. `artifacts` are the absolute paths of what the contract expected
    and was there, by the ids of its entries. `earlier` are the outcomes before the last one, oldest first; None if all
    together are longer than later steps may see. If another host took the step: its name, and the id of the session there.
    """

    delivery: str | None = None
    verification: JsonValue = None
    exit_code: int | None = None
    artifacts: Mapping[str, str] = {}
    earlier: Sequence[JsonValue] | None = ()
    host: str | None = None
    session: str | None = None
    taken_at: float | None = None
    """When the other host took it: Unix seconds, by the clock of the fleet's database."""
    began_there: BeganThere | None = None
    """Whether it began on another host, as far as is known here; None if it was never ordered from one, or by an older Runward."""
    is_in_doubt: bool = False
    """It ended here before its order was over: what becomes of that is said later."""


class StepStanding(NamedTuple):
    """The state of a step of a chain run. `reason` is the code of the reason of its status."""

    step: int
    status: StepStatus
    reason: str | None
    session_key: str | None = None
    attempt: int = 1
    outcome: JsonValue = None
    result: StepResult = StepResult()


class ChainRunStanding(NamedTuple):
    """The state of a chain run, with its steps by their number."""

    id: str
    chain: str
    status: ChainRunStatus
    definition: JsonValue
    trigger: Mapping[str, JsonValue]
    fired_by: str
    reason_code: str
    reason_summary: str
    deadline: float | None
    steps: Mapping[int, StepStanding]
    created_at: float
    said_by: str = ""
    depth: int = 1
    turn: str | None = None
    """Runs of a chain with the same value begin one after the other."""
    cause: JsonValue = None
    """What `chain` says about the event that fired it: `event`, `event_id`, `due_at` and `events`."""


class OpenChainRun(Effect, frozen=True):
    """Insert a run of a chain, with the definition that it keeps until its end and the fields of what fired it."""

    run: ChainRunStanding
    waits: bool = False
    """Whether it waits for its turn."""


class SetStep(Effect, frozen=True):
    """Store the state of a step of a chain run: its try, its condition's value and the reason of its status."""

    run: str
    at: float
    standing: StepStanding
    reason_summary: str | None
    value: JsonValue = None
    fired_at: float = 0.0
    """When its run was fired, for a step that waits for a slot."""


class SayMore(Effect, frozen=True):
    """Say more exactly why a try of a step ended, once that is known: its status and its reason stay."""

    run: str
    at: float
    standing: StepStanding
    reason_summary: str


class SetChainRun(Effect, frozen=True):
    """Move a chain run on to another step, or end it."""

    run: str
    at: float
    status: ChainRunStatus
    reason_code: str
    reason_summary: str
    current_step: int


class RecordFiring(Effect, frozen=True):
    """Store the result of a firing by the event `fired_by` of this name, with the reason `result`, and the run that it became."""

    chain: str
    at: float
    fired_by: str
    event: str
    result: str
    why: str
    run: str | None = None
    due_at: float | None = None


def trigger_hash(definition: JsonValue) -> str:
    """Tells one trigger from another: what was seen for another trigger does not count."""
    trigger = definition.get("trigger") if isinstance(definition, dict) else None
    return hashlib.sha256(json.dumps(trigger, sort_keys=True).encode()).hexdigest()[:16]


class Held(NamedTuple):
    """An event held for the composite trigger of a chain, without its content.

    `items` are the numbers of the events and schedules that it is meant for in the trigger with the hash `trigger`.
    """

    key: str
    at: float
    items: tuple[int, ...]
    trigger: str
    event: str
    event_id: str
    by_run: str | None
    depth: int = 0


class HoldEvent(Effect, frozen=True):
    """Store an event that the composite trigger of a chain has seen, until the rest of it happens."""

    chain: str
    held: Held
    fields: JsonValue


class ReleaseEvents(Effect, frozen=True):
    """Stop holding these events for the trigger of a chain: they were used, or are too old."""

    chain: str
    keys: tuple[str, ...]


_STEP: Final = re.compile(r"(?:.*/)?(cr_[0-9a-f]{12})-[0-9]{1,3}-[0-9]{1,6}")


class _OfChain:
    """A statement about a chain: it goes into the chain's lane."""

    __slots__ = ()
    chain: str

    @property
    def lane(self) -> str:
        return f"chain:{self.chain}"


class _OfChainRun:
    """A statement about a chain run: it goes into the run's lane."""

    __slots__ = ()
    run: str

    @property
    def lane(self) -> str:
        return self.run


class EventOccurred(Request, frozen=True):
    """Something happened outside that may fire chains. The same name and id is the same event.

    `fields` are what a chain sees as `trigger`.
    """

    name: str
    id: str
    fields: dict[str, JsonValue]
    said_by: str = ""
    by_run: str | None = None
    """The chain run that caused it, as far as that is known."""
    host: str | None = None
    """The host of the fleet on which it happened; None: this one."""
    depth: int = 0
    """How many chain runs on other hosts fired one another in a row before it."""

    @property
    def lane(self) -> str:
        return f"events:{self.name}"


class ChainFireRequested(_OfChain, Request, frozen=True):
    """A person wants a chain fired, whatever its trigger. `fields` are what it sees as `trigger`."""

    chain: str
    fields: dict[str, JsonValue]
    said_by: str = ""
    by_run: str | None = None


class ChainStatusRequested(_OfChain, Request, frozen=True):
    """A person wants a chain to fire again (`active`), or to stop firing: `paused` for a while, `disabled` for good."""

    chain: str
    status: ChainStatus
    note: str = ""
    said_by: str = ""


class ChainRunCancelRequested(_OfChainRun, Request, frozen=True):
    """A person wants a chain run ended, together with its current step."""

    run: str
    reason: str = ""
    said_by: str = ""
    superseded: bool = False
    """Whether a later run takes its place, without anybody's request."""
    before_it_began: bool = False
    """Whether the run itself was only asked for so far."""


BY_EVENT: Final = "firing.fired.event"
"""The result of a firing by an event, and not by a schedule or a person."""


class ChainFired(_OfChain, Event, frozen=True):
    """A chain was fired: by an event that passed its filter, by a schedule, or by a person.

    `definition` is the chain as it was then, `fields` what it sees as `trigger`. `fired_by` is the key of the event,
    `said_by` the person who caused it, `by_run` the chain run, and `result` the reason of the firing.
    """

    chain: str
    at: float
    fired_by: str
    event: str
    event_id: str
    fields: dict[str, JsonValue]
    definition: JsonValue
    said_by: str = ""
    by_run: str | None = None
    result: str = BY_EVENT
    due_at: float | None = None
    events: list[JsonValue] = field(default_factory=list)
    """All events that fired it together, if its trigger is a composite. The last one is this event."""
    depth: int = 0
    """How many chain runs on other hosts fired one another in a row before it."""

    @property
    def key(self) -> str:
        # An event fires a chain once, and so does each time of a schedule.
        return f"{self.chain}@{self.fired_by}"


class TriggerMatched(_OfChain, AfterTime, Event, frozen=True):
    """Something happened that the composite trigger of a chain waits for: an event, or the time of a schedule.

    `items` are the numbers of the events and schedules in the trigger that it is meant for. The other fields are those
    of `ChainFired`. It begins a new line of causes: a chain run is between, and chain runs count their own depth.
    """

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
    result: str = BY_EVENT
    due_at: float | None = None
    depth: int = 0

    @property
    def key(self) -> str:
        # An event counts once for a chain, for all the items of its trigger together.
        return f"{self.chain}@{self.fired_by}/matched"


class ChainRunFinished(_OfChain, Event, frozen=True):
    """A chain run is over."""

    run: str
    chain: str
    at: float
    status: ChainRunStatus
    reason_code: str

    @property
    def key(self) -> str:
        return f"{self.run}/finished"


class ChainRunTurn(_OfChainRun, Event, frozen=True):
    """A chain run that waited for another one may begin; `after` is that one."""

    run: str
    at: float
    after: str

    @property
    def key(self) -> str:
        # Each run that ends may give it its turn. Once it has begun, a further turn does nothing.
        return f"{self.run}/turn/{self.after}"


class SlotOffered(_OfChainRun, AfterTime, Event, frozen=True):
    """There is a slot for a try of a step that waits for one; `by` distinguishes the offers.

    If the step no longer waits, the slot is offered to the next. So each offer begins a new line of causes.
    """

    run: str
    step: int
    attempt: int
    at: float
    by: str

    @property
    def key(self) -> str:
        # The step may be offered a slot more than once: each offer names the event that freed it.
        return f"{self.run}/{self.step}/{self.attempt}/slot/{self.by}"


def chain_run_of(session_key: str) -> str | None:
    """The chain run whose step a session would be, judging by its name. The store says whether it really is one."""
    match = _STEP.fullmatch(session_key) if "cr_" in session_key else None
    return None if match is None else match[1]


class ListenersTo(Question["tuple[Chain, ...]"], frozen=True):
    """Question: which valid chains an event of this name may fire that happened on that host (None: this one). Answer: the
    chains, by name."""

    event: str
    host: str | None = None


class IsHeard(Question[bool], frozen=True):
    """Question: whether a chain or another host waits for events of this name that happen here. Answer: true or false. What
    nobody waits for would cost the store a row and a job for nothing."""

    event: str


class ChainNamed(Question["Chain | str"], frozen=True):
    """Question: which chain has this name. Answer: the chain, or why none can be fired."""

    name: str


class ChainFires(NamedTuple):
    """Whether a chain fires, since when (Unix seconds), and why not."""

    status: ChainStatus
    since: float
    note: str
    said_by: str


class ChainFiresNow(Question["ChainFires | None"], frozen=True):
    """Question: whether a chain fires. Answer: `ChainFires`, or None if nobody ever paused or disabled it."""

    chain: str


MOST_OUTCOMES: Final = 512 << 10
"""Characters of all outcomes of one step, as JSON, that later steps see."""


class LeftBySession(NamedTuple):
    """The last outcome of a registered kind that a session left, or None, and the rest.

    `why` is the reason of its status in a sentence.
    """

    outcome: Mapping[str, JsonValue] | None = None
    result: StepResult = StepResult()
    why: str | None = None


class LeftBy(Question[LeftBySession], frozen=True):
    """Question: what the session of a step left when this attempt was judged. Answer: `LeftBySession`."""

    session_key: str
    attempt: int


class ChainRunOf(Question["ChainRunStanding | None"], frozen=True):
    """Question: the state of a chain run. Answer: `ChainRunStanding`, or None if there is no such run."""

    run: str


class OpenRun(NamedTuple):
    """A chain run that is not over: its key for taking turns, and whether it waits for its turn."""

    id: str
    turn: str | None
    waits: bool


class OpenRunsOf(Question["tuple[OpenRun, ...]"], frozen=True):
    """Question: which runs of a chain are not over. Answer: these, the oldest first."""

    chain: str


MOST_FIRINGS: Final = 60
"""Firings of one chain by events in a minute."""


class FiringsOf(Question["tuple[float, ...]"], frozen=True):
    """Question: when events fired a chain lately. Answer: the last `MOST_FIRINGS` moments (Unix seconds), the newest
    first."""

    chain: str


class HeldFor(Question["tuple[Held, ...]"], frozen=True):
    """Question: which events are held for the composite trigger of a chain. Answer: these, as they were recorded."""

    chain: str


class ToldBy(Question["Mapping[str, JsonValue]"], frozen=True):
    """Question: the content of the events held for a chain. Answer: their fields, by the keys of the events."""

    chain: str


WAITS_FOR_SLOT: Final = "step.waiting.slot"
"""The reason of a step that waits because the most steps allowed are running."""

WAITS_FOR_HOST: Final = "step.waiting.host"
RUNS_ELSEWHERE: Final = "step.running.remote"
"""The reasons of a step that another host shall run, and of one that it took. Such a step has no session here, and no slot."""


class Waiter(NamedTuple):
    """A step that waits for a slot. They are ordered by when their runs were fired."""

    fired_at: float
    run: str
    step: int
    attempt: int


class SlotsStanding(NamedTuple):
    """The steps that have a slot, by run and number, and those that wait for one, in order.

    Only the first of the waiting steps are named, as many as can matter in a batch.
    """

    running: frozenset[tuple[str, int]] = frozenset()
    waiters: tuple[Waiter, ...] = ()


class SlotsNow(Question[SlotsStanding], frozen=True):
    """Question: which steps of all chains run or wait for a slot. Answer: `SlotsStanding`.

    It is asked last. Anyone who asks next sees what is decided by the answer, so no slot is taken twice.
    """


class StepsAtOnce(Question[int], frozen=True):
    """Question: how many slots there are, by the settings in force. Answer: their number."""


class LaneWaits(Question[bool], frozen=True):
    """Question: whether something in this lane is neither decided nor held. Answer: true or false."""

    lane: str


_ENDS: Final = ("failed", "timed_out", "aborted", "cancelled")

RUN_STATUSES: Final[Mapping[ChainRunStatus, tuple[ChainRunStatus, ...]]] = {
    "running": ("running", "waiting_approval", "completed", *_ENDS),
    "waiting_approval": ("waiting_approval", "running", "completed", *_ENDS),
}
"""The status of a chain run, with those that may follow it. Nothing follows a status that is not here."""

STEP_STATUSES: Final[Mapping[StepStatus, tuple[StepStatus, ...]]] = {
    "waiting": ("waiting", "waiting_approval", "skipped", "running", *_ENDS),
    "waiting_approval": ("waiting_approval", "waiting", "skipped", "running", *_ENDS),
    "running": ("running", "completed", *_ENDS),
}
"""The status of a try of a step, with those that may follow it. A further try begins with its own row."""

AnyStatus = TypeVar("AnyStatus", bound=str)


def statuses_before(
    table: Mapping[AnyStatus, tuple[AnyStatus, ...]], status: AnyStatus
) -> tuple[AnyStatus, ...]:
    """The statuses that this one may follow."""
    return tuple(each for each, following in table.items() if status in following)


def run_after(
    run: ChainRunStanding | None, effect: OpenChainRun | SetStep | SayMore | SetChainRun
) -> ChainRunStanding | None:
    """The run after the effect. None if there is none and the effect opens none."""
    if isinstance(effect, OpenChainRun):
        return effect.run
    if run is None:
        return None
    match effect:
        case SetStep() | SayMore():
            return run._replace(steps={**run.steps, effect.standing.step: effect.standing})
        case SetChainRun():
            return run._replace(
                status=effect.status, reason_code=effect.reason_code, reason_summary=effect.reason_summary
            )
    assert_never(effect)


def slots_after(slots: SlotsStanding, effect: SetStep) -> SlotsStanding:
    """Who has a slot and who waits for one after the effect."""
    step = effect.standing
    place = (effect.run, step.step)
    running, waiters = slots.running - {place}, slots.waiters
    waiters = tuple(each for each in waiters if (each.run, each.step) != place)
    if step.status == "running" and step.reason != RUNS_ELSEWHERE:
        running |= {place}
    elif step.status == "waiting" and step.reason == WAITS_FOR_SLOT:
        waiter = Waiter(effect.fired_at, effect.run, step.step, step.attempt)
        waiters = tuple(sorted((*waiters, waiter)))
    return SlotsStanding(running, waiters)
