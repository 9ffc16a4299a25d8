"""The contract checked against the disk at the end of a run, as the daemon does it.

The daemon's verdict is the recorded one; this one is for anyone who waits for the launcher.
"""

import time

from runward.config.contract import Contract, contract_from_json
from runward.config.json_value import JsonValue
from runward.daemon.rundir.artifacts import contract_facts
from runward.handlers.contracts.verify import failure_summary, verify
from runward.handlers.model.files import Unreadable


def contract_of(snapshot: JsonValue) -> Contract | None:
    """The contract from the launcher's own snapshot, in which None means that there is no contract."""
    if snapshot is None:
        return None
    contract = contract_from_json(snapshot, "run.json").value
    assert contract is not None, "the launcher's own snapshot is readable"
    return contract


def why_not_delivered(
    contract: Contract, artifacts: str, within: str, run: str, started_at: float, session_id: str
) -> str | None:
    """ADR-0029's summary if the directory `artifacts` or a required artifact in it is missing, else None.

    `within` is the run directory `run` if the artifacts are in it, else "". What can't be looked at was not delivered.
    `started_at` is in Unix seconds.
    """
    facts = contract_facts(contract, artifacts, within, run, started_at)
    if isinstance(facts, Unreadable):
        return f"Run failed: its artifacts can't be verified: {facts.why}"
    verification = verify(contract, facts, time.time())
    return failure_summary(verification, artifacts, session_id) if verification.status == "failed" else None
