"""A running session wrote outcomes: they are stored at once, until its verdict reads them again."""

from msgspec.structs import replace

from runward.handlers.contracts.needed_facts import outcome_kinds
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.model.asking import Given, NotYet, TryLater, ask
from runward.handlers.model.effects import Deciding
from runward.handlers.model.outcomes import OutcomesChanged
from runward.handlers.model.sessions import SessionOf
from runward.handlers.outcomes.added_event import told
from runward.handlers.outcomes.recording import recorded


def decide(event: OutcomesChanged, given: Given) -> Deciding:
    """A running session wrote outcomes: they are stored at once, until its verdict reads them again.

    Store what the files say now. What is invalid is explained with the verdict.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None or session.status != "running" or session.attempt != event.attempt:
        return ()
    try:
        contract = None if session.contract_json is None else stored_contract(session.contract_json)
        _, kept, _ = yield from recorded(session, given.at, wanted=outcome_kinds(contract))
    except NotYet:
        raise  # the verdict needs the same reports, and finds them read
    except TryLater:
        return ()  # the verdict reads them again, and must not wait behind this
    provisional = tuple(replace(each, is_provisional=True) for each in kept)
    return (*provisional, *(yield from told(session, kept, given.at)))
