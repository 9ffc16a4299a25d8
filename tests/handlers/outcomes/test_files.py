"""Artifacts whose content is in files: what is hashed, when, and what is kept where there is no hash."""

import json

import pytest
from tests.handlers.examples import HASH, KEY, NOW, PATH, session
from tests.handlers.played import played

from runward.handlers.model.asking import TryLater
from runward.handlers.model.contracts import HashesOf
from runward.handlers.model.effects import Emit, Explain
from runward.handlers.model.files import FileHash, RootHashes, Unreadable
from runward.handlers.model.outcomes import (
    ArtifactFilesNamed,
    OutcomeFile,
    ReadOutcome,
    RecordArtifact,
    RecordArtifactFile,
    artifact_id,
)
from runward.handlers.model.sessions import SessionOf
from runward.handlers.outcomes import recording
from runward.handlers.outcomes.reading import InvalidOutcome, read_outcome
from runward.handlers.outcomes.recording import named
from runward.handlers.route import duties, in_background

DIGEST = "1" * 64
NAMED = ArtifactFilesNamed(KEY, NOW, f"{KEY}#1/ended", (("ar_log", "logs/big.txt"), ("ar_diff", "a.diff")))
GOOD = FileHash("hashed", 12, 100, DIGEST)
decide = played(recording.hash_files)


def concluded(answer: RootHashes | Unreadable, tries: int = 0) -> object:
    asked = HashesOf(f"{PATH}/artifacts", PATH, ("logs/big.txt", "a.diff"))
    return decide(NAMED, HASH, {SessionOf(KEY): session(), asked: answer}, NOW, tries)


def kept(name: str, path: str | None, *, names_file: bool) -> RecordArtifact:
    return RecordArtifact(KEY, NOW, "note", name, None, "", None, path, False, 0, names_file=names_file)


def test_only_artifacts_that_name_a_file_have_one_hashed_all_of_a_session_in_one_background_job() -> None:
    told = named(
        [kept("read", "outcome.json", names_file=False), kept("log", "a.log", names_file=True)], NOW, "cause"
    )
    event = ArtifactFilesNamed(KEY, NOW, "cause", ((artifact_id(KEY, "note", "log"), "a.log"),))
    assert told == (Emit(event),)
    (duty,) = duties(event)
    assert in_background(duty.lane)
    assert (
        named([kept("read", "outcome.json", names_file=False)], NOW, "cause") == named([], NOW, "cause") == ()
    )


def test_each_file_gets_its_hash() -> None:
    assert concluded(RootHashes(True, (GOOD, GOOD._replace(size=3)))) == (
        RecordArtifactFile("ar_log", "logs/big.txt", DIGEST, 12, None),
        RecordArtifactFile("ar_diff", "a.diff", DIGEST, 3, None),
    )


@pytest.mark.parametrize(
    ("state", "problem"),
    [("absent", "gone"), ("outside", "outside"), ("not_regular", "not_regular"), ("too_large", "too_large")],
)
def test_a_file_without_a_hash_has_a_problem_that_why_tells(state: str, problem: str) -> None:
    decision = concluded(RootHashes(True, (GOOD, FileHash(state))))  # type: ignore[arg-type] # one of them
    assert isinstance(decision, tuple)
    first, second, explained = decision
    assert first.sha256 == DIGEST
    assert isinstance(second, RecordArtifactFile)
    assert (second.artifact_id, second.sha256, second.problem) == ("ar_diff", None, problem)
    assert isinstance(explained, Explain)
    assert explained.summary.startswith("a.diff ")


def test_without_the_directory_of_the_artifacts_all_files_are_gone() -> None:
    decision = concluded(RootHashes(False))
    assert isinstance(decision, tuple)
    assert [each.problem for each in decision[:2]] == ["gone", "gone"]


def test_a_file_that_is_written_to_is_hashed_later_but_not_for_ever() -> None:
    answer = RootHashes(True, (GOOD, FileHash("changing")))
    assert isinstance(concluded(answer), TryLater)
    assert isinstance(concluded(answer, 3), TryLater)
    decision = concluded(answer, 4)
    assert isinstance(decision, tuple)
    assert decision[1].problem == "changing"


def test_what_cannot_be_read_now_is_never_taken_for_gone() -> None:
    decision = concluded(Unreadable("Input/output error"), 99)
    assert isinstance(decision, TryLater)


def test_an_outcome_may_name_only_a_file_below_the_artifacts() -> None:
    def read(path: object) -> ReadOutcome | InvalidOutcome:
        value = {"outcome_kind": "ci_result", "summary": "s", "file_path": path}
        return read_outcome(OutcomeFile("outcome.json", json.dumps(value).encode()))

    for path in ("/etc/passwd", "../up", "a/../../b", "", ".", "a\0b", "x" * 300, 7):
        found = read(path)
        assert isinstance(found, InvalidOutcome), path
        assert [each.field for each in found.problems] == ["file_path"]
    right = read("logs/big.txt")
    assert isinstance(right, ReadOutcome)
    assert right.outcome.file_path == right.outcome.value["file_path"] == "logs/big.txt"
