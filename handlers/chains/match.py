"""An event occurred: each chain that listens to it and whose filter it passes is fired, or waits for the rest."""

from runward.config.chain import Chain
from runward.config.event_filter import why_not
from runward.config.glob_rule import path_matches
from runward.config.problem import quoted
from runward.config.trigger import Trigger
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import ChainFired, EventOccurred, ListenersTo, TriggerMatched
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain


def decide(event: EventOccurred, given: Given) -> Deciding:
    """An event occurred: each chain that listens to it and whose filter it passes is fired, or waits for the rest.

    Fire what listens. If an event does not pass a chain's filter, that is kept as a refusal with its reason.
    """
    chains = yield from ask(ListenersTo(event.name))
    effects: list[Effect] = []
    for chain in chains:
        items, reason = _meant(chain, event)
        subject = f"chain {chain.name}"
        if not items:
            effects.append(Explain(subject, "refused", f"{event.name} does not fire it: {reason}"))
            continue
        assert chain.document is not None
        said = (chain.name, event.at, event.key, event.name, event.id, event.fields, chain.document.root)
        if chain.trigger.composite is not None:
            effects.append(Emit(TriggerMatched(*said, items, event.said_by, event.by_run)))
            continue
        fired = ChainFired(*said, event.said_by, event.by_run)
        effects += [Emit(fired), Explain(subject, "decided", f"{event.name} fires it")]
    return tuple(effects)


def _meant(chain: Chain, event: EventOccurred) -> tuple[tuple[int, ...], str | None]:
    """The numbers of the events in the trigger that this one matches, or why it matches none."""
    found: list[int] = []
    reason: str | None = None
    for number, leaf in enumerate(chain.trigger.leaves):
        if leaf.event == event.name:
            refused = _elsewhere(leaf, event) or why_not(leaf.filter, event.fields)
            if refused is None:
                found.append(number)
            reason = reason or refused
    return tuple(found), reason


def _elsewhere(leaf: Trigger, event: EventOccurred) -> str | None:
    """Why a changed file is not one that this trigger is about."""
    path = event.fields.get("path")
    if leaf.path is None or (isinstance(path, str) and path_matches(path, leaf.path)):
        return None
    return f"path is {quoted(path)}, and the trigger wants {leaf.path}"
