"""An action for which code must run: it is worked out beside the worker, over the exchange as it was when it began."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from runward.handlers.asking import Given, Question
from runward.handlers.exchange.action_result import ActionResult
from runward.handlers.exchange.effects import ExchangeEffect
from runward.handlers.exchange.events import ActionRequested, IntentMade
from runward.handlers.exchange.intent import Intent


class Decided(NamedTuple):
    """What becomes of an action. `scrip_after` is what its principal has then."""

    intent: Intent | None
    result: ActionResult
    scrip_after: int | None


class Running(NamedTuple):
    """Code runs, or waits for a worker, since so many seconds."""

    seconds: float


class Worked(NamedTuple):
    """An action as it was worked out. It holds if `read`, what was asked with its answers, holds still.

    `cpu_s` is what the kernel counted; `sandbox` are the means that shut the code off, None where no code ran.
    """

    decided: Decided
    effects: tuple[ExchangeEffect, ...]
    read: Mapping[Question[Any], Any]
    cpu_s: float
    sandbox: str | None


class Acted(NamedTuple):
    """An action as it was worked out the time `number`, which counts from 1. `cpu_s` counts all times together."""

    number: int
    cpu_s: float
    worked: Worked


@dataclass(frozen=True, slots=True)
class ActedWithCode(Question["Running | Acted"]):
    """Question: what became of an action that is worked out beside the worker. Answer: `Running` or `Acted`.

    It begins when it is asked first, and the action may ask again as often as it likes. It is worked out once more if the
    time `after` is the last one. `used` is the CPU time that its principal has used, each time with its seconds.
    """

    event: IntentMade | ActionRequested
    given: Given
    after: int = 0
    used: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TurnOf(Question[bool]):
    """Question: whether this action may be decided now. Answer: false while another one needs the exchange for itself."""

    action: str


@dataclass(frozen=True, slots=True)
class CodeOf(Question["Running | float"]):
    """Question: what code has run for this action. Answer: `Running`, or its CPU time (seconds), 0 where none ran."""

    action: str


QUESTIONS: Final = (ActedWithCode, TurnOf, CodeOf)
