"""An action for which code must run: worked out in parallel with the worker, over the exchange as it was at first."""

from typing import NamedTuple

from runward.handlers.exchange.intent import ActionResult, Intent
from runward.handlers.exchange.reading import Reading
from runward.handlers.model.asking import Given, Question
from runward.handlers.model.exchange import ActionRequested, ExchangeEffect, IntentMade, Post


class Decided(NamedTuple):
    """The result of an action."""

    intent: Intent | None
    result: ActionResult


class Running(NamedTuple):
    """Code has been running, or waiting for a worker, for this many seconds."""

    seconds: float


class Worked(NamedTuple):
    """An action as it was worked out. It counts if what it has read still holds.

    `cpu_s` is what the kernel counted; `sandbox` is what isolated the code, None if no code ran.
    """

    decided: Decided
    effects: tuple[ExchangeEffect, ...]
    paid: tuple[Post, ...]
    """Those of the effects that pay for what was delivered: also due if the others don't count."""
    reading: Reading
    cpu_s: float
    sandbox: str | None


class Unable(NamedTuple):
    """No code can run here."""

    why: str


class Acted(NamedTuple):
    """The result of working an action out for time `number`, counted from 1. `cpu_s` is the total of all times."""

    number: int
    cpu_s: float
    worked: Worked


class ActedWithCode(Question["Running | Acted | Unable"], frozen=True):
    """Question: the result of an action worked out in parallel with the worker. Answer: `Running`, `Acted`,
    or `Unable`.

    The first question starts it, and the action may ask again as often as it likes. It is worked out once more if the
    time `after` is the last one. `used` is the CPU time that its principal has used, each time with its seconds.
    """

    event: IntentMade | ActionRequested
    given: Given
    after: int = 0
    used: tuple[tuple[float, float], ...] = ()


class CodeRan(NamedTuple):
    """Code that ran for an action: its CPU time (seconds) in all, and the payments for what it got the last time."""

    cpu_s: float = 0.0
    paid: tuple[Post, ...] = ()


class CodeOf(Question["Running | CodeRan"], frozen=True):
    """Question: what code has run for this action. Answer: `Running`, or `CodeRan`."""

    action: str
