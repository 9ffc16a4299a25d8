"""Folding effects into a session, so that the next job in its lane sees what this one did."""

from runward.handlers.effects import (
    Effects,
    EndAttempt,
    FoldContract,
    OpenAttempt,
    OpenSession,
    RefuseFold,
)
from runward.handlers.facts import Session


def fold(session: Session | None, effects: Effects) -> Session | None:
    """The session as it is after `effects`, which are its own."""
    for effect in effects:
        match effect:
            case EndAttempt():
                assert session is not None
                session = session._replace(status=effect.status)
            case OpenSession():
                said = effect.declaration
                session = Session(
                    effect.key,
                    said.session_id,
                    said.layout,
                    said.path,
                    "running",
                    1,
                    said.artifacts_path,
                    effect.contract_json,
                    said.playbook,
                    said.agent,
                    effect.at,
                    effect.origin,
                    effect.contract_problem,
                )
            case OpenAttempt():
                assert session is not None
                session = session._replace(status="running", attempt=effect.attempt)
            case FoldContract():
                assert session is not None
                session = session._replace(contract_json=effect.contract_json, folded=True)
            case RefuseFold():
                assert session is not None
                session = session._replace(contract_problem=session.contract_problem or effect.problem)
            case _:
                pass
    return session
