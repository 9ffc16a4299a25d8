"""Folding effects into a session, so that the next job in its lane sees the results of this one."""

from runward.handlers.model.effects import Effects
from runward.handlers.model.invocations import LinkSession
from runward.handlers.model.sessions import (
    EndAttempt,
    FoldContract,
    HoldToLaunch,
    OpenAttempt,
    OpenSession,
    RefuseFold,
    Session,
)


def fold(session: Session | None, effects: Effects) -> Session | None:
    """The session after `effects`, which are its own."""
    # Jobs of one lane run in order within a batch. The next one asks for the session before anything of this one is
    # stored.
    for effect in effects:
        match effect:
            case EndAttempt():
                assert session is not None
                session = session._replace(status=effect.status, reason_code=effect.reason.code)
            case OpenSession():
                declaration = effect.declaration
                session = Session(
                    key=effect.key,
                    session_id=declaration.session_id,
                    layout=declaration.layout,
                    path=declaration.path,
                    status="running",
                    attempt=1,
                    artifacts_path=declaration.artifacts_path,
                    contract_json=effect.contract_json,
                    playbook=declaration.playbook,
                    agent=declaration.agent,
                    started_at=effect.at,
                    origin=effect.origin,
                    contract_problem=effect.contract_problem,
                    contract_basis=effect.contract_basis,
                    invocation_id=declaration.invocation_id,
                    reason_code=effect.reason.code,
                    kind=declaration.kind,
                )
            case OpenAttempt():
                assert session is not None
                session = session._replace(
                    status="running", attempt=effect.attempt, reason_code=effect.reason.code
                )
            case FoldContract():
                assert session is not None
                basis = session.contract_basis or effect.contract_basis
                session = session._replace(
                    contract_json=effect.contract_json, folded=True, contract_basis=basis
                )
            case HoldToLaunch():
                assert session is not None
                basis = None if effect.contract_json is None else "launcher"
                session = session._replace(contract_json=effect.contract_json, contract_basis=basis)
            case RefuseFold():
                assert session is not None
                session = session._replace(contract_problem=session.contract_problem or effect.problem)
            case LinkSession():
                assert session is not None
                session = session._replace(invocation_id=effect.invocation)
            case _:
                pass
    return session
