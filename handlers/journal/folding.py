"""The state of a session, rebuilt from the lines of its journal alone, as the effects that made it.

Each line names its attempt, so their order in the file means nothing: a repair appends lost lines after
later ones. If two lines describe the same event, the later one counts. What lines of earlier versions lack is
named, because nothing can be said about it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from runward.config.contract import Contract
from runward.config.json_value import JsonValue, stored_json
from runward.handlers.contracts.snapshots import BrokenSnapshot, snapshot_of, stored_contract
from runward.handlers.contracts.verify import VerificationStatus, entry_as_json
from runward.handlers.model.effects import Effect, Effects
from runward.handlers.model.files import RULES, DeliveryState, Produced
from runward.handlers.model.sessions import (
    AttemptStarted,
    ContractBasis,
    EndAttempt,
    Evidence,
    EvidenceRef,
    FoldContract,
    HoldToLaunch,
    OpenAttempt,
    OpenSession,
    Reason,
    RefuseFold,
    SessionDeclaration,
    Source,
    Status,
    why_started,
)

Lacking: TypeAlias = frozenset[str]

_UNKNOWN: Final = "?"
"""The value where a line of an earlier version says nothing."""


class Folded(NamedTuple):
    """The effects that make a session's state, and the names of the fields that its lines say nothing about.

    A field is a column of the session, or `attempts/2/produced`, or `status_history/2/ended/source`.
    """

    effects: Effects
    lacking: Lacking


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    ts: datetime
    hash: str

    @property
    def at(self) -> float:
        return self.ts.timestamp()


class _Started(_Line, frozen=True, kw_only=True, tag="session_started"):
    session_id: str
    playbook: str | None
    agent: str | None
    attempt: Literal[1]
    layout: str | msgspec.UnsetType = msgspec.UNSET
    kind: str | msgspec.UnsetType = msgspec.UNSET
    invocation_id: str | msgspec.UnsetType | None = msgspec.UNSET
    containment: str | msgspec.UnsetType | None = msgspec.UNSET
    artifacts_path: str | msgspec.UnsetType = msgspec.UNSET
    contract_problem: str | msgspec.UnsetType | None = msgspec.UNSET


class _Resumed(_Line, frozen=True, kw_only=True, tag="session_resumed"):
    attempt: int


class _Snapshotted(_Line, frozen=True, kw_only=True, tag="contract_snapshotted"):
    basis: ContractBasis | None
    contract: object | msgspec.UnsetType = msgspec.UNSET


class _Held(_Line, frozen=True, kw_only=True, tag="contract_held"):
    attempt: int
    contract: object
    problem: str


class _LegsFolded(_Line, frozen=True, kw_only=True, tag="contract_folded"):
    basis: ContractBasis
    contract: object | msgspec.UnsetType = msgspec.UNSET


class _NotFolded(_Line, frozen=True, kw_only=True, tag="contract_not_folded"):
    problem: str


class _ProducedFile(msgspec.Struct, frozen=True):
    id: str
    path: str
    size: int


class _Verified(_Line, frozen=True, kw_only=True, tag="artifact_verified"):
    status: VerificationStatus
    delivery: DeliveryState
    missing_required: list[str]
    missing_optional: list[str]
    produced: list[_ProducedFile]
    checked_at: float | msgspec.UnsetType = msgspec.UNSET
    modified_ns: list[int] | msgspec.UnsetType = msgspec.UNSET
    rules: list[object] | msgspec.UnsetType = msgspec.UNSET


class _EvidenceRef(msgspec.Struct, frozen=True):
    kind: Literal["expected_artifact", "artifact", "file", "exit", "process", "event"]
    id: str
    label: str


class _Changed(_Line, frozen=True, kw_only=True, tag="status_changed"):
    replaced: Status
    status: Status
    reason_code: str
    reason_summary: str
    evidence_refs: list[_EvidenceRef] | msgspec.UnsetType = msgspec.UNSET
    source: Source | msgspec.UnsetType = msgspec.UNSET


class _Finished(_Line, frozen=True, kw_only=True, tag="session_finished"):
    attempt: int
    ended_by: Evidence


_AnyLine: TypeAlias = (
    _Started | _Resumed | _Snapshotted | _Held | _LegsFolded | _NotFolded | _Verified | _Changed | _Finished
)
_Kind = TypeVar("_Kind", bound=_Line)
_Value = TypeVar("_Value")


def fold_lines(key: str, lines: Iterable[JsonValue]) -> Folded:
    """The state of the session `key` by its `lines`. Without the line that opens it there is none."""
    # Each line names its attempt, so their order means nothing: a repair appends lost lines after later ones.
    journal = _Told()
    for value in lines:
        journal.take(value)
    folding = _Folding(key, journal)
    return Folded(tuple(folding.effects()), frozenset(folding.lacking))


@dataclass(slots=True)
class _Told:
    """The lines by their kind and the hash of the event that they follow from."""

    lines: dict[tuple[type[_Line], str], _AnyLine] = field(default_factory=dict)

    def take(self, value: JsonValue) -> None:
        try:
            line = msgspec.convert(value, _AnyLine)
        except msgspec.ValidationError:
            return  # another program's line, or one that was changed
        # If two lines describe the same event, the later one counts: it is the one that a repair wrote.
        self.lines[type(line), line.hash] = line

    def all(self, kind: type[_Kind]) -> list[_Kind]:
        return [line for line in self.lines.values() if isinstance(line, kind)]

    def of(self, kind: type[_Kind], event_hash: str) -> _Kind | None:
        """The line of this kind that follows from the event."""
        line = self.lines.get((kind, event_hash))
        return line if isinstance(line, kind) else None


@dataclass(slots=True)
class _Folding:
    key: str
    journal: _Told
    lacking: set[str] = field(default_factory=set)
    _contract: Contract | None = None
    _is_known: bool = True
    """Whether the lines say what the contract is."""

    def effects(self) -> Iterator[Effect]:
        started = next(iter(self.journal.all(_Started)), None)
        if started is None:
            return
        yield self._opened(started)
        yield from self._planned()
        resumed = {line.attempt: line for line in self.journal.all(_Resumed)}
        finished = {line.attempt: line for line in self.journal.all(_Finished)}
        attempt, begun, status = 1, started.hash, "running"
        while True:
            end = finished.get(attempt)
            change = None if end is None else self.journal.of(_Changed, end.hash)
            if end is None or change is None:
                return
            # The contract may have been replaced by the launcher's just before the verdict, and the verdict is about
            # that one.
            yield from self._held(end.hash)
            yield self._ended(end, change)
            status, attempt = change.status, attempt + 1
            following = resumed.get(attempt)
            if following is None:
                return
            begun = following.hash
            yield from self._held(begun)
            yield self._resumed(following, status)

    def _opened(self, line: _Started) -> OpenSession:
        snapshot = self.journal.of(_Snapshotted, line.hash)
        basis = None
        if snapshot is not None:
            basis = snapshot.basis
            self._take_contract(snapshot.contract)
        declaration = SessionDeclaration(
            session_id=line.session_id,
            layout=self._known("layout", line.layout, _UNKNOWN),
            root="",
            path="",
            kind=self._known("kind", line.kind, _UNKNOWN),
            artifacts_path=self._known("artifacts_path", line.artifacts_path, _UNKNOWN),
            playbook=line.playbook,
            agent=line.agent,
            invocation_id=self._known("invocation_id", line.invocation_id, None),
            containment=self._known("containment", line.containment, None),
        )
        return OpenSession(
            key=self.key,
            at=line.at,
            declaration=declaration,
            origin="live",
            reason=self._why_started(1),
            source="daemon",
            contract_json=self._contract_text(),
            contract_basis=basis,
            contract_problem=self._known("contract_problem", line.contract_problem, None),
        )

    def _planned(self) -> Iterator[Effect]:
        for refused in self.journal.all(_NotFolded):
            yield RefuseFold(self.key, refused.problem)
        for folded in self.journal.all(_LegsFolded):
            self._take_contract(folded.contract)
            is_there = self._contract is not None or not self._is_known
            yield FoldContract(self.key, self._contract_text(), folded.basis if is_there else None)

    def _held(self, event_hash: str) -> Iterator[Effect]:
        held = self.journal.of(_Held, event_hash)
        if held is not None:
            self._take_contract(held.contract)
            yield HoldToLaunch(self.key, self._contract_text(), held.problem)

    def _resumed(self, line: _Resumed, replaces: Status) -> OpenAttempt:
        # The session's fields now describe its running attempt, so what the last end lacked is no longer missing.
        self.lacking -= _OF_THE_END
        return OpenAttempt(
            key=self.key,
            attempt=line.attempt,
            at=line.at,
            replaces=replaces,
            reason=self._why_started(line.attempt),
            source="daemon",
        )

    def _ended(self, end: _Finished, change: _Changed) -> EndAttempt:
        history = f"status_history/{end.attempt}/ended"
        evidence: list[_EvidenceRef] = self._known("evidence_refs", change.evidence_refs, [])
        if change.evidence_refs is msgspec.UNSET:
            self.lacking.add(f"{history}/evidence_refs")
        reason = Reason(
            change.reason_code,
            change.reason_summary,
            tuple(EvidenceRef(each.kind, each.id, each.label) for each in evidence),
        )
        source: Source = self._known(f"{history}/source", change.source, "daemon")
        verified = self.journal.of(_Verified, end.hash)
        return EndAttempt(
            key=self.key,
            attempt=end.attempt,
            at=end.at,
            ended_by=end.ended_by,
            replaces=change.replaced,
            status=change.status,
            reason=reason,
            source=source,
            verification_json=None if verified is None else self._verification(verified),
            delivery=None if verified is None else verified.delivery,
            produced=() if verified is None else self._produced(end.attempt, verified),
        )

    def _verification(self, line: _Verified) -> str | None:
        """The verification as the store keeps it. None if the lines don't give all of it."""
        entries = {} if self._contract is None else {entry.id: entry for entry in self._contract.expected}
        missing = (*line.missing_required, *line.missing_optional)
        if line.checked_at is msgspec.UNSET or not all(each in entries for each in missing):
            self.lacking.add("artifact_verification_json")
            return None
        kept: dict[str, object] = {
            "status": line.status,
            "checked_at": line.checked_at,
            "missing_required": [entry_as_json(entries[each]) for each in line.missing_required],
            "missing_optional": [entry_as_json(entries[each]) for each in line.missing_optional],
            "produced": [{"id": each.id, "path": each.path, "size": each.size} for each in line.produced],
        }
        if line.rules is not msgspec.UNSET:
            kept[RULES] = line.rules
        return stored_json(kept).decode()

    def _produced(self, attempt: int, line: _Verified) -> tuple[Produced, ...]:
        times: Sequence[int] = self._known(f"attempts/{attempt}/produced", line.modified_ns, ())
        return tuple(
            Produced(each.id, each.path, each.size, modified_ns)
            for each, modified_ns in zip(line.produced, times, strict=False)
        )

    def _why_started(self, attempt: int) -> Reason:
        event = AttemptStarted(self.key, attempt, 0.0, None)
        return why_started(event.key, is_first=attempt == 1)

    def _take_contract(self, value: object) -> None:
        """The contract from here on."""
        self._contract, self._is_known = None, value is not msgspec.UNSET
        if self._is_known and value is not None:
            try:
                self._contract = stored_contract(stored_json(value).decode())
            except BrokenSnapshot:
                self._is_known = False  # somebody changed it
        if self._is_known:
            self.lacking.discard("artifact_contract_json")
        else:
            self.lacking.add("artifact_contract_json")

    def _contract_text(self) -> str | None:
        return snapshot_of(self._contract).text

    def _known(self, name: str, value: _Value | msgspec.UnsetType, otherwise: _Value) -> _Value:
        """What the line says. If it says nothing, that is noted, and `otherwise` is used instead."""
        if isinstance(value, msgspec.UnsetType):
            self.lacking.add(name)
            return otherwise
        return value


_OF_THE_END: Final = frozenset({"evidence_refs", "artifact_verification_json"})
"""Fields of the session that its next attempt sets again."""
