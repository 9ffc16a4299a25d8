"""Verification: a contract held against the facts of the disk (ADR-0029, sections 6 and 7).

Pure: the facts were read by whoever calls. Verification never raises and never guesses; what
can't be confirmed as a non-empty regular file inside the root was not delivered.
"""

from typing import Literal, NamedTuple, TypeAlias

from pydantic_core import to_json

from runward.config.contract import Contract, ContractEntry
from runward.config.json_value import JsonValue
from runward.config.problem import printable
from runward.handlers.contracts.artifact_facts import FileFact, Produced, RootFacts

VerificationStatus: TypeAlias = Literal["passed", "failed", "warning"]
DeliveryState: TypeAlias = Literal["passed", "partial", "missing", "invalid"]


class Verification(NamedTuple):
    """What became of a contract at one moment (`checked_at`, Unix seconds)."""

    status: VerificationStatus
    checked_at: float
    missing_required: tuple[ContractEntry, ...]
    missing_optional: tuple[ContractEntry, ...]
    produced: tuple[Produced, ...]
    delivery: DeliveryState


def verify(contract: Contract, facts: RootFacts, checked_at: float) -> Verification:
    """Hold `contract` against what was found. `facts.files` answers its entries in order."""
    if not facts.exists:
        return Verification(
            "failed",
            checked_at,
            tuple(entry for entry in contract.expected if entry.required),
            tuple(entry for entry in contract.expected if not entry.required),
            (),
            "missing",
        )
    missing_required: list[ContractEntry] = []
    missing_optional: list[ContractEntry] = []
    produced: list[Produced] = []
    absent = failing = 0
    for entry, fact in zip(contract.expected, facts.files, strict=True):
        if fact.state == "file":
            produced.append(Produced(entry.id, entry.path, fact.size, fact.modified_ns))
        elif not entry.required:
            missing_optional.append(entry)
        else:
            missing_required.append(entry)
            if fact.state == "absent":
                absent += 1
            else:
                failing += 1
    return Verification(
        "failed" if missing_required else "warning" if missing_optional else "passed",
        checked_at,
        tuple(missing_required),
        tuple(missing_optional),
        tuple(produced),
        _delivery(contract, absent, failing),
    )


def boundary(artifacts_path: str, run_directory: str) -> str:
    """The directory that the artifacts' root may not leave: the run's own where it lies in it, else "" for none."""
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
    """A contract's entry, all of its fields written out."""
    return {
        "id": entry.id,
        "path": entry.path,
        "required": entry.required,
        "description": entry.description,
        "source": entry.source,
    }


def missing_summary(missing: tuple[ContractEntry, ...]) -> str:
    """One line that names what is missing, for a status reason."""
    named = ", ".join(f"{entry.id} ({entry.path})" for entry in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    return f"missing required artifacts: {named}{more}"


def failure_summary(missing: tuple[ContractEntry, ...], session_id: str) -> str:
    """What a person reads after a run that failed for its contract alone (ADR-0029, section 9); safe for a terminal.

    Where nothing is missing, it is the artifacts' directory that is.
    """
    what = "missing required artifacts" if missing else "the artifacts' directory is missing"
    lines = [f"Run failed: {what}."]
    lines += [f"  {entry.id} ({printable(entry.path)}) — {entry.source}" for entry in missing]
    lines += ["", "Run completed cleanly otherwise. Inspect with:"]
    return "\n".join([*lines, f"  runward session show {printable(session_id)}"])


def describe(fact: FileFact) -> str:
    """Why a file doesn't count as delivered, in a word or two."""
    return {
        "file": "there",
        "absent": "absent",
        "empty": "empty",
        "not_regular": "not a regular file",
        "outside": "leads outside the root",
        "denied": "not readable by the daemon",
    }[fact.state]


def dump_verification(verification: Verification) -> str:
    """The verification object as JSON text."""
    return to_json(verification_as_json(verification)).decode()
