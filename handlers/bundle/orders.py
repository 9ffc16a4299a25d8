"""Orders about bundles: after a verdict the attempt's bundle is written, and a receipt is signed if a person wants it."""

from collections.abc import Mapping
from typing import Final

from runward.handlers.journal.place import journal_directory, own_directory
from runward.handlers.model.asking import Given, NotYet, TryLater, ask
from runward.handlers.model.bundle import (
    BegunReplayOf,
    BundleOrder,
    BundleRulesOf,
    Draft,
    DraftOf,
    EstimateOf,
    NoDraft,
    ReceiptSignRequested,
    RecordReceipt,
    ReportedOf,
    SignReceipt,
    Stretch,
    StretchOf,
    Verdict,
    WorkTreeOf,
)
from runward.handlers.model.effects import Deciding, Effects, Explain
from runward.handlers.model.exchange import ActionsOf
from runward.handlers.model.files import Unreadable
from runward.handlers.model.sessions import SessionFinished, SessionOf, Status


def sign_receipt(event: ReceiptSignRequested, given: Given) -> Effects:
    """A person wants a receipt signed: from then on the signature is pending, and its result is stored.

    Whether there is such a receipt is checked when it is signed.
    """
    return (
        SignReceipt(event.session_key, event.attempt, event.scheme, event.said_by),
        Explain(
            event.session_key,
            "decided",
            f"the receipt of attempt {event.attempt} is to be signed with {event.scheme}",
        ),
    )


_BY_REASON: Final[Mapping[str, str]] = {
    "run.failed.missing_artifact": "check which artifacts are missing, and have them delivered: `runward session show {id}`",
    "run.failed.exit_nonzero": "read what it printed last: `runward session logs {id}`",
    "run.failed.signal": "find out who sent the signal: `runward why {id}`",
    "run.failed.exception": "read the error: `runward why {id}`",
    "run.failed.api_error": "check the state of the model's API and the limits of the account, then run it again",
    "run.failed.limit_reached": "raise the limit, or split the task",
    "run.failed.not_started": "correct the command: `runward session show {id}` shows it",
    "run.timed_out.deadline": "give it a longer timeout, or split the task",
    "run.aborted.user": "run it again if it was interrupted by mistake",
    "run.aborted.process_gone": "look for a crash or for the kernel's out-of-memory killer, then run it again",
    "run.aborted.vanished": "find out who removed its directory",
    "run.aborted.never_started": "check whether the agent could start at all",
    "run.aborted.stale": "check whether its process hangs: `runward session show {id}`",
    "run.cancelled.user": "run it again if it is still wanted",
    "run.cancelled.sigterm": "find out who told it to stop: `runward why {id}`",
    "run.cancelled.system": "run it again: the machine was shutting down",
}


def next_steps(status: Status, reason_code: str, session_id: str) -> tuple[str, ...]:
    """The steps, in order. None for a session that completed, or whose reason is not known."""
    step = None if status == "completed" else _BY_REASON.get(reason_code)
    return () if step is None else (step.replace("{id}", session_id),)


TRIES: Final = 5
"""How often writing is tried in a place that refuses the parts, before that is recorded instead."""

MOVED: Final = "its parts are in Runward's state directory"
"""What is said after the reason, if a run's directory refused the parts of its bundle."""

SOONEST: Final = 0.1
LATEST: Final = 5.0
"""Seconds until the next check whether the session's intents are carried out."""

_A_SECOND: Final = 1000
"""Intents that may be carried out in a second."""


def write_after_verdict(event: SessionFinished, given: Given) -> Deciding:
    """A verdict is recorded: the attempt gets its bundle, in the background.

    The parts are first written under temporary names. The receipt names the one before it, so it is made when it is
    recorded. After that the parts get their names.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None:
        return (Explain(event.session_key, "refused", "no bundle: the session's record is pruned"),)
    rules = yield from ask(BundleRulesOf(session.layout, session.path))
    begun = yield from ask(BegunReplayOf(event.session_key, event.attempt))
    if begun is not None:
        # What was shown stays the beginning of the whole, even if the root no longer has bundles.
        rules = begun.rules if rules is None else begun.rules._replace(sign=rules.sign)
    if rules is None:
        return ()
    taken = yield from ask(ActionsOf(event.session_key))
    # A run's actions in the exchange are among its calls, so their results come first.
    if taken.waiting:
        raise NotYet(given.at + min(LATEST, max(SOONEST, taken.waiting / _A_SECOND)))
    stretch = yield from ask(StretchOf(event.session_key, event.attempt))
    reported = yield from ask(ReportedOf(event.session_key, event.attempt))
    began = Stretch(event.at, event.at) if stretch is None else stretch
    tree = None
    if reported.cwd is not None and stretch is not None:
        tree = yield from ask(WorkTreeOf(reported.cwd, stretch.started_at))
    estimate = None
    if reported.usage is not None:
        estimate = yield from ask(EstimateOf(event.session_key))
    order = BundleOrder(
        key=event.session_key,
        session_id=session.session_id,
        layout=session.layout,
        path=session.path,
        directory=journal_directory(session.layout, session.key, session.path),
        attempt=event.attempt,
        stretch=began,
        verdict=Verdict(
            at=event.at,
            status=event.status,
            reason_code=event.reason_code,
            reason_summary=reported.reason_summary,
            delivery=event.delivery,
            hash=given.event_hash,
        ),
        rules=rules,
        changes=reported.changes,
        next_steps=next_steps(event.status, event.reason_code, session.session_id),
        usage=reported.usage,
        cwd=reported.cwd,
        work_tree=tree,
        actions=taken.told,
        grown=None if begun is None else begun.grown,
        estimate=estimate,
    )
    answer = yield from ask(DraftOf(order))
    if isinstance(answer, Unreadable):
        raise TryLater(f"the bundle of {event.session_key}: {answer.why}")
    # The place may accept the parts at a later try. After the last one the reason is recorded, and the chain of
    # receipts skips the attempt.
    if isinstance(answer, NoDraft) and answer.may_pass and given.tries + 1 < TRIES:
        raise TryLater(f"the bundle of {event.session_key}: {answer.why}")
    refused = None
    elsewhere = own_directory(session.layout, session.key)
    if isinstance(answer, NoDraft) and answer.is_place and order.directory != elsewhere:
        # A run may do anything to its own directory, but it must not thereby get rid of its proof.
        refused, order = answer.why, order._replace(directory=elsewhere)
        answer = yield from ask(DraftOf(order))
    if isinstance(answer, Unreadable):
        raise TryLater(f"the bundle of {event.session_key}: {answer.why}")
    if isinstance(answer, NoDraft):
        return (
            RecordReceipt(order, None, answer.why),
            Explain(event.session_key, "refused", f"no bundle of attempt {event.attempt}: {answer.why}"),
        )
    assert isinstance(answer, Draft)
    if refused is None:
        return (RecordReceipt(order, answer, answer.problem),)
    moved = f"{refused}: {MOVED}"
    problem = moved if answer.problem is None else f"{moved}; {answer.problem}"
    explained = Explain(event.session_key, "decided", f"the bundle of attempt {event.attempt}: {moved}")
    return RecordReceipt(order, answer, problem), explained
