"""How a launched run ended, for CI systems: from what its launcher knows, which the command can't change."""

import time
from pathlib import Path
from typing import Final, NamedTuple

from runward.config.contract import contract_to_json
from runward.daemon.launch.launch import Launched
from runward.daemon.launch.verdict import Held
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables import receipts, sessions
from runward.daemon.views.checks import Check, check_of_end, checks_of
from runward.handlers.contracts.verify import described, missing_summary, rules_as_json, verification_as_json
from runward.handlers.layouts.native import conclusion
from runward.handlers.model.files import Unreadable
from runward.handlers.model.reasons import status_of

PATIENCE_S: Final = 10.0
"""How long a daemon that works here may take to judge a run, and to make its receipt."""
_PERIOD_S: Final = 0.05
_NOTHING_FOLLOWS: Final = (None, "done", "discarded", "held")
"""The states of the job for a receipt in which none comes any more."""


class RunReport(NamedTuple):
    """How a run ended. Without a daemon that has judged it there is no `receipt_hash`."""

    session_id: str
    status: str
    reason: str
    delivery: str | None
    checks: list[Check]
    started_at: float
    took_s: float
    receipt_hash: str | None = None


def report_of(launched: Launched, held: Held | Unreadable | None) -> RunReport:
    """The result of the run; `held` is what became of its contract, None if there is none."""
    ending = launched.ending
    code, reason = conclusion(ending.cause, ending.exit_code, ending.signal, ending.error)
    report = RunReport(
        session_id=launched.session_id,
        status=status_of(code),
        reason=reason,
        delivery=None,
        checks=[check_of_end(status_of(code), code, reason)],
        started_at=launched.started_at,
        took_s=ending.duration_s,
    )
    if held is None:
        return report
    if isinstance(held, Unreadable):
        why = f"its artifacts can't be verified: {held.why}"
        checks = [Check("artifact", "the artifacts", "failed", why)]
        is_failed = True
    else:
        verification = held.verification
        checks = checks_of(
            contract_to_json(held.contract),
            verification_as_json(verification),
            rules_as_json(verification),
            described(held.contract, held.facts),
        )
        report = report._replace(delivery=verification.delivery)
        is_failed, why = verification.status == "failed", missing_summary(verification)
    report = report._replace(checks=[*report.checks, *checks])
    return (
        report._replace(status="failed", reason=why) if is_failed and code == "run.completed.ok" else report
    )


def as_recorded(report: RunReport, state: str, key: str) -> RunReport:
    """The report with the verdict and the receipt of the daemon, if one works over the directory `state`."""
    until = time.monotonic() + PATIENCE_S
    while holder(Path(state)) is not None and time.monotonic() < until:
        try:
            # In one transaction: a receipt that is made between two questions would be missed by both.
            with reading.reading(state) as connection:
                row = sessions.session(connection, key)
                if row is not None and row.status != "running":
                    report = report._replace(
                        status=row.status, reason=row.reason_summary, delivery=row.delivery
                    )
                    bundle = receipts.bundle_of(connection, key, row.attempt)
                    if bundle is not None:
                        return report._replace(receipt_hash=bundle.receipt_hash)
                    if receipts.job_state(connection, key, row.attempt) in _NOTHING_FOLLOWS:
                        return report
        except reading.StoreUnreadable:
            return report
        time.sleep(_PERIOD_S)
    return report
