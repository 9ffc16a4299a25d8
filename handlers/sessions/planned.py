"""A flow was planned: what its legs must leave behind is folded into the session's contract, once, before a leg works.

ADR-0029 (DAG-flow extension) allows this one further write of a contract. A plan that is too late, comes again or
can't be folded is refused: the contract stays as it is, and the session keeps the reason.
"""

from runward.config.counting import counted
from runward.handlers.contracts.fold import Folded, Unfoldable, fold_legs, why_too_late
from runward.handlers.contracts.snapshots import snapshot_of, stored_contract
from runward.handlers.contracts.verify import boundary
from runward.handlers.journal import lines
from runward.handlers.model.asking import Given, TryLater, ask
from runward.handlers.model.contracts import Declarations, DeclaredContract, FlowPlanned, LegsBefore
from runward.handlers.model.effects import Deciding, Effects, Explain
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.sessions import ContractBasis, FoldContract, RefuseFold, Session, SessionOf
from runward.handlers.model.unreadable import Unreadable


def decide(event: FlowPlanned, given: Given) -> Deciding:
    """A flow was planned: what its legs must leave behind is folded into the session's contract, once, before a leg
    works.

    Fold the legs of the plan into the contract, or say why not.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None:
        return (Explain(event.session_key, "refused", "a flow was planned for a session that never started"),)
    why = _why_never(event, session)
    if why is not None:
        return _refused(event, given.event_hash, session, why)
    early = yield from ask(
        LegsBefore(
            session.artifacts_path,
            boundary(session.artifacts_path, session.path),
            tuple(leg.path for leg in event.legs),
            event.modified_ns,
            event.changed_ns,
        )
    )
    if isinstance(early, Unreadable):
        raise TryLater(f"the legs of {event.session_key} can't be looked at: {early.why}")
    why = why_too_late(event.legs, early, event.filled)
    if why is not None:
        return _refused(event, given.event_hash, session, why)
    contract = stored_contract(session.contract_json) if session.contract_json is not None else None
    declared: dict[str, Declarations] = {}
    for agent in dict.fromkeys(leg.agent for leg in event.legs):
        declared[agent] = yield from ask(DeclaredContract(None, agent))
    folded = fold_legs(contract, event.legs, declared)
    if isinstance(folded, Unfoldable):
        return _refused(event, given.event_hash, session, folded.why)
    return _folded(event, given.event_hash, session, folded)


def _why_never(event: FlowPlanned, session: Session) -> str | None:
    """Why a session accepts no plan, whatever is in it."""
    if session.origin == "history":
        return "what ended before its root was first seen has no contract"
    if session.folded:
        return "it is not the plan whose legs are in the contract, and only one plan counts"
    if event.attempt > 1 or session.attempt > 1:
        return "an earlier attempt was held to the contract already"
    if session.status != "running":
        return f"it came after the session was over ({session.status})"
    if session.contract_problem is not None and session.contract_json is None:
        return f"there is no contract that it could be folded into: {session.contract_problem}"
    return None


def _refused(event: FlowPlanned, event_hash: str, session: Session, why: str) -> Effects:
    problem = f"flow.json: {why}"
    refused: Effects = (
        RefuseFold(event.session_key, problem),
        Explain(
            event.session_key,
            "refused",
            f"the plan's legs are not folded into the contract: {why}",
            {"legs": [leg.id for leg in event.legs]},
        ),
    )
    if session.origin == "history" or session.contract_problem is not None:
        return refused  # only the first problem is kept
    content = lines.contract_not_folded(event, event_hash, problem)
    live = session.status == "running"
    return (*refused, AppendLines(event.session_key, session.path, lines.EVENTS, content, live))


def _folded(event: FlowPlanned, event_hash: str, session: Session, folded: Folded) -> Effects:
    basis: ContractBasis = "late" if event.seen_over else "first_look"
    content = lines.contract_folded(event, event_hash, folded.added, basis, folded.contract)
    return (
        FoldContract(
            event.session_key,
            snapshot_of(folded.contract).text,
            basis if folded.contract is not None else None,
        ),
        Explain(
            event.session_key,
            "decided",
            f"{counted(len(folded.added), 'artifact', 'artifacts')} of {counted(len(event.legs), 'leg', 'legs')} folded into the contract ({basis})",
            {"legs": [leg.id for leg in event.legs], "folded": [entry.id for entry in folded.added]},
        ),
        AppendLines(event.session_key, session.path, lines.EVENTS, content, live=True),
    )
