"""A timer of a chain run rang: a step is tried again, or the time for the whole run is over."""

from typing import Final

from runward.config.step import NOT_STARTED
from runward.handlers.asking import Asking, Given, ask
from runward.handlers.chains.advancing import LATE, begin, command_at, onward, position_of, without
from runward.handlers.chains.effects import SetStep
from runward.handlers.chains.facts import ChainRunOf, ChainRunStanding
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.effects import Deciding, Effect, Explain
from runward.handlers.timers.events import TimerRang

DEADLINE: Final = "deadline"
TRY: Final = "try "


def decide(event: TimerRang, given: Given) -> Deciding:
    """Go on where the timer still matters. A step that runs has a launcher, which keeps the deadline itself."""
    run = yield from ask(ChainRunOf(event.subject))
    if run is None or run.status not in ("running", "waiting_approval"):
        return ()
    if event.what == DEADLINE:
        return (yield from _end(run, given))
    step, attempt = (int(word) for word in event.what.removeprefix(TRY).split())
    standing = run.steps.get(step)
    if standing is None or (standing.status, standing.attempt) != ("waiting", attempt):
        return ()
    position = position_of(run, given.event_hash)
    command = yield from command_at(position, step)
    if not isinstance(command, NotStarted):
        return begin(position, position.step(step), command, attempt, given.at)
    failed = SetStep(run.id, step, given.at, "failed", NOT_STARTED, command.why, True, None, attempt)
    over = {**run.steps, step: standing._replace(status="failed", reason=NOT_STARTED)}
    followed = yield from onward(position._replace(steps=over), given.at)
    return (failed, *followed)


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
