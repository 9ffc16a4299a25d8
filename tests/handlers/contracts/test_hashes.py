"""What is recorded of the files that an attempt produced, from what came of hashing them."""

from typing import get_args

import pytest
from tests.handlers.examples import HASH, KEY, NOW, PATH
from tests.handlers.played import Answer, AnyQuestion, Need, played

from runward.handlers.contracts import files as handler
from runward.handlers.contracts.files import TRIES
from runward.handlers.model.asking import TryLater
from runward.handlers.model.contracts import HashesOf, ProducedBy, ProducedFiles, RecordedFile, RecordFiles
from runward.handlers.model.effects import Effects, Explain
from runward.handlers.model.files import (
    MEANINGS,
    FileHash,
    FileProblem,
    HashState,
    Produced,
    RootHashes,
    Unreadable,
)
from runward.handlers.model.sessions import SessionFinished

REVIEW, NOTES = Produced("review", "review.md", 12, 100), Produced("notes", "sub/notes.md", 5, 200)
VERDICT = SessionFinished(KEY, 2, 5.0, "completed", "run.completed.ok", "passed", 2, 17)
decide = played(handler.hash_produced)
ONE, TWO = "1" * 64, "2" * 64
AS_VERIFIED = (FileHash("hashed", 12, 100, ONE), FileHash("hashed", 5, 200, TWO))


def conclude(
    answer: RootHashes | Unreadable, tried: int = 0, artifacts_path: str = f"{PATH}/artifacts"
) -> tuple[Effects | TryLater, list[HashesOf]]:
    """Ask and answer as the worker does; also what was asked of the disk."""
    asked: list[HashesOf] = []
    facts: dict[AnyQuestion, Answer] = {}
    for _ in range(3):
        decision = decide(VERDICT, HASH, facts, NOW, tried)
        if not isinstance(decision, Need):
            return decision, asked
        question = decision.question
        if isinstance(question, HashesOf):
            asked.append(question)
            facts[question] = answer
        else:
            assert question == ProducedBy(KEY, 2)
            facts[question] = ProducedFiles(artifacts_path, PATH, (REVIEW, NOTES))
    raise AssertionError("it still asks after two rounds")


def recorded(answer: RootHashes, tried: int = 0) -> tuple[RecordedFile, ...]:
    decision, _ = conclude(answer, tried)
    assert isinstance(decision, tuple)
    effect = decision[0]
    assert isinstance(effect, RecordFiles)
    assert (effect.key, effect.attempt) == (KEY, 2)
    return effect.files


def test_each_file_is_recorded_with_its_hash_and_nothing_more_is_said() -> None:
    decision, _ = conclude(RootHashes(True, AS_VERIFIED))
    files = (
        RecordedFile("review", "review.md", 12, 100, ONE, None),
        RecordedFile("notes", "sub/notes.md", 5, 200, TWO, None),
    )
    assert decision == (RecordFiles(KEY, 2, files),)


@pytest.mark.parametrize(
    ("artifacts_path", "within"), [(f"{PATH}/artifacts", PATH), ("/elsewhere", ""), (PATH + "-not", "")]
)
def test_the_disk_is_asked_for_the_same_place_as_at_the_verification(
    artifacts_path: str, within: str
) -> None:
    _, asked = conclude(RootHashes(True, AS_VERIFIED), artifacts_path=artifacts_path)
    assert asked == [HashesOf(artifacts_path, within, ("review.md", "sub/notes.md"))]


@pytest.mark.parametrize("found", [FileHash("hashed", 13, 100, ONE), FileHash("hashed", 12, 101, ONE)])
def test_a_file_that_is_not_as_it_was_verified_is_said_to_be_changed_and_keeps_its_hash(
    found: FileHash,
) -> None:
    review, notes = recorded(RootHashes(True, (found, AS_VERIFIED[1])))
    assert review == RecordedFile("review", "review.md", found.size, found.modified_ns, ONE, "changed")
    assert notes.problem is None


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("absent", "gone"),
        ("empty", "empty"),
        ("not_regular", "not_regular"),
        ("outside", "outside"),
        ("denied", "denied"),
        ("too_large", "too_large"),
    ],
)
def test_a_file_without_a_hash_is_recorded_with_its_problem_as_it_was_verified(
    state: HashState, problem: str
) -> None:
    decision, _ = conclude(RootHashes(True, (FileHash(state, 99, 99), AS_VERIFIED[1])))
    assert isinstance(decision, tuple)
    record, said = decision
    assert isinstance(record, RecordFiles)
    assert record.files[0] == RecordedFile("review", "review.md", 12, 100, None, problem)  # type: ignore[arg-type] # one of its words
    assert said == Explain(
        KEY,
        "decided",
        f"review.md {MEANINGS[problem]}",
        {"files": {"review.md": MEANINGS[problem]}},
    )


@pytest.mark.parametrize("state", ["changing", "unreadable"])
def test_what_may_pass_is_tried_again_a_bounded_number_of_times(state: HashState) -> None:
    answer = RootHashes(True, (AS_VERIFIED[0], FileHash(state)))
    for tried in range(TRIES - 1):
        decision, _ = conclude(answer, tried)
        assert isinstance(decision, TryLater)
        assert decision.why == f"sub/notes.md {MEANINGS[state]}"
    review, notes = recorded(answer, TRIES - 1)
    assert (review.sha256, review.problem) == (ONE, None)
    assert notes == RecordedFile("notes", "sub/notes.md", 5, 200, None, state)  # type: ignore[arg-type] # the same word


def test_with_their_root_all_files_are_gone() -> None:
    assert [each.problem for each in recorded(RootHashes(False))] == ["gone", "gone"]


@pytest.mark.parametrize("tried", [0, TRIES, 1000])
def test_while_the_place_can_not_be_read_nothing_is_known_however_often_it_was_tried(tried: int) -> None:
    decision, _ = conclude(Unreadable("Input/output error"), tried)
    assert isinstance(decision, TryLater)
    assert decision.why == f"the artifacts of {KEY} can't be read: Input/output error"


def test_an_attempt_of_which_nothing_was_kept_is_a_mistake_of_ours() -> None:
    facts: dict[AnyQuestion, Answer] = {ProducedBy(KEY, 2): None}
    with pytest.raises(LookupError, match="the store has none"):
        decide(VERDICT, HASH, facts, NOW)


def test_every_problem_has_its_words() -> None:
    assert set(MEANINGS) == set(get_args(FileProblem))
