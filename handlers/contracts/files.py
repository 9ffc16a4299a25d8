"""The files of a contract: what has to be looked at, what its outcomes add to that, and the hashes of what was produced."""

from collections.abc import Mapping, Sequence
from typing import Final

from runward.config.contract import Contract, ContractEntry
from runward.handlers.contracts.verify import boundary
from runward.handlers.model.asking import Asking, Given, TryLater, ask, ask_readable
from runward.handlers.model.contracts import ArtifactsUnder, HashesOf, ProducedBy, RecordedFile, RecordFiles
from runward.handlers.model.effects import Deciding, Effect, Explain
from runward.handlers.model.files import (
    MEANINGS,
    FileFact,
    FileHash,
    FileProblem,
    HashState,
    Produced,
    RootFacts,
    RuledPath,
    RuleFact,
)
from runward.handlers.model.outcomes import ReadOutcome
from runward.handlers.model.sessions import SessionFinished

COARSE_NS: Final = 20_000_000
"""How far a file's time may lag behind the clock that timed the start: the kernel stamps files by its tick."""


def paths_asked(contract: Contract, started_at: float) -> tuple[str | RuledPath, ...]:
    """What to look at for each entry, for a session that started at this time (Unix seconds)."""
    # A file that was written at the start may have a time that is a little earlier than it.
    since = int(started_at * 1e9) - COARSE_NS
    return tuple(
        entry.path if entry.rules is None else RuledPath(entry.path, entry.rules, since)
        for entry in contract.expected
    )


def artifacts_asked(
    contract: Contract, artifacts_path: str, directory: str, started_at: float
) -> ArtifactsUnder:
    """What a verdict asks about the files of a session with this contract, whose run is in `directory`."""
    within = boundary(artifacts_path, directory)
    return ArtifactsUnder(artifacts_path, within, paths_asked(contract, started_at))


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
    outcomes_of_kind = [
        each
        for each in outcomes
        if each.outcome.kind == rules.outcome_kind and (rules.is_outcome or each.file == entry.path)
    ]
    if not outcomes_of_kind:
        rule = RuleFact("outcome_kind", entry.path, False, f"no valid {rules.outcome_kind}")
        return fact._replace(state="absent" if rules.is_outcome else "unfit", rules=(*fact.rules, rule))
    # Several outcomes of one kind may be there. The last one counts, as in chains.
    last = outcomes_of_kind[-1]
    results = [RuleFact("outcome_kind", last.file, True, last.outcome.summary)]
    if rules.passed:
        passed = last.outcome.passed is True
        results.append(RuleFact("passed", last.file, passed, "passed" if passed else "did not pass"))
    holds = fact.state != "unfit" and all(each.holds for each in results)
    return fact._replace(state="file" if holds else "unfit", rules=(*fact.rules, *results))


TRIES: Final = 5
"""How often a file that is being written or can't be read is hashed again before that is recorded instead."""

PROBLEMS: Final[Mapping[HashState, FileProblem]] = {
    "absent": "gone",
    "empty": "empty",
    "not_regular": "not_regular",
    "outside": "outside",
    "denied": "denied",
    "changing": "changing",
    "unreadable": "unreadable",
    "too_large": "too_large",
}
MAY_PASS: Final[frozenset[FileProblem | None]] = frozenset({"changing", "unreadable"})


def hash_produced(event: SessionFinished, given: Given) -> Deciding:
    """A verdict is recorded: hash the files that the attempt produced, or record why there is no hash."""
    # This is done in the background: a verdict never waits for it, and nothing that follows a verdict does either.
    produced = yield from ask(ProducedBy(event.session_key, event.attempt))
    if produced is None:
        raise LookupError(f"{event.key} says that files were produced, and the store has none")
    paths = tuple(each.path for each in produced.files)
    hashes = yield from hashed(event.session_key, produced.artifacts_path, produced.path, paths)
    files = tuple(_record(each, now) for each, now in zip(produced.files, hashes, strict=True))
    wrong = {each.path: MEANINGS[each.problem] for each in files if each.problem is not None}
    if given.tries + 1 < TRIES and any(each.problem in MAY_PASS for each in files):
        raise TryLater(_summary(wrong))
    effects: list[Effect] = [RecordFiles(event.session_key, event.attempt, files)]
    if wrong:
        effects.append(Explain(event.session_key, "decided", _summary(wrong), {"files": dict(wrong)}))
    return tuple(effects)


def hashed(
    session_key: str, artifacts_path: str, directory: str, paths: tuple[str, ...]
) -> Asking[tuple[FileHash, ...]]:
    """The hashes of files among the artifacts of a session, whose run is in `directory`."""
    # The paths are resolved again, below the same boundary: the run may have put a link there since it named them.
    question = HashesOf(artifacts_path, boundary(artifacts_path, directory), paths)
    answer = yield from ask_readable(question, f"the artifacts of {session_key}")
    return answer.for_each(len(paths))


def _record(verified: Produced, now: FileHash) -> RecordedFile:
    problem = PROBLEMS.get(now.state)
    seen: Produced | FileHash = verified if problem is not None else now
    if problem is None and (now.size, now.modified_ns) != (verified.size, verified.modified_ns):
        problem = "changed"
    return RecordedFile(
        id=verified.id,
        path=verified.path,
        size=seen.size,
        modified_ns=seen.modified_ns,
        sha256=now.sha256,
        problem=problem,
    )


def _summary(wrong: Mapping[str, str]) -> str:
    """One line that names the files with problems, and what they are."""
    named = ", ".join(f"{path} {problem}" for path, problem in list(wrong.items())[:5])
    return f"{named} and {len(wrong) - 5} more" if len(wrong) > 5 else named
