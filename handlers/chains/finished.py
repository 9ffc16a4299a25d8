"""A chain run is over: it is reported, a failure pauses its chain if the chain's file says so, and the next run begins."""

from typing import Final

from runward.config import own_events
from runward.config.json_value import JsonValue
from runward.handlers.invocations.completed import COMPLETED, completed
from runward.handlers.invocations.ids import of_chain_run
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    ChainFiresNow,
    ChainNamed,
    ChainRunFinished,
    ChainRunOf,
    ChainRunTurn,
    EventOccurred,
    ListenersTo,
    OpenRunsOf,
    SetChainStatus,
)
from runward.handlers.model.effects import Deciding, Effect, Effects, Emit, Explain
from runward.handlers.model.invocations import Invocation
from runward.handlers.notices.addressing import notices

FINISHED: Final = "chain.finished"
CHAIN: Final = "chain"
"""The skill of a chain run's root."""


def decide(event: ChainRunFinished, given: Given) -> Deciding:
    """A chain run is over: it is reported, a failure pauses its chain if the chain's file says so, and the next run
    begins.

    Say which run begins next: the oldest one waiting for each free turn.
    """
    effects: list[Effect] = []
    open_runs = yield from ask(OpenRunsOf(event.chain))
    taken = {run.turn for run in open_runs if not run.waits and run.id != event.run}
    for run in open_runs:
        if run.waits and run.turn not in taken and run.id != event.run:
            taken.add(run.turn)
            effects.append(Emit(ChainRunTurn(run.id, given.at, event.run)))
    if event.status in ("failed", "timed_out"):
        chain = yield from ask(ChainNamed(event.chain))
        schedules = () if isinstance(chain, str) else chain.trigger.schedules
        pauses = any(each.pause_on_failure for each in schedules)
        fires = yield from ask(ChainFiresNow(event.chain))
        if pauses and (fires is None or fires.status == "active"):
            why = f"{event.run} ended {event.status}, and its file says pause_on_failure"
            effects += [
                SetChainStatus(event.chain, given.at, "paused", why, "pause_on_failure"),
                Explain(f"chain {event.chain}", "decided", f"it is paused: {why}"),
            ]
    if (yield from ask(ListenersTo(FINISHED))):
        fields = own_events.ChainFinished(event.chain, event.run, event.status, event.reason_code)._asdict()
        told = EventOccurred(f"{event.key}/event", given.at, FINISHED, event.run, fields, by_run=event.run)
        effects.append(Emit(told))
    effects += yield from _root_completed(event, given.at)
    title = f"{event.chain} {event.status}"
    text = f"{event.reason_code}\nrunward why {event.run}"
    return (*effects, *(yield from notices(f"chain.{event.status}", event.run, title, text, given.at)))


def _root_completed(event: ChainRunFinished, at: float) -> Asking[Effects]:
    """The end of the run's root, with the last outcome of its steps."""
    if event.status == "running" or event.status == "waiting_approval":  # mypy knows this form
        return ()
    outcome: JsonValue = None
    if (yield from ask(ListenersTo(COMPLETED))):
        run = yield from ask(ChainRunOf(event.run))
        steps = {} if run is None else run.steps
        found = [steps[index].outcome for index in sorted(steps) if steps[index].outcome is not None]
        outcome = found[-1] if found else None
    root = Invocation(of_chain_run(event.run), CHAIN, event.chain, event.run)
    return (yield from completed(root, at, event.status, event.reason_code, outcome))
