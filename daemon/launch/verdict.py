"""The contract checked against the disk at the end of a run, as the daemon does it.

The daemon's verdict is the recorded one; this one is for anyone who waits for the launcher.
"""

import time
from typing import NamedTuple

from runward.config.contract import Contract, contract_from_json
from runward.config.json_value import JsonValue
from runward.daemon.rundir.artifacts import contract_facts
from runward.handlers.contracts.verify import Verification, failure_summary, verify
from runward.handlers.model.files import RootFacts, Unreadable


class Held(NamedTuple):
    """A contract, and what became of it: the `facts` of the disk, and their verification."""

    contract: Contract
    facts: RootFacts
    verification: Verification


def contract_of(snapshot: JsonValue) -> Contract | None:
    """The contract from the launcher's own snapshot, in which None means that there is no contract."""
    if snapshot is None:
        return None
    contract = contract_from_json(snapshot, "run.json").value
    assert contract is not None, "the launcher's own snapshot is readable"
    return contract


def held_to(
    contract: Contract, artifacts: str, within: str, run: str, started_at: float
) -> Held | Unreadable:
    """The contract compared with the directory `artifacts`.

    `within` is the run directory `run` if the artifacts are in it, else "". `started_at` is in Unix seconds.
    """
    facts = contract_facts(contract, artifacts, within, run, started_at)
    return (
        facts
        if isinstance(facts, Unreadable)
        else Held(contract, facts, verify(contract, facts, time.time()))
    )


def why_not_delivered(held: Held | Unreadable, artifacts: str, session_id: str) -> str | None:
    """ADR-0029's summary if the directory `artifacts` or a required artifact in it is missing, else None.

    What can't be looked at was not delivered.
    """
    if isinstance(held, Unreadable):
        return f"Run failed: its artifacts can't be verified: {held.why}"
    is_failed = held.verification.status == "failed"
    return failure_summary(held.verification, artifacts, session_id) if is_failed else None
