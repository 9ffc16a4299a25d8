"""What the contract of a native run that no daemon has judged comes to. Lists import it only for runs that have one."""

import time
from typing import NamedTuple

from runward.config.contract import Contract
from runward.daemon.rundir.artifacts import contract_facts
from runward.handlers.contracts.verify import boundary, dump_verification, missing_summary, verify
from runward.handlers.model.files import DeliveryState, Unreadable


class Verified(NamedTuple):
    """The artifacts of a run, checked against its contract: as JSON, whether they were delivered, and what is missing."""

    verification: str
    delivery: DeliveryState
    missing: str | None


def verified(held: Contract, artifacts: str, path: str, started_at: float) -> Verified | None:
    """What the run in the directory `path` left, as the daemon would find it now; None if it can't be read."""
    facts = contract_facts(held, artifacts, boundary(artifacts, path), path, started_at)
    if isinstance(facts, Unreadable):
        return None
    verification = verify(held, facts, time.time())
    missing = missing_summary(verification) if verification.status == "failed" else None
    return Verified(dump_verification(verification), verification.delivery, missing)
