"""A timer of a chain run rang: a step is tried again or waited too long, or the time limit of the whole run has passed."""

from typing import Final

from runward.config.step import NOT_STARTED
from runward.handlers.chains import late
from runward.handlers.chains.advancing import (
    BEGIN,
    FAILED_BY,
    TURN,
    WAITS,
    Ending,
    begin,
    command_at,
    ended,
    position_of,
)
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import WAITS_FOR_SLOT, ChainRunOf, ChainRunStanding, StepStanding
from runward.handlers.model.effects import Deciding, Effect, Explain
from runward.handlers.model.timers import TimerRang

DEADLINE: Final = "deadline"
TRY: Final = "try "
WAITED: Final = "step.timed_out.start_within"
"""The reason of a step that could not begin in time."""


def decide(event: TimerRang, given: Given) -> Deciding:
    """A timer of a chain run rang: a step is tried again or waited too long, or the time limit of the whole run has
    passed.

    Act if the timer still matters. A running step has a launcher, which enforces the deadline itself.
    """
    run = yield from ask(ChainRunOf(event.subject))
    if run is None or run.status not in ("running", "waiting_approval"):
        return ()
    if event.what == DEADLINE:
        return (yield from late.end(run, given))
    word, step, attempt = event.what.split()
    standing = run.steps.get(int(step))
    if standing is None or (standing.status, standing.attempt) != ("waiting", int(attempt)):
        return ()
    if f"{word} " in (BEGIN, TURN):
        return (yield from _waited(run, standing, f"{word} ", given))
    if late.is_late(run, given.at):
        return (yield from late.end(run, given))
    position = position_of(run, given.event_hash)
    command = yield from command_at(position, standing.step)
    if not isinstance(command, NotStarted):
        step_of = position.step(standing.step)
        return (yield from begin(position, step_of, command, standing.attempt, given.at))
    return (yield from ended(position, standing, "failed", NOT_STARTED, command.why, given.at))


def _waited(
    run: ChainRunStanding, standing: StepStanding, word: str, given: Given
) -> Asking[tuple[Effect, ...]]:
    """End a step that still waits for a slot or its run's turn. It is not tried again: it would only wait again."""
    if standing.reason != WAITS_FOR_SLOT and run.reason_code != WAITS:
        return ()
    position = position_of(run, given.event_hash)
    step = position.step(standing.step)
    if word == TURN and run.reason_code != WAITS and step.approval is not None:
        return ()  # a person was asked after the turn came, and the wait for a slot has its own timer
    why = f"step {step.id} could not begin within {step.start_within or 0.0:g} s (start_within)"
    if run.reason_code == WAITS:  # it is not the run's turn, so no other step may begin either
        position = position._replace(ending=Ending(FAILED_BY["timed_out"], why))
    followed = yield from ended(position, standing, "timed_out", WAITED, why, given.at)
    return (Explain(run.id, "decided", why), *followed)
