"""What can be asked about chains, and the answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.chain import Chain  # noqa: F401 - in the types of answers
from runward.config.json_value import JsonValue
from runward.handlers.asking import Question
from runward.handlers.chains.effects import ChainRunStatus, ChainStatus, StepResult, StepStatus
from runward.handlers.unreadable import Unreadable  # noqa: F401 - in the types of answers


@dataclass(frozen=True, slots=True)
class ListenersTo(Question["tuple[Chain, ...]"]):
    """Question: which valid chains an event of this name may fire. Answer: the chains, by name."""

    event: str


@dataclass(frozen=True, slots=True)
class ChainNamed(Question["Chain | str"]):
    """Question: which chain has this name. Answer: the chain, or why none can be fired."""

    name: str


class ChainFires(NamedTuple):
    """Whether a chain fires, since when (Unix seconds), and why not."""

    status: ChainStatus
    since: float
    note: str
    said_by: str


@dataclass(frozen=True, slots=True)
class ChainFiresNow(Question["ChainFires | None"]):
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


@dataclass(frozen=True, slots=True)
class LeftBy(Question[LeftBySession]):
    """Question: what the session of a step left when this attempt was judged. Answer: `LeftBySession`."""

    session_key: str
    attempt: int


class StepStanding(NamedTuple):
    """The state of a step of a chain run."""

    step: int
    status: StepStatus
    reason: str | None
    session_key: str | None
    attempt: int
    outcome: JsonValue
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
    said_by: str = ""
    depth: int = 1
    turn: str | None = None
    created_at: float = 0.0
    cause: JsonValue = None


@dataclass(frozen=True, slots=True)
class ChainRunOf(Question["ChainRunStanding | None"]):
    """Question: the state of a chain run. Answer: `ChainRunStanding`, or None if there is no such run."""

    run: str


class OpenRun(NamedTuple):
    """A chain run that is not over: its key for taking turns, and whether it waits for its turn."""

    id: str
    turn: str | None
    waits: bool


@dataclass(frozen=True, slots=True)
class OpenRunsOf(Question["tuple[OpenRun, ...]"]):
    """Question: which runs of a chain are not over. Answer: these, the oldest first."""

    chain: str


MOST_FIRINGS: Final = 60
"""Firings of one chain by events in a minute."""


@dataclass(frozen=True, slots=True)
class FiringsOf(Question["tuple[float, ...]"]):
    """Question: when events fired a chain lately. Answer: the last `MOST_FIRINGS` moments (Unix seconds), the newest
    first."""

    chain: str


class Held(NamedTuple):
    """An event held for the composite trigger of a chain, without its content. The fields are those of `HoldEvent`."""

    key: str
    at: float
    items: tuple[int, ...]
    trigger: str
    event: str
    event_id: str
    by_run: str | None


@dataclass(frozen=True, slots=True)
class HeldFor(Question["tuple[Held, ...]"]):
    """Question: which events are held for the composite trigger of a chain. Answer: these, as they were recorded."""

    chain: str


@dataclass(frozen=True, slots=True)
class ToldBy(Question["Mapping[str, JsonValue]"]):
    """Question: the content of the events held for a chain. Answer: their fields, by the keys of the events."""

    chain: str


WAITS_FOR_SLOT: Final = "step.waiting.slot"
"""The reason of a step that waits because the most steps allowed are running."""


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


@dataclass(frozen=True, slots=True)
class SlotsNow(Question[SlotsStanding]):
    """Question: which steps of all chains run or wait for a slot. Answer: `SlotsStanding`.

    It is asked last. Anyone who asks next sees what is decided by the answer, so no slot is taken twice.
    """


@dataclass(frozen=True, slots=True)
class StepsAtOnce(Question[int]):
    """Question: how many slots there are, by the settings in force. Answer: their number."""


@dataclass(frozen=True, slots=True)
class LaneWaits(Question[bool]):
    """Question: whether something in this lane is neither decided nor held. Answer: true or false."""

    lane: str


QUESTIONS: Final = (
    *(ListenersTo, ChainNamed, ChainFiresNow, ChainRunOf, OpenRunsOf, FiringsOf),
    *(HeldFor, ToldBy, LeftBy),
    *(SlotsNow, StepsAtOnce, LaneWaits),
)
