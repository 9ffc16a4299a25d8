"""Files of runs, read as outcomes: JSON, JUnit's XML and SARIF, right ones and hostile ones."""

import json

import pytest

from runward.handlers.model.outcomes import OutcomeFile, ReadOutcome
from runward.handlers.outcomes.reading import InvalidOutcome, read_outcome

JUNIT = """<?xml version="1.0"?>
<testsuites>
 <testsuite name="a">
  <testcase classname="a.T" name="one" time="0.5"/>
  <testcase classname="a.T" name="two" time="1,000.25" file="a/t.py" line="12"><failure message="no">trace</failure></testcase>
  <testcase name="three" time="nan"><skipped/></testcase>
  <testcase name="four" time="x"><error>it broke</error></testcase>
 </testsuite>
</testsuites>
"""
SARIF = {
    "version": "2.1.0",
    "runs": [
        {
            "tool": {"driver": {"name": "ruff"}},
            "results": [
                {
                    "ruleId": "E1",
                    "level": "error",
                    "message": {"text": "unused"},
                    "locations": [
                        {"physicalLocation": {"artifactLocation": {"uri": "a/b.py"}, "region": {"startLine": 3}}}
                    ],
                },
                {"ruleId": "W1", "message": {"text": "long"}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": "file:///etc"}}}]},
                "nonsense",
            ],
        }
    ],
}  # fmt: skip


def outcome(
    path: str, content: str | bytes, kind: str | None = None, wanted: tuple[str, ...] = ()
) -> ReadOutcome:
    file = OutcomeFile(path, content.encode() if isinstance(content, str) else content)
    found = read_outcome(file, kind, wanted=wanted)
    assert isinstance(found, ReadOutcome), found
    return found


def test_a_junit_report_is_a_test_result() -> None:
    found = outcome("outcomes/unit.xml", JUNIT)
    value = found.outcome.value
    assert (found.name, found.outcome.kind, found.outcome.passed) == ("unit", "test_result", False)
    assert (value["test_count"], value["failed_count"], value["skipped_count"]) == (4, 2, 1)
    assert value["duration_s"] == 1000.75
    assert value["failures"] == [
        {"name": "a.T.two", "message": "no", "file": "a/t.py", "line": 12},
        {"name": "four", "message": "it broke"},
    ]
    empty = outcome("outcomes/e.xml", "<testsuite/>").outcome
    assert empty.passed is None


def test_a_sarif_log_is_a_lint_result() -> None:
    found = outcome("outcomes/lint.sarif", json.dumps(SARIF)).outcome
    assert (found.kind, found.passed, found.value["tool"]) == ("lint_result", False, "ruff")
    assert (found.value["errors"], found.value["warnings"]) == (1, 1)
    assert found.value["findings"] == [
        {"severity": "high", "category": "E1", "description": "unused", "file": "a/b.py", "line": 3},
        {"severity": "medium", "category": "W1", "description": "long"},
    ]


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("ci_result.xml", None, ()),
        ("a.xml", "ci_result", ()),
        ("a.xml", None, ("ci_result", "review_verdict")),
    ],
)
def test_a_junit_report_is_a_ci_result_if_that_is_asked_for(
    name: str, kind: str | None, wanted: tuple[str, ...]
) -> None:
    found = outcome(f"outcomes/{name}", JUNIT, kind, wanted).outcome
    assert (found.kind, found.passed, found.value["tests_passed"]) == ("ci_result", False, False)
    assert (found.value["test_count"], found.value["failure_summary"]) == (4, "a.T.two and 1 more")
    assert found.value["checks"] == [{"name": "tests", "passed": False, "count": 1, "total": 4}]


@pytest.mark.parametrize(
    ("levels", "verdict", "passed"),
    [
        (("error", "warning"), "REQUEST_CHANGES", False),
        (("warning",), "APPROVE_WITH_SUGGESTIONS", True),
        (("note",), "APPROVE", True),
    ],
)
def test_a_sarif_log_is_a_review_verdict_if_that_is_asked_for(
    levels: tuple[str, ...], verdict: str, passed: bool
) -> None:
    log = json.dumps({"runs": [{"results": [{"level": level} for level in levels]}]})
    named = outcome("outcomes/review_verdict.sarif", log).outcome
    assert named == outcome("outcomes/a.sarif", log, wanted=("review_verdict",)).outcome
    assert (named.kind, named.value["verdict"], named.passed) == ("review_verdict", verdict, passed)
    assert len(named.value["findings"]) == len(levels)  # type: ignore[arg-type] # a list


def test_a_report_stays_what_it_usually_is_if_both_kinds_are_asked_for() -> None:
    both = outcome("outcomes/a.xml", JUNIT, wanted=("ci_result", "test_result"))
    assert both.outcome.kind == "test_result"


def test_an_outcome_goes_by_its_own_name_or_its_files() -> None:
    text = '{"outcome_kind": "ci_result", "summary": "s"%s}'
    assert outcome("outcome.json", text % "").name == "outcome"
    assert outcome("outcomes/a.b.json", text % ', "name": "nightly"').name == "nightly"


BOMB = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><testsuite>&b;</testsuite>'


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        ("outcome.json", b'{"outcome_kind": "review_verdict", "summary": "s"}', "verdict: is missing"),
        ("outcome.json", b"{", "is not JSON"),
        ("outcome.json", b"\xff", "is not JSON"),
        ("outcome.json", b"[1]", "is not a JSON object"),
        ("outcome.json", b'{"outcome_kind": "ci_result", "summary": NaN}', "is not JSON"),
        ("outcome.json", b'{"a":' * 20_000, "is not JSON"),
        ("outcome.json", None, "is larger than an outcome may be"),
        ("outcomes/a.xml", BOMB.encode(), "is not a JUnit report"),
        ("outcomes/a.xml", b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>', "is not a JUnit report"),
        ("outcomes/a.xml", b"<html/>", "its first element is 'html'"),
        ("outcomes/a.xml", b"<a>" * 50_000, "is not a JUnit report"),
        ("outcomes/a.xml", b"\x00", "is not a JUnit report"),
        ("outcomes/a.sarif", b"[]", "is not a SARIF log"),
        ("outcomes/a.sarif", b'{"runs": 7}', "is not a SARIF log"),
    ],
)  # fmt: skip
def test_what_holds_no_right_outcome_says_why(path: str, content: bytes | None, problem: str) -> None:
    found = read_outcome(OutcomeFile(path, content))
    assert isinstance(found, InvalidOutcome), found
    assert any(problem in each.said() for each in found.problems), found
