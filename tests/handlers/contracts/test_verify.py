from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handlers.examples import NOTES, NOW, REPORT, REVIEW

from runward.config.contract import Contract, ContractEntry, Source
from runward.handlers.contracts.verify import (
    Verification,
    describe,
    failure_summary,
    missing_summary,
    verification_as_json,
    verify,
)
from runward.handlers.model.files import FileFact, FileState, RootFacts

FILE, ABSENT, EMPTY = FileFact("file", 12), FileFact("absent"), FileFact("empty")
STATES: tuple[FileState, ...] = get_args(FileState)


@pytest.mark.parametrize(
    ("facts", "status", "delivery"),
    [
        ((FILE, FILE, FILE), "passed", "passed"),
        ((FILE, FILE, ABSENT), "warning", "passed"),
        ((FILE, FILE, EMPTY), "warning", "passed"),
        ((FILE, ABSENT, FILE), "failed", "partial"),
        ((ABSENT, ABSENT, FILE), "failed", "missing"),
        ((FILE, EMPTY, FILE), "failed", "invalid"),
        ((EMPTY, FileFact("outside"), FILE), "failed", "invalid"),
        ((FileFact("not_regular"), FileFact("denied"), ABSENT), "failed", "invalid"),
        # some failing and some absent, and nothing produced: that isn't partial
        ((EMPTY, ABSENT, FILE), "failed", "missing"),
    ],
)
def test_the_delivery_is_judged_over_the_required_entries(
    facts: tuple[FileFact, ...], status: str, delivery: str
) -> None:
    found = verify(Contract((REVIEW, REPORT, NOTES)), RootFacts(True, facts), NOW)
    assert (found.status, found.delivery, found.checked_at) == (status, delivery, NOW)


def test_nothing_required_is_delivered_whatever_is_missing() -> None:
    assert verify(Contract((NOTES,)), RootFacts(True, (ABSENT,)), NOW).delivery == "passed"
    assert verify(Contract(()), RootFacts(True), NOW) == Verification("passed", NOW, (), (), (), "passed")


@pytest.mark.parametrize("entries", [(REVIEW, NOTES), (NOTES,), ()])
def test_a_missing_root_fails_also_where_all_entries_are_optional(entries: tuple[ContractEntry, ...]) -> None:
    found = verify(Contract(entries), RootFacts(exists=False), NOW)
    assert (found.status, found.delivery, found.produced) == ("failed", "missing", ())
    assert found.missing_required == tuple(entry for entry in entries if entry.required)
    assert found.missing_optional == tuple(entry for entry in entries if not entry.required)


def test_the_object_is_the_one_that_the_seed_writes() -> None:
    found = verify(Contract((REVIEW, REPORT, NOTES)), RootFacts(True, (FILE, ABSENT, EMPTY)), NOW)
    assert verification_as_json(found) == {
        "status": "failed",
        "checked_at": NOW,
        "missing_required": [
            {
                "id": "report",
                "path": "sub/report.md",
                "required": True,
                "description": "",
                "source": "agent_profile",
            }
        ],
        "missing_optional": [
            {"id": "notes", "path": "notes.md", "required": False, "description": "", "source": "playbook"}
        ],
        "produced": [{"id": "review", "path": "review.md", "size": 12}],
    }


def judged(entries: tuple[ContractEntry, ...], *states: FileState, exists: bool = True) -> Verification:
    return verify(Contract(entries), RootFacts(exists, tuple(FileFact(state) for state in states)), 1.0)


def test_the_summary_after_a_run_names_each_missing_artifact_who_declared_it_and_where_it_was_looked_for() -> (
    None
):
    assert failure_summary(judged((REVIEW, REPORT), "absent", "absent"), "/run/artifacts", "alpha") == (
        "Run failed: missing required artifacts.\n"
        "  review (review.md) — playbook\n"
        "  report (sub/report.md) — agent_profile\n"
        "Searched /run/artifacts.\n"
        "\n"
        "Run completed cleanly otherwise. Inspect with:\n"
        "  runward session show alpha"
    )


def test_a_file_that_is_there_and_does_not_count_is_not_called_missing() -> None:
    found = judged((REVIEW, REPORT), "empty", "absent")
    assert failure_summary(found, "/a", "alpha").splitlines()[:4] == [
        "Run failed: required artifacts were not delivered.",
        "  review (review.md): empty — playbook",
        "  report (sub/report.md) — agent_profile",
        "Searched /a.",
    ]
    assert missing_summary(found) == (
        "required artifacts were not delivered: review (review.md): empty, report (sub/report.md)"
    )


def test_the_summary_says_so_where_it_is_the_directory_that_is_missing() -> None:
    optional = REVIEW._replace(required=False)
    assert failure_summary(judged((optional,), exists=False), "/a", "alpha") == (
        "Run failed: the artifacts' directory is missing.\n"
        "Searched /a, which does not exist.\n"
        "\n"
        "Run completed cleanly otherwise. Inspect with:\n"
        "  runward session show alpha"
    )


def test_the_summary_is_safe_for_a_terminal_whatever_a_path_is_called() -> None:
    found = judged((ContractEntry("a", "new\nline\x1b[31m", True, "", "role_default"),), "absent")
    summary = failure_summary(found, "/a\x07", "s\x07")
    assert r"  a (new\nline\x1b[31m) — role_default" in summary.splitlines()
    assert r"Searched /a\x07." in summary.splitlines()
    assert summary.endswith(r"runward session show s\x07")


def test_a_reason_names_five_of_many_missing_artifacts() -> None:
    many = tuple(ContractEntry(f"a{number}", f"{number}.md", True, "", "playbook") for number in range(7))
    assert missing_summary(judged(many, *[ABSENT.state] * 7)).endswith("a4 (4.md) and 2 more")
    assert "more" not in missing_summary(judged(many[:5], *[ABSENT.state] * 5))


def test_every_state_of_a_file_has_its_own_words() -> None:
    words = {state: describe(FileFact(state)) for state in STATES}
    assert len(set(words.values())) == len(STATES)


# --- against a plain model: what ADR-0029 says, entry by entry, with none of our code


@dataclass(frozen=True)
class Case:
    contract: Contract
    facts: RootFacts


slots = st.tuples(
    st.sampled_from(["review.md", "sub/report.md", "a/b/c"]),
    st.booleans(),
    st.sampled_from(["playbook", "agent_profile", "role_default"]),
    st.sampled_from(STATES),
    st.integers(1, 2**50),
)


def case_of(root_exists: bool, found: list[tuple[str, bool, Source, FileState, int]]) -> Case:
    """A contract with an entry for each of `found`, and the facts that answer it."""
    expected = [
        ContractEntry(f"id-{number}", path, required, "", source)
        for number, (path, required, source, _, _) in enumerate(found)
    ]
    files = [FileFact(state, size if state == "file" else 0) for _, _, _, state, size in found]
    return Case(Contract(tuple(expected)), RootFacts(True, tuple(files)) if root_exists else RootFacts(False))


cases = st.builds(case_of, st.integers(0, 9).map(bool), st.lists(slots, max_size=8))


def expected_delivery(required_states: Sequence[str]) -> str:
    produced = [state for state in required_states if state in ("file", "excused")]
    absent = [state for state in required_states if state == "absent"]
    if len(produced) == len(required_states):
        return "passed"
    if not absent:
        return "invalid"
    return "partial" if produced else "missing"


def check(case: Case) -> None:
    found = verify(case.contract, case.facts, NOW)
    states = (
        ["absent"] * len(case.contract.expected)
        if not case.facts.exists
        else [f.state for f in case.facts.files]
    )
    pairs = list(zip(case.contract.expected, states, strict=True))
    lacking = [entry for entry, state in pairs if state not in ("file", "excused")]
    required_lacking = [entry for entry in lacking if entry.required]
    if not case.facts.exists or required_lacking:
        status = "failed"
    elif lacking:
        status = "warning"
    else:
        status = "passed"
    assert found.status == status
    assert list(found.missing_required) == required_lacking
    assert list(found.missing_optional) == [entry for entry in lacking if not entry.required]
    sizes = {
        entry.id: fact.size for entry, fact in zip(case.contract.expected, case.facts.files, strict=False)
    }
    assert [(each.id, each.path, each.size) for each in found.produced] == [
        (entry.id, entry.path, sizes[entry.id]) for entry, state in pairs if state == "file"
    ]
    if not case.facts.exists:
        assert found.delivery == "missing"
    else:
        assert found.delivery == expected_delivery([state for entry, state in pairs if entry.required])


@given(cases)
def test_verification_agrees_with_a_plain_model(case: Case) -> None:
    check(case)


@pytest.mark.sweep
@pytest.mark.timeout(600)
@settings(max_examples=10_000)
@given(cases)
def test_verification_agrees_with_a_plain_model_in_ten_thousand_cases(case: Case) -> None:
    check(case)
