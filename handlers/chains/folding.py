"""How a chain run stands once an effect that is decided is applied: what the next job of its lane sees."""

from typing import assert_never

from runward.handlers.chains.effects import OpenChainRun, SetChainRun, SetStep
from runward.handlers.chains.facts import ChainRunStanding, StepStanding


def folded(
    run: ChainRunStanding | None, effect: OpenChainRun | SetStep | SetChainRun
) -> ChainRunStanding | None:
    """The run after the effect; None where there is none and the effect opens none."""
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
            )
            return run._replace(steps={**run.steps, effect.step: standing})
        case SetChainRun():
            return run._replace(
                status=effect.status, reason_code=effect.reason_code, reason_summary=effect.reason_summary
            )
    assert_never(effect)
