"""A person asks for a chain to be fired."""

from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import ChainFired, ChainFireRequested, ChainNamed
from runward.handlers.model.effects import Deciding, Emit, Explain


def decide(event: ChainFireRequested, given: Given) -> Deciding:
    """A person asks for a chain to be fired.

    Fire it, or say why not.
    """
    chain = yield from ask(ChainNamed(event.chain))
    subject = f"chain {event.chain}"
    if isinstance(chain, str):
        return (Explain(subject, "refused", f"it is not fired, as {event.said_by} asked: {chain}"),)
    assert chain.document is not None
    fired = ChainFired(
        event.chain,
        event.at,
        event.key,
        "manual.fired",
        event.key,
        event.fields,
        chain.document.root,
        event.said_by,
        event.by_run,
        "firing.fired.by_hand",
    )
    return Emit(fired), Explain(subject, "decided", f"it is fired, as {event.said_by} asked")
