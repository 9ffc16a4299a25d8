"""The time for a whole chain run has passed: a waiting step ends, and only the steps of `on_failure` follow."""

from runward.handlers.chains.advancing import ASKED, LATE, STARTED, WAITS, onward, position_of
from runward.handlers.model.asking import Asking, Given
from runward.handlers.model.chains import ChainRunStanding, SetStep
from runward.handlers.model.effects import Effect, Explain


def is_late(run: ChainRunStanding, at: float) -> bool:
    """Whether its time has passed, and it has not begun to end."""
    is_on_its_way = run.reason_code in (STARTED, WAITS, ASKED)
    return is_on_its_way and run.deadline is not None and at >= run.deadline


def end(run: ChainRunStanding, given: Given, freed: int | None = None) -> Asking[tuple[Effect, ...]]:
    """End the step that waits. A running step has a launcher, which enforces the deadline itself."""
    waits = [each for each in run.steps.values() if each.status in ("waiting", "waiting_approval")]
    position = position_of(run, given.event_hash)
    if not waits or position.ending is not None:
        return ()
    effects: list[Effect] = [Explain(run.id, "decided", LATE.summary)]
    for each in waits:
        code = "run.timed_out.deadline"
        effects.append(
            SetStep(run.id, each.step, given.at, "timed_out", code, LATE.summary, True, None, each.attempt)
        )
        over = each._replace(status="timed_out", reason=code)
        position = position._replace(steps={**position.steps, each.step: over})
    followed = yield from onward(position._replace(ending=LATE, freed=freed), given.at)
    return (*effects, *followed)
