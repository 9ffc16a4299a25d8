"""A verdict is recorded: hash the files that the attempt produced, or record why there is no hash.

Done in the background: a verdict never waits for it, and nothing that follows a verdict does either.
"""

from collections.abc import Mapping
from typing import Final

from runward.handlers.contracts.verify import boundary
from runward.handlers.model.asking import Given, TryLater, ask
from runward.handlers.model.contracts import HashesOf, ProducedBy, ProducedFiles, RecordedFile, RecordFiles
from runward.handlers.model.effects import Deciding, Effect, Explain
from runward.handlers.model.files import MEANINGS, FileHash, FileProblem, HashState, Produced, RootHashes
from runward.handlers.model.sessions import SessionFinished
from runward.handlers.model.unreadable import Unreadable

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
    """A verdict is recorded: hash the files that the attempt produced, or record why there is no hash.

    Record a hash, or the problem, of each file that the attempt produced.
    """
    produced = yield from ask(ProducedBy(event.session_key, event.attempt))
    if produced is None:
        raise LookupError(f"{event.key} says that files were produced, and the store has none")
    within = boundary(produced.artifacts_path, produced.path)
    paths = tuple(each.path for each in produced.files)
    answer = yield from ask(HashesOf(produced.artifacts_path, within, paths))
    if isinstance(answer, Unreadable):
        raise TryLater(f"the artifacts of {event.session_key} can't be read: {answer.why}")
    files = tuple(
        _record(each, found) for each, found in zip(produced.files, _all(answer, produced), strict=True)
    )
    wrong = {each.path: MEANINGS[each.problem] for each in files if each.problem is not None}
    if given.tries + 1 < TRIES and any(each.problem in MAY_PASS for each in files):
        raise TryLater(_summary(wrong))
    effects: list[Effect] = [RecordFiles(event.session_key, event.attempt, files)]
    if wrong:
        effects.append(Explain(event.session_key, "decided", _summary(wrong), {"files": dict(wrong)}))
    return tuple(effects)


def _all(answer: RootHashes, produced: ProducedFiles) -> tuple[FileHash, ...]:
    """The result for each file. If their root has vanished, so have all files."""
    return answer.files if answer.exists else (FileHash("absent"),) * len(produced.files)


def _record(verified: Produced, found: FileHash) -> RecordedFile:
    problem = PROBLEMS.get(found.state)
    if problem is not None:
        return RecordedFile(verified.id, verified.path, verified.size, verified.modified_ns, None, problem)
    if (found.size, found.modified_ns) != (verified.size, verified.modified_ns):
        problem = "changed"
    return RecordedFile(verified.id, verified.path, found.size, found.modified_ns, found.sha256, problem)


def _summary(wrong: Mapping[str, str]) -> str:
    """One line that names the files with problems, and what they are."""
    named = ", ".join(f"{path} {problem}" for path, problem in list(wrong.items())[:5])
    return f"{named} and {len(wrong) - 5} more" if len(wrong) > 5 else named
