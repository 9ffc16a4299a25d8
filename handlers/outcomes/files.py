"""The large content of artifacts: files below a session's artifacts, hashed in the background once they are named.

The path is resolved again each time, and a link or a name that leads out of the artifacts gets no hash.
"""

from collections.abc import Sequence

from runward.handlers.contracts.hashes import MAY_PASS, PROBLEMS, TRIES
from runward.handlers.contracts.verify import boundary
from runward.handlers.model.asking import Given, TryLater, ask
from runward.handlers.model.contracts import MEANINGS, FileHash, HashesOf
from runward.handlers.model.effects import Deciding, Effects, Emit, Explain
from runward.handlers.model.outcomes import ArtifactFilesNamed, RecordArtifact, RecordArtifactFile
from runward.handlers.model.sessions import SessionOf
from runward.handlers.model.unreadable import Unreadable
from runward.handlers.outcomes.ids import artifact_id


def named(kept: Sequence[RecordArtifact], at: float, cause: str) -> Effects:
    """Has the large content of these artifacts hashed. `cause` is the key of the event that recorded them."""
    files = [
        (artifact_id(each.session_key, each.kind, each.name), each.file_path)
        for each in kept
        if each.names_file and each.file_path is not None
    ]
    return (Emit(ArtifactFilesNamed(kept[0].session_key, at, cause, tuple(files))),) if files else ()


def decide(event: ArtifactFilesNamed, given: Given) -> Deciding:
    """The large content of artifacts: files below a session's artifacts, hashed in the background once they are named.

    Record a hash of each file, or its problem.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None:
        raise LookupError(f"{event.key} is about a session that the store does not have")
    within = boundary(session.artifacts_path, session.path)
    paths = tuple(path for _, path in event.files)
    answer = yield from ask(HashesOf(session.artifacts_path, within, paths))
    if isinstance(answer, Unreadable):
        raise TryLater(f"the artifacts of {event.session_key} can't be read: {answer.why}")
    found = answer.files if answer.exists else (FileHash("absent"),) * len(paths)
    problems = {
        path: problem
        for path, each in zip(paths, found, strict=True)
        if (problem := PROBLEMS.get(each.state))
    }
    wrong = {path: MEANINGS[problem] for path, problem in problems.items()}
    said = ", ".join(f"{path} {meaning}" for path, meaning in wrong.items())
    if given.tries + 1 < TRIES and MAY_PASS.intersection(problems.values()):
        raise TryLater(said)
    effects: Effects = tuple(
        RecordArtifactFile(identifier, path, each.sha256, each.size, PROBLEMS.get(each.state))
        for (identifier, path), each in zip(event.files, found, strict=True)
    )
    if wrong:
        effects += (Explain(event.session_key, "decided", said, {"files": dict(wrong)}),)
    return effects
