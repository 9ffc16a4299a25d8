"""Whether a session's contract is the one that its launcher recorded."""

from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.facts import Launch, Session


def is_as_launched(session: Session, launch: Launch) -> bool:
    """Whether the session is held to what its launcher recorded; the legs of a flow may have come behind it."""
    if session.contract_json == launch.contract_json:
        return True
    if not session.folded or session.contract_json is None:
        return False
    own = stored_contract(launch.contract_json).expected if launch.contract_json is not None else ()
    return stored_contract(session.contract_json).expected[: len(own)] == own
