"""A verification compared with the one before it: what is the same, and exactly what is not."""

import itertools

import pytest
from tests.handlers.examples import NOTES, REVIEW

from runward.config.contract import Contract
from runward.handlers.contracts.verify import Compared, Look, compare
from runward.handlers.model.files import FileFact, FileHash, FileState, HashState, RootFacts

ONE, TWO = "1" * 64, "2" * 64
ONLY_REVIEW = Contract((REVIEW,))
THEN = Look(12, 100, ONE)


def review(then: Look | None, fact: FileFact, taken: FileHash | None = None) -> Compared:
    (compared,) = compare(
        ONLY_REVIEW,
        {} if then is None else {"review": then},
        RootFacts(True, (fact,)),
        {} if taken is None else {"review": taken},
    )
    return compared


def test_what_has_the_same_size_time_and_content_is_the_same() -> None:
    compared = review(THEN, FileFact("file", 12, 100), FileHash("hashed", 12, 100, ONE))
    assert (compared.state, compared.differences, compared.is_as_it_was) == ("same", (), True)
    assert compared.now == THEN


@pytest.mark.parametrize(
    ("size", "modified_ns", "digest"), list(itertools.product((12, 13), (100, 101), (ONE, TWO)))
)
def test_exactly_what_is_different_is_named(size: int, modified_ns: int, digest: str) -> None:
    compared = review(
        THEN, FileFact("file", size, modified_ns), FileHash("hashed", size, modified_ns, digest)
    )
    expected = [
        name
        for name, differs in (
            ("size", size != 12),
            ("modified", modified_ns != 100),
            ("sha256", digest != ONE),
        )
        if differs
    ]
    assert list(compared.differences) == expected
    assert compared.state == ("changed" if expected else "same")
    assert compared.is_as_it_was is (not expected)


def test_without_a_hash_of_then_size_and_time_are_compared() -> None:
    assert review(Look(12, 100, None), FileFact("file", 12, 100)).state == "same"
    assert review(Look(12, 100, None), FileFact("file", 12, 101)).differences == ("modified",)


def test_where_no_time_was_kept_the_size_is_compared() -> None:
    assert review(Look(12, None, None), FileFact("file", 12, 5)).state == "same"
    assert review(Look(12, None, None), FileFact("file", 11, 5)).differences == ("size",)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("absent", "gone"),
        ("empty", "empty"),
        ("not_regular", "not_regular"),
        ("outside", "outside"),
        ("denied", "denied"),
    ],
)
def test_what_was_delivered_and_does_not_count_any_more_is_named(state: FileState, said: str) -> None:
    compared = review(THEN, FileFact(state))
    assert (compared.state, compared.then, compared.now) == (said, THEN, None)
    assert not compared.is_as_it_was


def test_what_was_missing_and_is_there_is_new() -> None:
    compared = review(None, FileFact("file", 3, 7))
    assert (compared.state, compared.now) == ("new", Look(3, 7, None))
    assert not compared.is_as_it_was


@pytest.mark.parametrize("state", ["absent", "empty", "outside"])
def test_what_was_missing_and_still_does_not_count_is_as_it_was(state: FileState) -> None:
    compared = review(None, FileFact(state))
    assert (compared.state, compared.is_as_it_was) == ("missing", True)


@pytest.mark.parametrize(
    ("state", "said"), [("changing", "changing"), ("unreadable", "unreadable"), ("absent", "gone")]
)
def test_a_file_whose_content_can_not_be_told_now_is_not_as_it_was(state: HashState, said: str) -> None:
    compared = review(THEN, FileFact("file", 12, 100), FileHash(state))
    assert (compared.state, compared.is_as_it_was) == (said, False)


def test_with_their_root_all_artifacts_are_gone() -> None:
    found = compare(Contract((REVIEW, NOTES)), {"review": THEN}, RootFacts(False), {})
    assert [(each.entry.id, each.state) for each in found] == [("review", "gone"), ("notes", "missing")]
