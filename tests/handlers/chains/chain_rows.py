"""The rows that a history of chains leaves, and who looks at each change of them."""

from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from runward.config.json_value import JsonValue
from runward.handlers.model.approvals import ApprovalStanding, DecideApproval
from runward.handlers.model.chains import ChainRunStanding, ChainRunStatus, SetChainRun, SetStep, StepStatus
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.sessions import Status

OPEN: Final = ("running", "waiting_approval")
NOT_OVER: Final = ("waiting", "waiting_approval", "running")


class Broken(AssertionError):
    """A law does not hold."""


@dataclass
class Try:
    """A row of a step, with what became of it."""

    attempt: int
    status: StepStatus
    reason: str | None
    why: str | None
    session: str | None
    outcome: JsonValue
    since: float
    was_judged: bool = False
    """Whether the step ever got further than the wait for its run's turn."""


@dataclass
class Row:
    """A row of a chain run."""

    opened: ChainRunStanding
    status: ChainRunStatus = "running"
    reason: str = "chain.running.started"
    why: str = "it was fired"
    steps: dict[int, list[Try]] = field(default_factory=dict)
    late: bool = False
    """Whether it ended because its time was over."""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def waits(self) -> bool:
        return self.reason == "chain.running.waits"


@dataclass
class Command:
    """A command that was ordered, as its launcher knows it."""

    start: StartRun
    state: Literal["ordered", "runs", "over", "never", "withdrawn"] = "ordered"
    began: float | None = None
    to_end: bool = False
    said: tuple[Status, str, JsonValue] | None = None
    """What was told of its end: status, reason and outcome."""


@dataclass
class Asked:
    """An approval, the words that were shown, and how it was decided."""

    row: ApprovalStanding
    status: Literal["asked", "approved", "denied", "expired", "changed"] = "asked"
    by: str = ""
    decided_at: float | None = None


class Laws(Protocol):
    """What must hold at each effect, after each job, and whenever nothing is left to do for now."""

    def opened(self, run: Row) -> None: ...
    def step_set(self, run: Row, before: Try | None, effect: SetStep) -> None: ...
    def run_set(self, run: Row, effect: SetChainRun) -> None: ...
    def start(self, run: Row, effect: StartRun) -> None: ...
    def decided_on(self, asked: Asked, effect: DecideApproval) -> None: ...
    def done(self, event: Event, effects: tuple[Effect, ...]) -> None: ...
    def at_rest(self) -> None: ...
