"""Chains that are drawn at random, and what their conditions and values mean, said in plain Python."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from runward.config.chain import Chain, read_chain
from runward.config.json_value import JsonValue
from runward.config.step import Callables

NOT_STARTED: Final = "run.failed.not_started"
ASKED: Final = "asked"
FINISHED: Final = "chain.finished"


@dataclass(frozen=True)
class Seen:
    """How an earlier step stands, to the expressions of a later one."""

    id: str
    status: str = "pending"
    outcome: JsonValue = None


Meaning: TypeAlias = Callable[[Mapping[str, JsonValue], Sequence[Seen]], "bool | None"]
"""What an expression comes to, given the trigger and the steps before; None where it is undefined."""


def _go(outcome: JsonValue) -> bool | None:
    found = outcome.get("go") if isinstance(outcome, dict) else None
    return None if found is None else bool(found)


def _last_go(seen: Sequence[Seen]) -> bool | None:
    outcomes = [each.outcome for each in seen if each.outcome is not None]
    return _go(outcomes[-1]) if outcomes else None


def _of(seen: Sequence[Seen], step: str) -> Seen:
    return next(each for each in seen if each.id == step)


@dataclass(frozen=True)
class Written:
    """An expression as it is written, and what it means."""

    text: str
    means: Meaning


YES: Final = Written("{{ trigger.yes }}", lambda trigger, seen: bool(trigger["yes"]))
ABSENT: Final = Written("{{ trigger.absent }}", lambda trigger, seen: None)
GO: Final = Written("{{ outcome.go }}", lambda trigger, seen: _last_go(seen))
NUMBER: Final = Written("{{ trigger.n }}", lambda trigger, seen: True)


def completed(step: str) -> Written:
    text = f"{{{{ steps.{step}.status == 'completed' }}}}"
    return Written(text, lambda trigger, seen: _of(seen, step).status == "completed")


def went(step: str) -> Written:
    text = f"{{{{ steps.{step}.outcome.go }}}}"
    return Written(text, lambda trigger, seen: _go(_of(seen, step).outcome))


@dataclass(frozen=True)
class DrawnStep:
    """A step, with all that the model has to know of it."""

    index: int
    id: str
    condition: Written | None
    value: Written
    may_fail: bool = False
    attempts: int = 1
    backoff: float = 1.0
    on: tuple[str, ...] | None = None
    needs_approval: bool = False
    expires: float | None = None
    approves_late: bool = False
    not_by_launcher: bool = False
    start_within: float | None = None
    timeout: float | None = None
    stale_after: float | None = None

    def pause(self, tries: int, reason: str) -> float | None:
        """The seconds before the next try; None where there is none."""
        if tries >= self.attempts:
            return None
        default = reason != NOT_STARTED and (
            reason.startswith("run.failed.") or reason == "run.timed_out.deadline"
        )
        wanted = default if self.on is None else any(fnmatchcase(reason, each) for each in self.on)
        return float(self.backoff * 2 ** (tries - 1)) if wanted else None

    @property
    def document(self) -> dict[str, JsonValue]:
        said: dict[str, JsonValue] = {"id": self.id, "skill": "work", "with": {"n": self.value.text}}
        if self.condition is not None:
            said["condition"] = self.condition.text
        if self.may_fail:
            said["continue_on_failure"] = True
        if self.attempts > 1:
            retry: dict[str, JsonValue] = {"attempts": self.attempts, "backoff": f"{self.backoff:g}s"}
            said["retry"] = retry if self.on is None else {**retry, "on": list(self.on)}
        if self.needs_approval:
            rule: dict[str, JsonValue] = {"not_by_launcher": self.not_by_launcher}
            if self.expires is not None:
                rule |= {
                    "expires": f"{self.expires:g}s",
                    "on_timeout": "approve" if self.approves_late else "deny",
                }
            said |= {"requires_approval": True, "approval": rule}
        if self.start_within is not None:
            said["start_within"] = f"{self.start_within:g}s"
        if self.timeout is not None:
            said["timeout"] = f"{self.timeout:g}s"
        if self.stale_after is not None:
            said["stale_after"] = f"{self.stale_after:g}s"
        return said


@dataclass(frozen=True)
class DrawnChain:
    """A chain, with all that the model has to know of it."""

    name: str
    event: str
    steps: tuple[DrawnStep, ...]
    on_failure: tuple[DrawnStep, ...] = ()
    timeout: float | None = None
    key: Written | None = None
    cancels: bool = False
    read: Chain = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        document: dict[str, JsonValue] = {
            "name": self.name,
            "trigger": {"event": self.event},
            "steps": [each.document for each in self.steps],
        }
        if self.on_failure:
            document["on_failure"] = [each.document for each in self.on_failure]
        if self.timeout is not None:
            document["timeout"] = f"{self.timeout:g}s"
        if self.key is not None:
            document["concurrency"] = {
                "key": self.key.text,
                "policy": "cancel" if self.cancels else "queue",
            }
        parsed = read_chain(json.dumps(document), "drawn.yaml", Callables(("work",)))
        assert parsed.value is not None, parsed.problems
        object.__setattr__(self, "read", parsed.value)

    def step(self, index: int) -> DrawnStep:
        return (*self.steps, *self.on_failure)[index]

    def is_main(self, index: int) -> bool:
        return index < len(self.steps)


def drawn_chain(dice: random.Random, name: str, event: str = ASKED) -> DrawnChain:
    """A chain of one to four steps."""
    ids: list[str] = []
    steps = tuple(_step(dice, ids, may_ask=True) for _ in range(dice.choice((1, 2, 2, 3, 4))))
    after = tuple(_step(dice, ids, may_ask=False) for _ in range(dice.choice((0, 0, 1, 2))))
    key = dice.choice((None, None, NUMBER, NUMBER, ABSENT)) if dice.random() < 0.8 else None
    timeout = dice.choice((None, None, 30.0, 90.0))
    return DrawnChain(name, event, steps, after, timeout, key, dice.random() < 0.3)


def echo(dice: random.Random) -> DrawnChain:
    """A chain that every end of a chain run fires, its own as well."""
    return DrawnChain("echo", FINISHED, (DrawnStep(0, "s0", None, Written("1", lambda *unused: True)),))


def _step(dice: random.Random, ids: list[str], may_ask: bool) -> DrawnStep:
    earlier = tuple(ids)
    index = len(ids)
    ids.append(f"s{index}")
    conditions: list[Written | None] = [None, None, None, YES, GO, ABSENT if dice.random() < 0.3 else YES]
    values = [NUMBER] * 8 + [ABSENT]
    if earlier:
        conditions += [completed(dice.choice(earlier)), went(dice.choice(earlier))]
        values.append(went(dice.choice(earlier)))
    tries = dice.choice((1, 1, 2, 3))
    return DrawnStep(
        index,
        ids[-1],
        dice.choice(conditions),
        dice.choice(values),
        may_fail=dice.random() < 0.25,
        attempts=tries,
        backoff=dice.choice((1.0, 5.0, 20.0)),
        on=dice.choice((None, None, ("run.*",), ("run.failed.*", "run.aborted.*"))),
        needs_approval=may_ask and dice.random() < 0.3,
        expires=dice.choice((None, 10.0, 40.0)),
        approves_late=dice.random() < 0.3,
        not_by_launcher=dice.random() < 0.3,
        start_within=dice.choice((None, None, 5.0, 30.0)),
        timeout=dice.choice((None, 8.0, 60.0)),
        stale_after=dice.choice((None, None, 5.0)),
    )
