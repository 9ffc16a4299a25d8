"""The state of a chain run after a decided effect, and which statuses of a run and of a step may follow each other."""

from collections.abc import Mapping
from typing import Final, TypeVar, assert_never

from runward.handlers.model.chains import (
    WAITS_FOR_SLOT,
    ChainRunStanding,
    ChainRunStatus,
    OpenChainRun,
    SetChainRun,
    SetStep,
    SlotsStanding,
    StepStanding,
    StepStatus,
    Waiter,
)

_ENDS: Final = ("failed", "timed_out", "aborted", "cancelled")

RUN: Final[Mapping[ChainRunStatus, tuple[ChainRunStatus, ...]]] = {
    "running": ("running", "waiting_approval", "completed", *_ENDS),
    "waiting_approval": ("waiting_approval", "running", "completed", *_ENDS),
}
"""The status of a chain run, with those that may follow it. Nothing follows a status that is not here."""

STEP: Final[Mapping[StepStatus, tuple[StepStatus, ...]]] = {
    "waiting": ("waiting", "waiting_approval", "skipped", "running", *_ENDS),
    "waiting_approval": ("waiting_approval", "waiting", "skipped", "running", *_ENDS),
    "running": ("running", "completed", *_ENDS),
}
"""The status of a try of a step, with those that may follow it. A further try begins with its own row."""

Status = TypeVar("Status", bound=str)


def before(table: Mapping[Status, tuple[Status, ...]], status: Status) -> tuple[Status, ...]:
    """The statuses that this one may follow."""
    return tuple(each for each, following in table.items() if status in following)


def folded(
    run: ChainRunStanding | None, effect: OpenChainRun | SetStep | SetChainRun
) -> ChainRunStanding | None:
    """The run after the effect. None if there is none and the effect opens none."""
    if isinstance(effect, OpenChainRun):
        trigger = effect.trigger if isinstance(effect.trigger, dict) else {}
        return ChainRunStanding(
            effect.id,
            effect.chain,
            "running",
            effect.definition,
            trigger,
            effect.fired_by,
            "chain.running.started",
            "it was fired",
            effect.deadline,
            {},
            effect.said_by,
            effect.depth,
            effect.turn,
            effect.at,
            effect.cause,
        )
    if run is None:
        return None
    match effect:
        case SetStep():
            standing = StepStanding(
                effect.step,
                effect.status,
                effect.reason_code,
                effect.session_key,
                effect.attempt,
                effect.outcome,
                effect.result,
            )
            return run._replace(steps={**run.steps, effect.step: standing})
        case SetChainRun():
            return run._replace(
                status=effect.status, reason_code=effect.reason_code, reason_summary=effect.reason_summary
            )
    assert_never(effect)


def slots_after(slots: SlotsStanding, effect: SetStep) -> SlotsStanding:
    """Who has a slot and who waits for one after the effect."""
    place = (effect.run, effect.step)
    running, waiters = slots.running - {place}, slots.waiters
    waiters = tuple(each for each in waiters if (each.run, each.step) != place)
    if effect.status == "running":
        running |= {place}
    elif effect.status == "waiting" and effect.reason_code == WAITS_FOR_SLOT:
        waiter = Waiter(effect.fired_at, effect.run, effect.step, effect.attempt)
        waiters = tuple(sorted((*waiters, waiter)))
    return SlotsStanding(running, waiters)
