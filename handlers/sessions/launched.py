"""Whether a session's contract is the one that its launcher recorded, and holding the session to that contract."""

from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.journal import lines
from runward.handlers.model.effects import Effects
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.sessions import AttemptEnded, AttemptStarted, HoldToLaunch, Launch, Session


def is_as_launched(session: Session, launch: Launch) -> bool:
    """Whether the session is held to what its launcher recorded. The legs of a flow may have been added to it."""
    if session.contract_json == launch.contract_json:
        return True
    if not session.folded or session.contract_json is None:
        return False
    own = stored_contract(launch.contract_json).expected if launch.contract_json is not None else ()
    return stored_contract(session.contract_json).expected[: len(own)] == own


def held_to_launch(
    event: AttemptStarted | AttemptEnded, event_hash: str, session: Session, launch: Launch, problem: str
) -> Effects:
    """Replace the session's contract by what the launcher recorded, and note that in the journal."""
    contract = None if launch.contract_json is None else stored_contract(launch.contract_json)
    line = lines.contract_held(event, event_hash, contract, problem)
    return (
        HoldToLaunch(session.key, launch.contract_json, problem),
        AppendLines(session.key, session.path, lines.EVENTS, line, live=session.status == "running"),
    )
