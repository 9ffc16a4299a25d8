"""A verification compared with the one before it: what is the same, and exactly what has changed or gone since.

Pure, like the verification itself: the caller read the disk.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from runward.config.contract import Contract, ContractEntry
from runward.handlers.contracts.verify import id_of
from runward.handlers.model.contracts import FileFact, FileHash, RootFacts

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
    found = facts.for_each(len(contract.expected))
    return tuple(
        _compare(entry, then.get(entry.id), fact, hashes.get(entry.id))
        for entry, fact in zip(contract.expected, found, strict=True)
    )


def each_file(contract: Contract, facts: RootFacts, then: Iterable[str]) -> tuple[Contract, RootFacts]:
    """The contract with an entry for each file that can be compared: a glob's files now and `then`, and no outcomes.

    `then` are the ids of what was produced.
    """
    found = facts.for_each(len(contract.expected))
    entries: list[ContractEntry] = []
    files: list[FileFact] = []
    for entry, fact in zip(contract.expected, found, strict=True):
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
    found: list[Difference] = []
    if then.size != now.size:
        found.append("size")
    if then.modified_ns is not None and then.modified_ns != now.modified_ns:
        found.append("modified")
    if then.sha256 is not None and now.sha256 is not None and then.sha256 != now.sha256:
        found.append("sha256")
    return tuple(found)
