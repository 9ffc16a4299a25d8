"""Everything in the exchange: how an effect changes it, what an action has read of it, and whether that still holds.

Also an action for which code must run, as it is worked out in parallel with the worker.

Others act while code runs. Their changes count only if the action relied on what they changed: a list on what it
showed, a payment on there being enough, and not on what else its giver and taker had.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from runward.config.intent import Intent
from runward.config.json_value import JsonValue
from runward.handlers.exchange.intent import ActionResult
from runward.handlers.model.asking import Asking, Given, Question, ask
from runward.handlers.model.exchange import (
    SCRIP,
    ActionRequested,
    BalanceOf,
    ExchangeEffect,
    Existing,
    ExistingInExchange,
    IntentMade,
    KeepArtifact,
    KeepPrincipal,
    Post,
    PrincipalOf,
    described,
)

MOST_COMPARED: Final = 100_000
"""Artifacts that are compared for all views of an action together. If there are more, the views count as changed."""


class View(NamedTuple):
    """A list that an action saw, for the text that it asked about.

    What it shows of one artifact or principal doesn't depend on the others.
    """

    show: Callable[[Existing, str], JsonValue]
    text: str = ""

    def of(self, existing: Existing) -> JsonValue:
        """What it shows of this."""
        return self.show(existing, self.text)


def shows_the_same(views: Collection[View], before: Existing, now: Existing) -> bool:
    """Whether all views show what they showed before. Only what differs is looked at."""
    if before == now:
        return True
    old, new = ({each.id: each for each in existing.artifacts} for existing in (before, now))
    differing = {name for name in {**old, **new} if old.get(name) != new.get(name)}
    differing |= {*before.principals} ^ {*now.principals}
    # Comparing is bounded. To call a view changed is always safe: the action is only worked out again.
    if len(differing) * len(views) > MOST_COMPARED:
        return False
    parts = [
        existing._replace(artifacts=tuple(each for each in existing.artifacts if each.id in differing))
        for existing in (before, now)
    ]
    return all(view.of(parts[0]) == view.of(parts[1]) for view in views)


def existing_with(existing: Existing, effect: ExchangeEffect) -> Existing:
    """What exists after the effect is applied."""
    match effect:
        case KeepArtifact(artifact=artifact):
            kept = described(artifact)
            others = [each for each in existing.artifacts if each.id != kept.id]
            return existing._replace(artifacts=tuple(sorted((*others, kept), key=lambda each: each.id)))
        case KeepPrincipal(principal=principal):
            return existing._replace(principals=tuple(sorted({*existing.principals, principal.id})))
        case Post(resource=resource, giver=giver, taker=taker, amount=amount) if resource == SCRIP:
            scrip = dict(existing.scrip)
            scrip[giver] = scrip.get(giver, 0) - amount
            scrip[taker] = scrip.get(taker, 0) + amount
            return existing._replace(scrip=scrip)
        case _:
            return existing


MOST_READ: Final = 600
"""How many different things a call tree may read: all of them are asked again when its action is recorded."""

T = TypeVar("T")


class ReadTooMuch(Exception):
    """The action has read as much as it may, so its code must end."""

    def __init__(self) -> None:
        super().__init__(f"the call tree read more than {MOST_READ} different things")


@dataclass(slots=True)
class Reading:
    """What was asked, with the answers: the state before the action.

    A balance, and what a principal has of the disk, count as a whole only if they are in `exact`.
    """

    is_bounded: bool = False
    """Whether it may hold only so much."""
    answers: dict[Question[Any], Any] = field(default_factory=dict)
    exact: set[Question[Any]] = field(default_factory=set)
    least: dict[BalanceOf, int] = field(default_factory=dict)
    """What these accounts needed at least."""
    views: set[View] = field(default_factory=set)

    def answer(self, question: Question[T], *, exact: bool = True) -> Asking[T]:
        """The answer to a question, which is asked once. Raises `ReadTooMuch`."""
        if question not in self.answers:
            self._check_room()
            self.answers[question] = yield from ask(question)
        # An answer that was first relied on in part may later be relied on as a whole.
        if exact:
            self.exact.add(question)
        answer: T = self.answers[question]
        return answer

    def existing(self, view: View) -> Asking[Existing]:
        """Everything; only what the view shows counts. Raises `ReadTooMuch`."""
        existing = yield from self.answer(ExistingInExchange(), exact=False)
        if view not in self.views:
            self._check_room()
            self.views.add(view)
        return existing

    def needs(self, balance: BalanceOf, amount: int) -> None:
        """Rely on a balance being at least this."""
        self.least[balance] = max(amount, self.least.get(balance, 0))

    def _check_room(self) -> None:
        if self.is_bounded and len(self.answers) + len(self.views) >= MOST_READ:
            raise ReadTooMuch

    def holds(self) -> Asking[bool]:
        """Whether nothing has changed on which the action relied."""
        # Everything that was read is asked again, from the store as it is now.
        for question, before in self.answers.items():
            now = yield from ask(question)
            if now != before and (question in self.exact or not self._holds(question, before, now)):
                return False
        return True

    def _holds(self, question: Question[Any], before: Any, now: Any) -> bool:  # noqa: ANN401 # the question has its type
        match question:
            case BalanceOf():
                return bool(now >= self.least.get(question, 0))
            case PrincipalOf() if before is not None and now is not None:
                # What it has of the disk, and its version, count only for an action that relied on them.
                same = {"disk_used": now.disk_used, "disk_quota": now.disk_quota, "version": now.version}
                return bool(before._replace(**same) == now)
            case ExistingInExchange():
                return shows_the_same(self.views, before, now)
            case _:
                return False


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
