"""A timer of a chain run rang: a step is tried again, it waited too long, or the time for the whole run is over."""

from typing import Final

from runward.config.step import NOT_STARTED
from runward.handlers.asking import Asking, Given, ask
from runward.handlers.chains.advancing import (
    BEGIN,
    FAILED_BY,
    LATE,
    WAITS,
    Ending,
    begin,
    command_at,
    ended,
    onward,
    position_of,
    without,
)
from runward.handlers.chains.effects import SetStep
from runward.handlers.chains.facts import WAITS_FOR_SLOT, ChainRunOf, ChainRunStanding, StepStanding
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.effects import Deciding, Effect, Explain
from runward.handlers.timers.events import TimerRang

DEADLINE: Final = "deadline"
TRY: Final = "try "
WAITED: Final = "step.timed_out.start_within"
"""The reason of a step that could not begin in time."""


def decide(event: TimerRang, given: Given) -> Deciding:
    """Go on where the timer still matters. A step that runs has a launcher, which keeps the deadline itself."""
    run = yield from ask(ChainRunOf(event.subject))
    if run is None or run.status not in ("running", "waiting_approval"):
        return ()
    if event.what == DEADLINE:
        return (yield from _end(run, given))
    word, step, attempt = event.what.split()
    standing = run.steps.get(int(step))
    if standing is None or (standing.status, standing.attempt) != ("waiting", int(attempt)):
        return ()
    if f"{word} " == BEGIN:
        return (yield from _waited(run, standing, given))
    position = position_of(run, given.event_hash)
    command = yield from command_at(position, standing.step)
    if not isinstance(command, NotStarted):
        step_of = position.step(standing.step)
        return (yield from begin(position, step_of, command, standing.attempt, given.at))
    return (yield from ended(position, standing, "failed", NOT_STARTED, command.why, given.at))


def _waited(run: ChainRunStanding, standing: StepStanding, given: Given) -> Asking[tuple[Effect, ...]]:
    """End a step that still waits for a slot or its run's turn. It is not tried again: it would only wait anew."""
    if standing.reason != WAITS_FOR_SLOT and run.reason_code != WAITS:
        return ()
    position = position_of(run, given.event_hash)
    step = position.step(standing.step)
    why = f"step {step.id} could not begin within {step.start_within or 0.0:g} s (start_within)"
    if run.reason_code == WAITS:  # it is not the run's turn, so no other step may begin either
        position = position._replace(ending=Ending(FAILED_BY["timed_out"], why))
    followed = yield from ended(position, standing, "timed_out", WAITED, why, given.at)
    return (Explain(run.id, "decided", why), *followed)


def _end(run: ChainRunStanding, given: Given) -> Asking[tuple[Effect, ...]]:
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
        position = without(position, each.step)
        over = each._replace(status="timed_out", reason=code)
        position = position._replace(steps={**position.steps, each.step: over})
    followed = yield from onward(position._replace(ending=LATE), given.at)
    return (*effects, *followed)
