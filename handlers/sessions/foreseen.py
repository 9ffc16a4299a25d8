"""What a verdict will ask of the disk and the settings: asked before the turn, so that it is decided in its first transaction.

A handler may open no file inside a transaction. Each answer that is given here is kept for it. Nothing follows from these
answers by themselves: what the handler asks beyond them, or otherwise, is asked after the transaction.
"""

from runward.config.contract import Contract
from runward.handlers.contracts.files import artifacts_asked, outcome_paths
from runward.handlers.contracts.snapshots import declared_now, snapshot_from_run, stored_contract
from runward.handlers.invocations import COMPLETED
from runward.handlers.layouts import native
from runward.handlers.model.asking import Asking, ask
from runward.handlers.model.bundle import BundleRulesOf
from runward.handlers.model.chains import IsHeard
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.sessions import AttemptEnded, AttemptStarted, SessionOf
from runward.handlers.outcomes.recording import ADDED, outcomes_asked
from runward.handlers.sessions.ended import FINISHED


def of_start(event: AttemptStarted) -> Asking[tuple[()]]:
    """What the opening of a session will ask and, if its end was seen with it, the verdict on that."""
    said = event.declaration
    if said is None:
        return (yield from _of_known(event.session_key)) if event.seen_over else ()
    # A contract comes to an agent inside a launched run, or of the past, from nowhere.
    if said.layout != native.LAYOUT or said.launcher is not None or event.origin == "history":
        return ()
    # A launched run's contract is the launcher's record. What its files say is the same, or the verdict asks otherwise.
    declared = (
        snapshot_from_run(said.contract) if said.has_snapshot else (yield from declared_now(said)).snapshot
    )
    if event.seen_over:
        is_ordered = said.invocation_id is not None
        yield from _of_verdict(said.path, said.artifacts_path, declared.contract, event.at, is_ordered)
    return ()


def of_end(event: AttemptEnded) -> Asking[tuple[()]]:
    """What the verdict on an end will ask."""
    return () if event.origin == "history" else (yield from _of_known(event.session_key))


def _of_known(session_key: str) -> Asking[tuple[()]]:
    session = yield from ask(SessionOf(session_key))
    if session is None or session.layout != native.LAYOUT:
        return ()
    contract = None if session.contract_json is None else stored_contract(session.contract_json)
    is_ordered = session.invocation_id is not None
    yield from _of_verdict(session.path, session.artifacts_path, contract, session.started_at, is_ordered)
    return ()


def _of_verdict(
    path: str, artifacts_path: str, contract: Contract | None, started_at: float, is_ordered: bool
) -> Asking[None]:
    named = () if contract is None else outcome_paths(contract)
    outcomes = yield from ask(outcomes_asked(native.LAYOUT, path, artifacts_path, named))
    if contract is not None:
        yield from ask(artifacts_asked(contract, artifacts_path, path, started_at))
    yield from ask(BundleRulesOf(native.LAYOUT, path))
    yield from ask(IsHeard(FINISHED))
    if outcomes:
        yield from ask(IsHeard(ADDED))
    if is_ordered:
        yield from ask(IsHeard(COMPLETED))
    for status in ("completed", "failed"):
        yield from ask(RecipientsOf(f"session.{status}"))
