"""The fold of a flow's legs: entries are added under each leg's id and directory, and none is changed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.examples import NOTES, REVIEW

from runward.config.contract import Contract, ContractEntry, ExpectedArtifact
from runward.config.flow import Leg
from runward.handlers.contracts.fold import Folded, Unfoldable, fold_legs, why_too_late
from runward.handlers.model.contracts import Declarations, EarlyLegs

ONE = Leg("one", "reviewer", "one")
TWO = Leg("two", "critic", "legs/two")


def declares(*artifacts: ExpectedArtifact) -> Declarations:
    return Declarations(None, artifacts)


DECLARED = {
    "reviewer": declares(ExpectedArtifact("review", "./review.md", True, "the verdict")),
    "critic": declares(ExpectedArtifact("notes", "a//notes.md", False), ExpectedArtifact("b", "b")),
    "silent": Declarations(None, None),
    "wrong": Declarations(None, None, "wrong.md:2:1: it is wrong"),
}


def test_what_a_leg_is_to_leave_lies_under_its_id_and_in_its_directory() -> None:
    folded = fold_legs(Contract((REVIEW, NOTES)), (ONE, TWO), DECLARED)
    assert isinstance(folded, Folded)
    assert folded.added == (
        ContractEntry("one__review", "one/review.md", True, "the verdict", "role_default"),
        ContractEntry("two__notes", "legs/two/a/notes.md", False, "", "role_default"),
        ContractEntry("two__b", "legs/two/b", True, "", "role_default"),
    )
    assert folded.contract == Contract((REVIEW, NOTES, *folded.added))


def test_a_session_without_a_contract_gets_one() -> None:
    folded = fold_legs(None, (ONE,), DECLARED)
    assert isinstance(folded, Folded)
    assert folded.contract == Contract(folded.added)


@pytest.mark.parametrize("contract", [None, Contract(()), Contract((REVIEW,))])
def test_agents_that_declare_nothing_leave_the_contract_as_it_is(contract: Contract | None) -> None:
    assert fold_legs(contract, (Leg("one", "silent", "one"),), DECLARED) == Folded(contract, ())


def test_an_agent_that_declares_an_empty_list_makes_a_contract_that_expects_nothing() -> None:
    legs = (Leg("one", "empty", "one"),)
    assert fold_legs(None, legs, {"empty": declares()}) == Folded(Contract(()), ())


def test_a_profile_that_is_wrong_is_named_with_its_leg() -> None:
    legs = (ONE, Leg("three", "wrong", "three"))
    assert fold_legs(None, legs, DECLARED) == Unfoldable("leg three: wrong.md:2:1: it is wrong")


@pytest.mark.parametrize(
    ("contract", "legs", "why"),
    [
        (
            Contract((ContractEntry("one__review", "x", True, "", "playbook"),)),
            (ONE,),
            "'one__review' is already the id of entry 0",
        ),
        (None, (Leg("a", "bc", "a"), Leg("a__b", "c", "b")), "'a__b__c' is already the id of entry 0"),
        (None, (Leg("x" * 200, "reviewer", "x"),), "is longer than 200 characters"),
        (None, (Leg("x", "reviewer", "/".join(["y" * 200] * 5 + ["z" * 18])),), "is longer than 1024 bytes"),
        (None, tuple(Leg(f"l{n}", "many", f"l{n}") for n in range(4)), "has more than 1000 entries"),
    ],
)
def test_what_is_no_contract_is_not_folded(
    contract: Contract | None, legs: tuple[Leg, ...], why: str
) -> None:
    declared = {
        **DECLARED,
        "bc": declares(ExpectedArtifact("b__c", "x")),
        "c": declares(ExpectedArtifact("c", "x")),
        "many": declares(*(ExpectedArtifact(f"a{n}", f"{n}") for n in range(300))),
    }
    found = fold_legs(contract, legs, declared)
    assert isinstance(found, Unfoldable)
    assert why in found.why


ids = st.text(alphabet="ab_-", min_size=1, max_size=4).filter(lambda text: text.strip("_-") != "")
artifacts = st.lists(
    st.builds(ExpectedArtifact, ids, st.sampled_from(["x.md", "d/y.md"]), st.booleans(), st.text(max_size=3)),
    max_size=3,
    unique_by=lambda each: each.id,
)


@given(
    st.none()
    | artifacts.map(lambda found: Contract(tuple(ContractEntry(*each[:4], "playbook") for each in found))),
    st.lists(st.tuples(ids, st.sampled_from("pq")), max_size=4, unique_by=lambda each: each[0]),
    st.none() | artifacts,
    st.none() | artifacts,
)
def test_the_fold_is_what_a_plain_model_says(
    contract: Contract | None,
    named: list[tuple[str, str]],
    p: Sequence[ExpectedArtifact] | None,
    q: Sequence[ExpectedArtifact] | None,
) -> None:
    legs = [Leg(identifier, agent, identifier) for identifier, agent in named]
    by_agent = {"p": p, "q": q}
    declared = {
        agent: Declarations(None, None if found is None else tuple(found))
        for agent, found in by_agent.items()
    }
    rows = [
        (
            f"{identifier}__{each.id}",
            f"{identifier}/{each.path}",
            each.required,
            each.description,
            "role_default",
            None,
        )
        for identifier, agent in named
        for each in by_agent[agent] or ()
    ]
    before = [] if contract is None else [tuple(each) for each in contract.expected]
    everything = [*before, *rows]
    found = fold_legs(contract, legs, declared)
    if len({row[0] for row in everything}) < len(everything):
        assert isinstance(found, Unfoldable)
    else:
        assert isinstance(found, Folded)
        is_none = contract is None and all(by_agent[agent] is None for _, agent in named)
        assert (found.contract is None) == is_none
        if found.contract is not None:
            assert [tuple(each) for each in found.contract.expected] == everything


def test_a_plan_is_too_late_where_something_older_lies_in_a_legs_directory() -> None:
    early = EarlyLegs((("legs/two", "legs/two/a.md"), ("one", "one/b")))
    assert why_too_late((ONE, TWO), early, ()) == (
        "it came after a leg worked: in 'legs/two' lies 'legs/two/a.md', which is older"
    )


@pytest.mark.parametrize(
    ("filled", "is_late"),
    [
        ((), False),
        (("legs",), False),
        (("legs/two-more", "on"), False),
        (("legs/two",), True),
        (("drafts", "legs/two/deep/er"), True),
        (("one",), True),
    ],
)
def test_a_plan_is_too_late_where_a_leg_was_seen_at_work(filled: tuple[str, ...], is_late: bool) -> None:
    assert (why_too_late((ONE, TWO), EarlyLegs(()), filled) is not None) == is_late
