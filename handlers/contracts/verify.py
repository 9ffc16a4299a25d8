"""Verification: a contract compared with the facts of the disk (ADR-0029, sections 6 and 7), and with the verification before."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.contract import Contract, ContractEntry
from runward.config.json_value import JsonValue, stored_json
from runward.config.problem import printable
from runward.handlers.model.files import (
    RULES,
    DeliveryState,
    FileFact,
    FileHash,
    Match,
    Produced,
    RootFacts,
    RuleFact,
    there_is,
)

VerificationStatus: TypeAlias = Literal["passed", "failed", "warning"]

ABSENT: Final = "absent"
"""How `describe` says that nothing is there."""

_NO_ROOT: Final = "the artifacts' directory is missing"


class Verification(NamedTuple):
    """The result of verifying a contract at one moment (`checked_at`, Unix seconds).

    `reasons` say for each of `missing_required` why it doesn't count as delivered, as `describe` does. `has_root` is
    whether the artifacts' directory is there. `rules` have the result of each rule, with its entry's id.
    """

    status: VerificationStatus
    checked_at: float
    missing_required: tuple[ContractEntry, ...]
    missing_optional: tuple[ContractEntry, ...]
    produced: tuple[Produced, ...]
    delivery: DeliveryState
    reasons: tuple[str, ...] = ()
    at_fault: tuple[str, ...] = ()
    """Likewise, the path of the file that is the reason."""
    near: tuple[str | None, ...] = ()
    """Likewise, the path of a file that is nearly the absent one, if there is one."""
    has_root: bool = True
    rules: tuple[tuple[str, RuleFact], ...] = ()


def verify(contract: Contract, facts: RootFacts, checked_at: float) -> Verification:
    """Compare `contract` with what was found. `facts.files` answers its entries in order."""
    files = facts.for_each(len(contract.expected))
    # Without the artifacts' directory nothing can be delivered, not even where every entry is optional.
    lacks_root = not facts.exists and _needs_root(contract)
    missing_required: list[ContractEntry] = []
    missing_optional: list[ContractEntry] = []
    produced: list[Produced] = []
    reasons: list[str] = []
    faulty: list[str] = []
    near: list[str | None] = []
    absent = failing = 0
    for entry, fact in zip(contract.expected, files, strict=True):
        if fact.state == "file":
            produced += _produced(entry, fact)
        elif fact.state == "excused":
            continue
        elif not entry.required:
            missing_optional.append(entry)
        else:
            missing_required.append(entry)
            reasons.append(describe(fact))
            faulty.append(at_fault(entry, fact))
            near.append(fact.near)
            if fact.state == "absent":
                absent += 1
            else:
                failing += 1
    return Verification(
        status="failed" if missing_required or lacks_root else "warning" if missing_optional else "passed",
        checked_at=checked_at,
        missing_required=tuple(missing_required),
        missing_optional=tuple(missing_optional),
        produced=tuple(produced),
        delivery="missing" if lacks_root else _delivery(contract, absent, failing),
        reasons=tuple(reasons),
        at_fault=tuple(faulty),
        near=tuple(near),
        has_root=facts.exists,
        rules=tuple(
            (entry.id, rule)
            for entry, fact in zip(contract.expected, files, strict=True)
            for rule in fact.rules
        ),
    )


def _needs_root(contract: Contract) -> bool:
    """Whether the contract is about files: outcomes may be delivered without an artifacts' directory."""
    is_outcome = [entry.rules is not None and entry.rules.is_outcome for entry in contract.expected]
    return not is_outcome or not all(is_outcome)


def _produced(entry: ContractEntry, fact: FileFact) -> list[Produced]:
    """The files of a delivered entry. A glob's files are distinguished by their paths; an outcome is not a file."""
    if entry.rules is None or entry.rules.path is None:
        return [Produced(entry.id, entry.path, fact.size, fact.modified_ns)]
    return [Produced(id_of(entry, each), each.path, each.size, each.modified_ns) for each in fact.matches]


def id_of(entry: ContractEntry, match: Match) -> str:
    """The id of one file of a glob. The entry's own id has no colon in it."""
    return f"{entry.id}:{match.path}"


def boundary(artifacts_path: str, run_directory: str) -> str:
    """The directory that the artifacts' root may not leave: the run's own if the root is in it, else "" for none."""
    # An artifacts' directory elsewhere is the operator's choice. One in the run's directory may have become a link that
    # leads out of it.
    return run_directory if artifacts_path.startswith(run_directory + "/") else ""


def _delivery(contract: Contract, absent: int, failing: int) -> DeliveryState:
    """What the verification amounts to, over the required entries."""
    if not absent and not failing:
        return "passed"
    if not absent:
        return "invalid"
    required = sum(1 for entry in contract.expected if entry.required)
    return "partial" if required > absent + failing else "missing"


def verification_as_json(verification: Verification) -> dict[str, JsonValue]:
    """The verification object as ADR-0029 writes it, `checked_at` in Unix seconds."""
    return {
        "status": verification.status,
        "checked_at": verification.checked_at,
        "missing_required": [entry_as_json(entry) for entry in verification.missing_required],
        "missing_optional": [entry_as_json(entry) for entry in verification.missing_optional],
        "produced": [{"id": each.id, "path": each.path, "size": each.size} for each in verification.produced],
    }


def entry_as_json(entry: ContractEntry) -> JsonValue:
    """A contract's entry, with the fields that ADR-0029 names."""
    return {
        "id": entry.id,
        "path": entry.path,
        "required": entry.required,
        "description": entry.description,
        "source": entry.source,
    }


def rules_as_json(verification: Verification) -> list[JsonValue]:
    """The result of each rule of the contract."""
    return [{"id": identifier, **rule._asdict()} for identifier, rule in verification.rules]


def missing_summary(verification: Verification) -> str:
    """One line that names what was not delivered and why, for a status reason."""
    missing = verification.missing_required
    if not missing:
        return _NO_ROOT
    named = ", ".join(f"{entry.id} ({path}){but}" for entry, path, but in islice(_missing(verification), 5))
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    return f"{_what(verification)}: {named}{more}"


def failure_summary(verification: Verification, artifacts: str, session_id: str) -> str:
    """What a person reads after a run that failed only because of its contract (ADR-0029, section 9); terminal-safe.

    `artifacts` is the directory that was searched.
    """
    missing = verification.missing_required
    lines = [f"Run failed: {_what(verification) if missing else _NO_ROOT}."]
    lines += [
        f"  {entry.id} ({printable(path)}){but} — {entry.source}"
        for entry, path, but in _missing(verification)
    ]
    is_there = "" if verification.has_root else ", which does not exist"
    lines += [f"Searched {printable(artifacts)}{is_there}."]
    lines += ["", "Run completed cleanly otherwise. Inspect with:"]
    return "\n".join([*lines, f"  runward session show {printable(session_id)}"])


def _what(verification: Verification) -> str:
    are_all_absent = all(reason == ABSENT for reason in verification.reasons)
    return "missing required artifacts" if are_all_absent else "required artifacts were not delivered"


def _missing(verification: Verification) -> Iterator[tuple[ContractEntry, str, str]]:
    """Each required entry that was not delivered, the path at fault, and what there is instead of a good file."""
    for entry, path, reason, near in zip(
        *(verification.missing_required, verification.at_fault, verification.reasons, verification.near),
        strict=True,
    ):
        what = "" if reason == ABSENT else reason
        yield entry, path, f": {what if near is None else there_is(near, path)}" if what or near else ""


def at_fault(entry: ContractEntry, fact: FileFact) -> str:
    """The path of the file that is the reason: an entry of a profile has several files, and is shown with the first."""
    broken = _broken(fact)
    is_of_profile = entry.rules is not None and entry.rules.profile is not None
    return entry.path if broken is None or not is_of_profile else broken.path


def _broken(fact: FileFact) -> RuleFact | None:
    """The first rule that a file breaks that is there."""
    return next((rule for rule in fact.rules if not rule.holds), None) if fact.state == "unfit" else None


def described(contract: Contract, facts: RootFacts) -> dict[str, str]:
    """Why each entry that was not delivered doesn't count, by its path. A file that is not the entry's, or nearly it, is named."""
    reasons: dict[str, str] = {}
    for entry, fact in zip(contract.expected, facts.files, strict=False):
        if not fact.is_right:
            path = at_fault(entry, fact)
            reason = describe(fact) if path == entry.path else f"{path}: {describe(fact)}"
            reasons[entry.path] = reason if fact.near is None else f"{reason}; {there_is(fact.near, path)}"
    return reasons


def is_absent(description: JsonValue) -> bool:
    """Whether this is how `described` says that nothing is there."""
    return isinstance(description, str) and (description == ABSENT or description.startswith(f"{ABSENT}; "))


def files_at_fault(contract: Contract, facts: RootFacts) -> dict[str, str]:
    """The files that are the reason for entries with other paths, by these paths."""
    pairs = zip(contract.expected, facts.files, strict=False)
    files = {entry.path: at_fault(entry, fact) for entry, fact in pairs if not fact.is_right}
    return {path: file for path, file in files.items() if path != file}


def describe(fact: FileFact) -> str:
    """Why a file doesn't count as delivered, in a word or two."""
    broken = _broken(fact)
    if broken is not None:
        place = "" if broken.line is None else f" on line {broken.line}"
        return f"{broken.rule}{place}: {broken.reason}"
    return {
        "file": "there",
        "absent": ABSENT,
        "empty": "empty",
        "not_regular": "not a regular file",
        "outside": "leads outside the root",
        "denied": "not readable by the daemon",
        "unfit": "breaks a rule",
        "excused": "absent, as it may be",
    }[fact.state]


def dump_verification(verification: Verification) -> str:
    """The verification object as the store keeps it, as JSON text: with the `rules`, if the contract has some."""
    kept = verification_as_json(verification)
    if verification.rules:
        kept[RULES] = rules_as_json(verification)
    return stored_json(kept).decode()


ArtifactState: TypeAlias = Literal[
    "same",
    "changed",
    "new",
    "missing",
    "gone",
    "empty",
    "not_regular",
    "outside",
    "denied",
    "changing",
    "unreadable",
    "too_large",
    "unfit",
]
"""`new` was missing and is there now, `missing` was missing and still is. The words after `gone` say why it doesn't
count any longer, or why nothing can be said about its content."""

Difference: TypeAlias = Literal["size", "modified", "sha256"]


class Look(NamedTuple):
    """What a delivered artifact was like at one time. None is what was not kept, or not asked."""

    size: int
    modified_ns: int | None
    sha256: str | None


class Compared(NamedTuple):
    """One entry of the contract: how it was (None: not delivered), how it is, and what is different."""

    entry: ContractEntry
    state: ArtifactState
    then: Look | None
    now: Look | None
    differences: tuple[Difference, ...] = ()

    @property
    def is_as_it_was(self) -> bool:
        return self.state in ("same", "missing")


def compare(
    contract: Contract, then: Mapping[str, Look], facts: RootFacts, hashes: Mapping[str, FileHash]
) -> tuple[Compared, ...]:
    """Each entry of the contract, compared. `hashes` has, by id, the hashes that were taken now."""
    files = facts.for_each(len(contract.expected))
    return tuple(
        _compare(entry, then.get(entry.id), fact, hashes.get(entry.id))
        for entry, fact in zip(contract.expected, files, strict=True)
    )


def each_file(contract: Contract, facts: RootFacts, then: Iterable[str]) -> tuple[Contract, RootFacts]:
    """The contract with an entry for each file that can be compared: a glob's files now and `then`, and no outcomes.

    `then` are the ids of what was produced.
    """
    facts_of_entries = facts.for_each(len(contract.expected))
    entries: list[ContractEntry] = []
    files: list[FileFact] = []
    for entry, fact in zip(contract.expected, facts_of_entries, strict=True):
        if entry.rules is None or entry.rules.path is None:
            entries.append(entry)
            files.append(fact)
        elif not entry.rules.is_outcome:
            there = {id_of(entry, each): each for each in fact.matches}
            before = (each for each in then if each.startswith(f"{entry.id}:"))
            for identifier in sorted({*there, *before}):
                match = there.get(identifier)
                path = identifier.partition(":")[2]
                entries.append(entry._replace(id=identifier, path=path, rules=None))
                files.append(
                    FileFact("absent") if match is None else FileFact("file", match.size, match.modified_ns)
                )
    return Contract(tuple(entries)), RootFacts(facts.exists, tuple(files))


def _compare(entry: ContractEntry, then: Look | None, fact: FileFact, taken: FileHash | None) -> Compared:
    if fact.state != "file" and (fact.state != "unfit" or then is None):
        if then is None:
            return Compared(entry, "missing", None, None)
        return Compared(entry, _gone(fact), then, None)
    now = Look(fact.size, fact.modified_ns, None)
    if then is None:
        return Compared(entry, "new", None, now)
    # Size and time may be the same although the content differs. If it can't be hashed, nothing is said about it.
    if taken is not None and taken.state != "hashed":
        return Compared(entry, "gone" if taken.state == "absent" else taken.state, then, now)
    if taken is not None:
        now = Look(taken.size, taken.modified_ns, taken.sha256)
    differences = _differences(then, now)
    return Compared(entry, "changed" if differences else "same", then, now, differences)


def _gone(fact: FileFact) -> ArtifactState:
    """Why what was delivered no longer counts."""
    if fact.state == "absent" or fact.state == "excused" or fact.state == "file":
        return "gone"
    return fact.state


def _differences(then: Look, now: Look) -> tuple[Difference, ...]:
    differences: list[Difference] = []
    if then.size != now.size:
        differences.append("size")
    if then.modified_ns is not None and then.modified_ns != now.modified_ns:
        differences.append("modified")
    if then.sha256 is not None and now.sha256 is not None and then.sha256 != now.sha256:
        differences.append("sha256")
    return tuple(differences)
