"""What has to be looked at for a contract, and what its outcomes add to that."""

from collections.abc import Sequence
from typing import Final

from runward.config.contract import Contract, ContractEntry
from runward.handlers.model.files import FileFact, RootFacts, RuledPath, RuleFact
from runward.handlers.model.outcomes import ReadOutcome

COARSE_NS: Final = 20_000_000
"""How far a file's time may lag behind the clock that timed the start: the kernel stamps files by its tick."""


def paths_asked(contract: Contract, started_at: float) -> tuple[str | RuledPath, ...]:
    """What to look at for each entry, for a session that started at this time (Unix seconds)."""
    since = int(started_at * 1e9) - COARSE_NS
    return tuple(
        entry.path if entry.rules is None else RuledPath(entry.path, entry.rules, since)
        for entry in contract.expected
    )


def outcome_paths(contract: Contract) -> tuple[str, ...]:
    """The files of a contract that are read as outcomes, in addition to those in their usual places."""
    return tuple(
        entry.path
        for entry in contract.expected
        if entry.rules is not None and entry.rules.reads_outcomes and not entry.rules.is_outcome
    )


def outcome_kinds(contract: Contract | None) -> frozenset[str]:
    """The kinds of outcomes that a contract asks for."""
    entries = () if contract is None else contract.expected
    kinds = (None if each.rules is None else each.rules.outcome_kind for each in entries)
    return frozenset(kind for kind in kinds if kind is not None)


def reads_outcomes(contract: Contract) -> bool:
    """Whether an entry can only be judged by outcomes."""
    return any(entry.rules is not None and entry.rules.reads_outcomes for entry in contract.expected)


def with_outcomes(contract: Contract, facts: RootFacts, outcomes: Sequence[ReadOutcome]) -> RootFacts:
    """The facts, with what the session's valid `outcomes` say of the entries that ask for one.

    They need no artifacts' directory: an outcome may be in the run's directory, or in a last message.
    """
    if not facts.exists and not reads_outcomes(contract):
        return facts
    files = (
        _judged(entry, fact, outcomes) if entry.rules is not None and entry.rules.reads_outcomes else fact
        for entry, fact in zip(contract.expected, facts.for_each(len(contract.expected)), strict=True)
    )
    return RootFacts(facts.exists, tuple(files))


def _judged(entry: ContractEntry, fact: FileFact, outcomes: Sequence[ReadOutcome]) -> FileFact:
    rules = entry.rules
    assert rules is not None
    if not rules.is_outcome and fact.state not in ("file", "unfit"):
        return fact
    found = [
        each
        for each in outcomes
        if each.outcome.kind == rules.outcome_kind and (rules.is_outcome or each.file == entry.path)
    ]
    if not found:
        said = RuleFact("outcome_kind", entry.path, False, f"no valid {rules.outcome_kind}")
        return fact._replace(state="absent" if rules.is_outcome else "unfit", rules=(*fact.rules, said))
    last = found[-1]
    told = [RuleFact("outcome_kind", last.file, True, last.outcome.summary)]
    if rules.passed:
        passed = last.outcome.passed is True
        told.append(RuleFact("passed", last.file, passed, "passed" if passed else "did not pass"))
    holds = fact.state != "unfit" and all(each.holds for each in told)
    return fact._replace(state="file" if holds else "unfit", rules=(*fact.rules, *told))
