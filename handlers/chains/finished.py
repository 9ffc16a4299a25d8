"""A chain run is over: others are told, its chain is paused if it failed and its file says so, and the next one begins."""

from runward.config.json_value import JsonValue
from runward.handlers.asking import Given, ask
from runward.handlers.chains.effects import SetChainStatus
from runward.handlers.chains.events import ChainRunFinished, ChainRunTurn, EventOccurred
from runward.handlers.chains.facts import ChainFiresNow, ChainNamed, ListenersTo, OpenRunsOf
from runward.handlers.effects import Deciding, Effect, Emit, Explain
from runward.handlers.notices.addressing import notices

FINISHED = "chain.finished"


def decide(event: ChainRunFinished, given: Given) -> Deciding:
    """Say who begins next: the oldest of each turn that nobody has."""
    effects: list[Effect] = []
    open_runs = yield from ask(OpenRunsOf(event.chain))
    taken = {run.turn for run in open_runs if not run.waits and run.id != event.run}
    for run in open_runs:
        if run.waits and run.turn not in taken and run.id != event.run:
            taken.add(run.turn)
            effects.append(Emit(ChainRunTurn(run.id, given.at, event.run)))
    if event.status in ("failed", "timed_out"):
        chain = yield from ask(ChainNamed(event.chain))
        schedule = None if isinstance(chain, str) else chain.trigger.schedule
        fires = yield from ask(ChainFiresNow(event.chain))
        if schedule is not None and schedule.pause_on_failure and (fires is None or fires.status == "active"):
            why = f"{event.run} ended {event.status}, and its file says pause_on_failure"
            effects += [
                SetChainStatus(event.chain, given.at, "paused", why, "pause_on_failure"),
                Explain(f"chain {event.chain}", "decided", f"it is paused: {why}"),
            ]
    if (yield from ask(ListenersTo(FINISHED))):
        fields: dict[str, JsonValue] = {
            "chain": event.chain,
            "chain_run_id": event.run,
            "status": event.status,
            "reason_code": event.reason_code,
        }
        told = EventOccurred(f"{event.key}/event", given.at, FINISHED, event.run, fields, by_run=event.run)
        effects.append(Emit(told))
    title = f"{event.chain} {event.status}"
    text = f"{event.reason_code}\nrunward why {event.run}"
    return (*effects, *(yield from notices(f"chain.{event.status}", event.run, title, text, given.at)))
