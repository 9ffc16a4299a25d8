"""A verification held against the one before it: what is the same, and exactly what changed or went since.

Pure, like the verification itself: whoever calls read the disk.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from runward.config.contract import Contract, ContractEntry
from runward.handlers.contracts.artifact_facts import FileFact, RootFacts
from runward.handlers.contracts.file_hashes import FileHash

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
]
"""`new` was missing and is there now, `missing` was and is; the words after `gone` say why it doesn't count any more,
or why nothing can be said of its content."""

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
    """Each entry of the contract, compared. `hashes` has, by id, those that were taken now."""
    found = facts.files if facts.exists else (FileFact("absent"),) * len(contract.expected)
    return tuple(
        _compare(entry, then.get(entry.id), fact, hashes.get(entry.id))
        for entry, fact in zip(contract.expected, found, strict=True)
    )


def _compare(entry: ContractEntry, then: Look | None, fact: FileFact, taken: FileHash | None) -> Compared:
    if fact.state != "file":
        if then is None:
            return Compared(entry, "missing", None, None)
        return Compared(entry, "gone" if fact.state == "absent" else fact.state, then, None)
    now = Look(fact.size, fact.modified_ns, None)
    if then is None:
        return Compared(entry, "new", None, now)
    if taken is not None and taken.state != "hashed":
        return Compared(entry, "gone" if taken.state == "absent" else taken.state, then, now)
    if taken is not None:
        now = Look(taken.size, taken.modified_ns, taken.sha256)
    differences = _differences(then, now)
    return Compared(entry, "changed" if differences else "same", then, now, differences)


def _differences(then: Look, now: Look) -> tuple[Difference, ...]:
    found: list[Difference] = []
    if then.size != now.size:
        found.append("size")
    if then.modified_ns is not None and then.modified_ns != now.modified_ns:
        found.append("modified")
    if then.sha256 is not None and now.sha256 is not None and then.sha256 != now.sha256:
        found.append("sha256")
    return tuple(found)
