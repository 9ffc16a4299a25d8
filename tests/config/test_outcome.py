"""Typed outcomes: which are right, what is wrong with the others, and what is kept."""

from importlib.metadata import EntryPoint
from unittest.mock import patch

import pytest

from runward.config import outcome
from runward.config.json_value import JsonValue
from runward.config.outcome import KINDS, CheckedOutcome, Outcome, check_outcome, kinds

FINDING: dict[str, JsonValue] = {"severity": "high", "category": "bug", "description": "it loops"}
LEAST: dict[str, dict[str, JsonValue]] = {
    "review_verdict": {"verdict": "APPROVE"},
    "gate_verdict": {"gate_passed": True},
}


def right(value: dict[str, JsonValue]) -> CheckedOutcome:
    found = check_outcome(value)
    assert isinstance(found, CheckedOutcome), found
    return found


def problems(value: JsonValue, kind: str | None = None) -> list[str]:
    found = check_outcome(value, kind)
    assert not isinstance(found, CheckedOutcome), found
    return [f"{each.field}: {each.message}" for each in found]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_needs_a_summary_and_little_else(kind: str) -> None:
    least: dict[str, JsonValue] = {"outcome_kind": kind, **LEAST.get(kind, {})}
    assert "summary: is missing" in problems(least)
    found = right({**least, "summary": "fine", "note": [1], "passed": None})
    assert (found.kind, found.summary, found.is_known) == (kind, "fine", True)
    assert found.value["note"] == [1]


def test_an_outcome_has_the_defaults_of_its_kind() -> None:
    least: dict[str, JsonValue] = {"outcome_kind": "review_verdict", "summary": "fine", "verdict": "APPROVE"}
    assert right(least).value == {**least, "passed": None, "findings": [], "round": 1}
    given: dict[str, JsonValue] = {"passed": False, "findings": [FINDING], "round": 3}
    assert right({**least, **given}).value == {**least, **given}
    ci = right({"outcome_kind": "ci_result", "summary": "green"}).value
    assert (ci["checks"], ci["passed"], "lint_passed" in ci) == ([], None, False)
    unknown: dict[str, JsonValue] = {"outcome_kind": "weather", "summary": "rain"}
    assert right(unknown).value == unknown


@pytest.mark.parametrize("word", ["REQUEST_CHANGES", "request changes", "Request-Changes"])
def test_the_words_of_a_verdict_may_be_written_with_spaces_and_dashes(word: str) -> None:
    found = right({"outcome_kind": "review_verdict", "summary": "no", "verdict": word, "passed": True})
    assert (found.value["verdict"], found.passed) == ("REQUEST_CHANGES", True)


def test_a_gate_that_passed_has_passed() -> None:
    value: dict[str, JsonValue] = {"outcome_kind": "gate_verdict", "summary": "s", "gate_passed": False}
    assert right(value).passed is False
    assert right(value).value["passed"] is False
    assert problems({**value, "passed": True}) == [": passed contradicts gate_passed"]
    assert right({**value, "passed": False}).passed is False


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"verdict": "MAYBE"}, "verdict: Input should be 'APPROVE'"),
        ({"summary": 7}, "summary: Input should be a valid string"),
        ({"passed": "yes"}, "passed: Input should be a valid boolean"),
        ({"round": 0}, "round: Input should be greater than or equal to 1"),
        ({"findings": {}}, "findings: Input should be a valid list"),
        ({"findings": [FINDING, {**FINDING, "severity": "grave"}]}, "findings[1].severity: Input should be 'critical'"),
        ({"findings": [{**FINDING, "file": "/etc/passwd"}]}, "findings[0].file: is not a relative path inside"),
        ({"findings": [{**FINDING, "file": "a/../../b"}]}, "findings[0].file: is not a relative path inside"),
        ({"findings": [{**FINDING, "line": 0}]}, "findings[0].line: Input should be greater than or equal to 1"),
        ({"findings": [{"severity": "low"}]}, "findings[0].category: is missing"),
        ({"outcome_kind": "A B"}, "outcome_kind: must be a name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_of_each_field(changed: dict[str, JsonValue], problem: str) -> None:
    found = problems({"outcome_kind": "review_verdict", "summary": "s", "verdict": "APPROVE", **changed})
    assert any(each.startswith(problem) for each in found), found


def test_counts_begin_at_zero_and_are_finite() -> None:
    value: dict[str, JsonValue] = {"outcome_kind": "test_result", "summary": "s"}
    assert problems({**value, "test_count": -1}) != []
    assert problems({**value, "duration_s": float("nan")}) != []
    assert problems({**value, "test_count": True}) != []
    assert right({**value, "test_count": 0, "duration_s": 1}).is_known


def test_a_kind_that_nobody_knows_is_kept_as_it_is() -> None:
    found = right({"outcome_kind": "own_thing", "summary": "s", "any": {"deep": [1]}})
    assert (found.is_known, found.value["any"]) == (False, {"deep": [1]})
    assert problems({"outcome_kind": "own_thing"}) == ["summary: is missing"]


def test_a_kind_may_be_given_in_place_of_the_field() -> None:
    assert isinstance(check_outcome({"summary": "s"}, "lint_result"), CheckedOutcome)
    assert problems({"summary": "s", "outcome_kind": "ci_result"}, "lint_result") == [
        "outcome_kind: is ci_result, not lint_result"
    ]
    assert problems([1]) == [": is not a JSON object"]


class OwnThing(Outcome):
    weight: int


def test_others_add_kinds_by_an_entry_point_and_take_none_of_ours() -> None:
    mine = EntryPoint("own_thing", f"{__name__}:OwnThing", outcome.ENTRY_POINT)
    broken = EntryPoint("broken", "no.such.module:X", outcome.ENTRY_POINT)
    ours = EntryPoint("ci_result", f"{__name__}:OwnThing", outcome.ENTRY_POINT)
    kinds.cache_clear()
    try:
        with (
            patch.object(outcome, "entry_points", lambda group: (mine, broken, ours)),
            patch.object(EntryPoint, "load", lambda self: OwnThing if self.name != "broken" else 1 / 0),
        ):
            assert problems({"outcome_kind": "own_thing", "summary": "s"}) == ["weight: is missing"]
            assert kinds()["ci_result"] is KINDS["ci_result"]
            assert "broken" not in kinds()
    finally:
        kinds.cache_clear()
