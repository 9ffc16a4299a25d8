"""An event occurred: each chain that listens to it and whose filter it passes is fired."""

from runward.config.event_filter import why_not
from runward.handlers.asking import Given, ask
from runward.handlers.chains.events import ChainFired, EventOccurred
from runward.handlers.chains.facts import ListenersTo
from runward.handlers.effects import Deciding, Effect, Emit, Explain


def decide(event: EventOccurred, given: Given) -> Deciding:
    """Fire what listens; a chain whose filter the event does not pass is kept as a refusal with its reason."""
    chains = yield from ask(ListenersTo(event.name))
    effects: list[Effect] = []
    for chain in chains:
        reason = why_not(chain.trigger.filter, event.fields)
        subject = f"chain {chain.name}"
        if reason is not None:
            effects.append(Explain(subject, "refused", f"{event.name} does not fire it: {reason}"))
            continue
        assert chain.document is not None
        fired = ChainFired(
            chain.name,
            event.at,
            event.key,
            event.name,
            event.id,
            event.fields,
            chain.document.root,
            event.said_by,
            event.by_run,
        )
        effects += [Emit(fired), Explain(subject, "decided", f"{event.name} fires it")]
    return tuple(effects)
