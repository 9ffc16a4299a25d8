"""A person wants a receipt signed: from then on the signature is pending, and its result is stored."""

from runward.handlers.model.asking import Given
from runward.handlers.model.bundle import ReceiptSignRequested, SignReceipt
from runward.handlers.model.effects import Effects, Explain


def decide(event: ReceiptSignRequested, given: Given) -> Effects:
    """A person wants a receipt signed: from then on the signature is pending, and its result is stored.

    Order the signature. Whether there is such a receipt is checked when it is signed.
    """
    return (
        SignReceipt(event.session_key, event.attempt, event.scheme, event.said_by),
        Explain(
            event.session_key,
            "decided",
            f"the receipt of attempt {event.attempt} is to be signed with {event.scheme}",
        ),
    )
