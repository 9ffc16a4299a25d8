"""Ordinary sessions, contracts and events that the handlers' tests start from."""

import json

from runward.config.contract import Contract, ContractEntry, contract_to_json
from runward.config.flow import Leg
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    Origin,
    Session,
    SessionDeclaration,
    Status,
)

KEY = "native:runs/alpha"
PATH = "/runs/alpha"
HASH = "e" * 64
NOW = 1_790_000_000.25

REVIEW = ContractEntry("review", "review.md", True, "the verdict", "playbook")
REPORT = ContractEntry("report", "sub/report.md", True, "", "agent_profile")
NOTES = ContractEntry("notes", "notes.md", False, "", "playbook")


def declaration(**changed: object) -> SessionDeclaration:
    """What a run that names nothing says of itself."""
    fields: dict[str, object] = {
        "session_id": "alpha",
        "layout": "native",
        "root": "runs",
        "path": PATH,
        "kind": "agent",
        "artifacts_path": f"{PATH}/artifacts",
    }
    return SessionDeclaration(**{**fields, **changed})  # type: ignore[arg-type] # each test names real fields


def session(contract: Contract | None = None, **changed: object) -> Session:
    """A running session in its first attempt."""
    fields: dict[str, object] = {
        "key": KEY,
        "session_id": "alpha",
        "layout": "native",
        "path": PATH,
        "status": "running",
        "attempt": 1,
        "artifacts_path": f"{PATH}/artifacts",
        "contract_json": None if contract is None else json.dumps(contract_to_json(contract)),
        "playbook": None,
        "agent": None,
        "started_at": 100.0,
        "origin": "live",
    }
    return Session(**{**fields, **changed})  # type: ignore[arg-type] # each test names real fields


def started(
    attempt: int = 1, origin: Origin = "live", seen_over: bool = False, **said: object
) -> AttemptStarted:
    """The start of an attempt; the first one declares what `said` changes."""
    return AttemptStarted(
        KEY, attempt, 100.0, declaration(**said) if attempt == 1 else None, origin, seen_over
    )


def ended(status: Status = "completed", code: str = "run.completed.ok", **changed: object) -> AttemptEnded:
    """A declared end of the first attempt."""
    fields: dict[str, object] = {
        "session_key": KEY,
        "attempt": 1,
        "at": 200.0,
        "evidence": "declared",
        "status": status,
        "reason_code": code,
        "reason_summary": f"why {code}",
        "source": "launcher",
    }
    return AttemptEnded(**{**fields, **changed})  # type: ignore[arg-type] # each test names real fields


def planned(
    attempt: int = 1,
    agents: tuple[str, str] = ("reviewer", "critic"),
    filled: tuple[str, ...] = (),
    seen_over: bool = False,
) -> FlowPlanned:
    """The plan of a flow with two legs."""
    legs = (Leg("one", agents[0], "one"), Leg("two", agents[1], "legs/two"))
    return FlowPlanned(KEY, attempt, 150.0, "d" * 16, legs, 5, 7, filled, seen_over)
