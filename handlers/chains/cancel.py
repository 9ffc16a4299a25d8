"""A person wants a chain run ended: it is over at once, and its current step is ended or never begins."""

from typing import Final

from runward.handlers.chains.advancing import over
from runward.handlers.chains.slots import let_go
from runward.handlers.invocations.completed import completed
from runward.handlers.model.asking import Given, TryLater, ask
from runward.handlers.model.chains import ChainRunCancelRequested, ChainRunOf, SetStep, StepStanding
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.model.invocations import InvocationOf
from runward.handlers.model.requests import SessionCancelRequested
from runward.handlers.model.sessions import SessionOf
from runward.handlers.model.starts import WithdrawStart

WITHDRAWN = "its chain run was cancelled"

MOST_TRIES: Final = 6
"""How often a run is looked for that was only asked for when it was cancelled: half a minute. It may never be fired."""


def decide(event: ChainRunCancelRequested, given: Given) -> Deciding:
    """A person wants a chain run ended: it is over at once, and its current step is ended or never begins.

    End the run, or say why not.
    """
    run = yield from ask(ChainRunOf(event.run))
    order = f"cancelled by {event.said_by}" + (f": {event.reason}" if event.reason else "")
    if run is None and event.before_it_began and given.tries < MOST_TRIES:
        raise TryLater(f"{event.run} has not been fired yet")
    if run is None:
        return (Explain(event.run, "refused", f"not {order}: there is no such chain run"),)
    if run.status not in ("running", "waiting_approval"):
        return (Explain(event.run, "refused", f"not {order}: it is already {run.status}"),)
    effects: list[Effect] = [Explain(run.id, "decided", order)]
    for step in run.steps.values():
        if step.status in ("waiting", "waiting_approval"):
            effects.append(
                SetStep(
                    *(run.id, step.step, given.at, "cancelled", "run.cancelled.user", "it had not begun"),
                    attempt=step.attempt,
                )
            )
        if step.status == "running" and step.session_key is not None:
            session = yield from ask(SessionOf(step.session_key))
            if session is None:
                effects += _withdraw(run.id, step, step.session_key, given.at)
                invocation = yield from ask(InvocationOf(step.session_key))
                if invocation is not None:
                    effects += yield from completed(invocation, given.at, "cancelled", "run.cancelled.user")
            if session is None or session.status == "running":
                # Even if it is not a session yet: the job that opens it may be in progress, and then comes before this.
                attempt = 1 if session is None else session.attempt
                effects.append(Emit(_order(event, f"{event.key}/step", step.session_key, attempt, given.at)))
    freed = sum(isinstance(each, WithdrawStart) for each in effects)
    last = max(run.steps, default=0)
    code = "chain.cancelled.superseded" if event.superseded else "chain.cancelled.user"
    ended = over(run.id, run.chain, given.at, "cancelled", code, order, last)
    return (*effects, *ended, *(yield from let_go(run.id, freed or None, given.at, given.event_hash[:16])))


def _withdraw(run: str, step: StepStanding, session: str, at: float) -> list[Effect]:
    return [
        WithdrawStart(session, at, WITHDRAWN),
        SetStep(
            run,
            step.step,
            at,
            "cancelled",
            "run.cancelled.user",
            "it had not begun",
            True,
            session,
            step.attempt,
        ),
    ]


def _order(
    event: ChainRunCancelRequested, key: str, session: str, attempt: int, at: float
) -> SessionCancelRequested:
    return SessionCancelRequested(key, at, session, attempt, event.reason, event.said_by)
