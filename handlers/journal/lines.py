"""The lines that Runward writes into a session's journal, as bytes. A journal that lacks some of them is repaired.

`events.jsonl` has `{"ts","role","event","path"}` first in every line (the CTCP contracts, J). `ts` is the fact's own
time, not that of the writing, and `hash` is the hash of the event that the line follows from. Together the lines of
a session say everything that `folding` needs to rebuild its state.
"""

from typing import Any, Final

from runward.config.contract import Contract, ContractEntry, contract_to_json
from runward.config.json_value import JsonValue, stored_json
from runward.handlers.contracts.verify import Verification, rules_as_json
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.events import Event
from runward.handlers.model.exchange import ActionTaken
from runward.handlers.model.files import DeliveryState
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.journal import AppendLines, JournalDamaged, RepairJournal
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    ContractBasis,
    Reason,
    SessionDeclaration,
    SessionOf,
    Source,
    Status,
)
from runward.handlers.times import iso_time

EVENTS: Final = "events.jsonl"
ROLE: Final = "runward"
PLAN: Final = "flow.json"


def session_started(
    event: AttemptStarted,
    event_hash: str,
    declaration: SessionDeclaration,
    contract_problem: str | None = None,
) -> bytes:
    return _line(
        event,
        "session_started",
        event_hash,
        session_id=declaration.session_id,
        attempt=event.attempt,
        playbook=declaration.playbook,
        agent=declaration.agent,
        layout=declaration.layout,
        kind=declaration.kind,
        invocation_id=declaration.invocation_id,
        containment=declaration.containment,
        artifacts_path=declaration.artifacts_path,
        contract_problem=contract_problem,
    )


def session_resumed(event: AttemptStarted, event_hash: str) -> bytes:
    return _line(event, "session_resumed", event_hash, attempt=event.attempt)


def contract_snapshotted(
    event: AttemptStarted, event_hash: str, contract: Contract, basis: ContractBasis | None
) -> bytes:
    expected = [_expected(entry) for entry in contract.expected]
    whole = contract_to_json(contract)
    return _line(event, "contract_snapshotted", event_hash, basis=basis, expected=expected, contract=whole)


def contract_held(
    event: AttemptStarted | AttemptEnded, event_hash: str, contract: Contract | None, problem: str
) -> bytes:
    """The contract of the launch applies instead of what the run's files said."""
    whole = None if contract is None else contract_to_json(contract)
    return _line(event, "contract_held", event_hash, attempt=event.attempt, contract=whole, problem=problem)


def _expected(entry: ContractEntry) -> JsonValue:
    return {"id": entry.id, "path": entry.path, "required": entry.required, "source": entry.source}


def contract_folded(
    event: FlowPlanned,
    event_hash: str,
    added: tuple[ContractEntry, ...],
    basis: ContractBasis,
    contract: Contract | None,
) -> bytes:
    """What the legs of a flow added to the contract, and the resulting contract."""
    legs: list[JsonValue] = [{"id": leg.id, "agent": leg.agent, "path": leg.path} for leg in event.legs]
    return _line(
        event,
        "contract_folded",
        event_hash,
        path=PLAN,
        basis=basis,
        legs=legs,
        expected=[_expected(entry) for entry in added],
        contract=None if contract is None else contract_to_json(contract),
    )


def contract_not_folded(event: FlowPlanned, event_hash: str, problem: str) -> bytes:
    """Why the legs of a plan are not in the contract."""
    return _line(event, "contract_not_folded", event_hash, path=PLAN, problem=problem)


def artifact_verified(event: AttemptEnded, event_hash: str, verification: Verification) -> bytes:
    rules: dict[str, Any] = {"rules": rules_as_json(verification)} if verification.rules else {}
    return _line(
        event,
        "artifact_verified",
        event_hash,
        status=verification.status,
        delivery=verification.delivery,
        missing_required=[entry.id for entry in verification.missing_required],
        missing_optional=[entry.id for entry in verification.missing_optional],
        produced=[{"id": each.id, "path": each.path, "size": each.size} for each in verification.produced],
        attempt=event.attempt,
        checked_at=verification.checked_at,
        modified_ns=[each.modified_ns for each in verification.produced],
        **rules,
    )


def status_changed(
    event: AttemptEnded, event_hash: str, replaced: Status, status: Status, reason: Reason, source: Source
) -> bytes:
    return _line(
        event,
        "status_changed",
        event_hash,
        replaced=replaced,
        status=status,
        reason_code=reason.code,
        reason_summary=reason.summary,
        attempt=event.attempt,
        evidence_refs=[each._asdict() for each in reason.evidence_refs],
        source=source,
    )


def session_finished(
    event: AttemptEnded,
    event_hash: str,
    status: Status,
    reason: Reason,
    delivery: DeliveryState | None,
) -> bytes:
    return _line(
        event,
        "session_finished",
        event_hash,
        attempt=event.attempt,
        status=status,
        reason_code=reason.code,
        delivery=delivery,
        ended_by=event.evidence,
    )


def journal_repaired(event: JournalDamaged, event_hash: str) -> bytes:
    """What was done to the journal `path`. This line comes after the lines that were written again."""
    return _line(
        event,
        "journal_repaired",
        event_hash,
        path=event.name,
        lines_written_again=event.lost + event.changed,
        lines_changed=event.changed,
        bytes_torn=event.torn_bytes,
    )


def action_taken(event: ActionTaken, event_hash: str) -> bytes:
    """An action in the exchange."""
    reasoning = event.told["intent"]
    # Actions that one event reports may be the same in everything else, and no two lines of ours may be the same: after a
    # crash, a line is searched for by what it says.
    return _line(
        event,
        "action",
        event_hash,
        line=event.told["line"],
        action_type=event.action_type,
        artifact_id=event.artifact_id,
        reasoning=reasoning.get("reasoning") if isinstance(reasoning, dict) else None,
        success=event.is_success,
        error_code=event.error_code,
    )


def artifact_deleted(event: ActionTaken, event_hash: str) -> bytes:
    """An artifact of the exchange was deleted."""
    return _line(
        event,
        "artifact_deleted",
        event_hash,
        artifact_id=event.artifact_id,
        deleted_by=event.principal,
    )


def _line(event: Event, name: str, event_hash: str, *, path: str = "", **further: object) -> bytes:
    # Readers rely on these four fields being first (the CTCP contracts, J). The hash leads from a line to its event in
    # the chain.
    line: dict[str, object] = {
        "ts": iso_time(event.at),
        "role": ROLE,
        "event": name,
        "path": path,
        "hash": event_hash,
    }
    line.update(further)
    return stored_json(line) + b"\n"


# Lines are never rewritten in place. Lines that a crash lost are appended again. If somebody changed a line, the changed
# one stays as a foreign one, the true one is appended, and the problem is kept.


def repair_journal(event: JournalDamaged, given: Given) -> Deciding:
    """A journal was found damaged: missing lines are written again, and the repair is recorded."""
    session = yield from ask(SessionOf(event.session_key))
    # While the run lives, it may still complete a torn line of its own. So ours wait for its newline.
    live = session is not None and session.status == "running"
    repair = RepairJournal(event.directory, event.name, event.rows, live, _problem(event))
    explained = Explain(event.session_key, "decided", f"{event.name}: {describe(event)}")
    if not event.lost and not event.changed:
        return repair, explained
    line = journal_repaired(event, given.event_hash)
    return repair, explained, AppendLines(event.session_key, event.directory, EVENTS, line, live)


def describe(event: JournalDamaged) -> str:
    """What was found, in a sentence."""
    torn = f" ({event.torn_bytes} bytes of a torn one are left)" if event.torn_bytes else ""
    parts = [
        f"{_counted(event.lost)} missing{torn}, written again" if event.lost else "",
        f"{_counted(event.changed)} changed or removed by somebody, written again" if event.changed else "",
        f"{_counted(event.moved)} found elsewhere in the file" if event.moved else "",
    ]
    return "; ".join(part for part in parts if part)


def _counted(number: int) -> str:
    return "1 of Runward's lines was" if number == 1 else f"{number} of Runward's lines were"


def _problem(event: JournalDamaged) -> str | None:
    if not event.changed:
        return None
    return f"{_counted(event.changed)} changed or removed by somebody; the correct text is appended again"
