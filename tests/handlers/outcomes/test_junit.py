"""JUnit reports: what failed, what ran, and what proves nothing."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.config.outcome import CheckedOutcome, check_outcome
from runward.handlers.outcomes import junit
from runward.handlers.outcomes.findings import LARGEST_OUTCOME, MOST_FINDINGS, NotAReport
from runward.handlers.outcomes.junit import outcomes_of_junit

Json: TypeAlias = Any
"""What a test reads as JSON."""


def outcome_of(report: str | bytes, kind: str = "test_result", piece: int = 1 << 20) -> Json:
    """The outcome of a report, read in pieces of this size."""
    content = report.encode() if isinstance(report, str) else report
    outcome = outcomes_of_junit(lambda: (content[at : at + piece] for at in range(0, len(content), piece)))[
        kind
    ]
    checked = check_outcome(outcome)
    assert isinstance(checked, CheckedOutcome), checked
    return checked.value


CASE = '<testcase name="x"/>'


@pytest.mark.parametrize(
    "report",
    [
        f'<testsuites><testsuite>{CASE}</testsuite><testsuite errors="1"><error/></testsuite></testsuites>',
        f'<testsuites errors="1" tests="2"><testsuite tests="2">{CASE}{CASE}</testsuite></testsuites>',
        f'<testsuite failures="1">{CASE}</testsuite>',
        f'<testsuite errors=" 2.0 ">{CASE}</testsuite>',
        f'<testsuites><testsuite><testsuite failures="1">{CASE}</testsuite></testsuite></testsuites>',
        '<testsuite><testcase name="x" status="failed"/><testcase name="y" status="passed"/></testsuite>',
        '<testsuite><testcase name="x" result="Timed Out"/></testsuite>',
        '<testsuite><testcase name="x" status="REGRESSION"/></testsuite>',
        f'<testsuite status="error">{CASE}</testsuite>',
        f"<testsuite><failure/>{CASE}</testsuite>",
        f"<testsuite>{CASE}<errors><error/></errors></testsuite>",
        '<testsuite><testcase name="x"><skipped/><failure/></testcase></testsuite>',
        '<testsuites xmlns="http://junit.org/x"><testsuite><testcase><failure/></testcase></testsuite></testsuites>',
        '<j:testsuite xmlns:j="x"><j:testcase name="x"><j:error/></j:testcase></j:testsuite>',
        '<testsuite failures="1"><testcase name="x" status="skipped"/></testsuite>',
    ],
)
def test_whatever_says_that_something_failed_is_believed(report: str) -> None:
    outcome = outcome_of(report)
    assert outcome["passed"] is False
    assert outcome["failed_count"] >= 1
    assert outcome["failure_summary"]
    ci = outcome_of(report, "ci_result")
    assert (ci["passed"], ci["tests_passed"], ci["checks"][0]["passed"]) == (False, False, False)


@pytest.mark.parametrize(
    "report",
    [
        "<testsuites/>",
        '<testsuite tests="10"/>',
        "<testsuite><testcase><skipped/></testcase></testsuite>",
        '<testsuite><testcase name="x" status="notrun" result="suppressed"/></testsuite>',
        '<testsuite><testcase name="x" status="Not Executed"/></testsuite>',
        f'<testsuite tests="2" skipped="2">{CASE}{CASE}</testsuite>',
        f'<testsuites tests="1" disabled="1"><testsuite>{CASE}</testsuite></testsuites>',
        '<testsuite><testcase name="x" status="purple"/><testcase name="y"/></testsuite>',
        '<testsuite><testcase name="x" status="失败"/></testsuite>',
        '<testsuite><testcase name="x" result="ошибка"/></testsuite>',
        '<testsuite><testcase name="x" status="!"/></testsuite>',
    ],
)
def test_a_report_of_tests_that_did_not_run_passes_nothing(report: str) -> None:
    outcome = outcome_of(report)
    assert (outcome["passed"], outcome["failed_count"]) == (None, 0)
    assert "; " in outcome["summary"]
    assert outcome_of(report, "ci_result")["tests_passed"] is None


@pytest.mark.parametrize(
    "report",
    [
        f"<testsuite>{CASE}</testsuite>",
        f'<testsuite failures="" errors="0" skipped="0">{CASE}</testsuite>',
        f'<testsuite skipped="1">{CASE}<testcase><skipped/></testcase></testsuite>',
        f'<testsuite>{CASE}<testcase name="x" status="notrun"/></testsuite>',
        '<testsuite><testcase name="x" status="run" result="completed"/></testsuite>',
        '<testsuite><testcase name="x"><flakyFailure/><system-err>no error</system-err></testcase></testsuite>',
        f'<?xml version="1.0"?><!DOCTYPE testsuites><testsuites><testsuite>{CASE}</testsuite></testsuites>',
        f"\ufeff<testsuite>{CASE}</testsuite>",
        f'<testsuite tests="40">{CASE}</testsuite>',
    ],
)
def test_tests_that_ran_without_a_failure_passed(report: str) -> None:
    assert outcome_of(report)["passed"] is True
    assert outcome_of(report, "ci_result")["passed"] is True


def test_the_counts_and_failures_are_those_of_the_cases_and_suites() -> None:
    outcome = outcome_of(
        '<testsuites><testsuite name="s" failures="3"><error message="no import"/>'
        '<testcase classname="c" name="a" file="t.py" line="7"><failure>\n trace\n</failure><error/></testcase>'
        '<testcase name="b"><skipped/></testcase></testsuite></testsuites>'
    )
    assert (outcome["test_count"], outcome["failed_count"], outcome["skipped_count"]) == (2, 3, 1)
    assert outcome["failures"] == [
        {"name": "s", "message": "no import"},
        {"name": "c.a", "message": "trace", "file": "t.py", "line": 7},
    ]
    assert outcome["failure_summary"] == "s and 2 more"
    assert (
        outcome["summary"] == "2 tests, 3 failed, 1 skipped; the suites count 1 failures that no test shows"
    )


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (["0,123", "1,234.5"], 1234.623),
        (["0.5", "1e-1"], 0.6),
        (["1,234"], None),
        (["12,5"], 12.5),
        (["nan", "x", "-1", "inf", ""], None),
        (["2", "x"], 2.0),
        (["1e308", "1e308"], None),
        ([], None),
    ],
)
def test_a_time_is_read_only_if_it_is_clear(times: list[str], seconds: float | None) -> None:
    cases = "".join(f'<testcase time="{each}"/>' for each in times)
    assert outcome_of(f"<testsuite>{cases}</testsuite>")["duration_s"] == pytest.approx(seconds)


def test_a_thousand_failures_are_kept_and_the_outcome_stays_small() -> None:
    wordy = f'<testcase name="{"n" * 90}" file="{"d/" * 40}"><failure message="{"ü" * 600}"/></testcase>'
    outcome = outcome_of(f"<testsuite>{wordy * 1200}</testsuite>")
    assert outcome["failed_count"] == 1200
    assert 700 < len(outcome["failures"]) <= MOST_FINDINGS
    assert f"{len(outcome['failures']):,} of 1,200 failures are kept" in outcome["summary"]
    assert len(repr(outcome).encode()) <= LARGEST_OUTCOME


MANY = " ".join(f'a{number}=""' for number in range(1001))
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><testsuite>&b;</testsuite>'


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (BOMB, "it declares entities, which are never read"),
        ('<!DOCTYPE x [<!ENTITY % a SYSTEM "file:///etc/passwd">]><testsuite/>', "it declares entities"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>', "its document type is in another file"),
        ("<html/>", "its first element is 'html'"),
        ("<testsuite>" * 80, "it is nested more than 64 levels deep"),
        (f"<testsuite {MANY}/>", "more than 1000 attributes"),
        ('<testsuite failures="x"/>', "the number of failures of a suite is 'x'"),
        ('<testsuite errors="-1"/>', "the number of errors of a suite is '-1'"),
        ("<testsuite>", "is not a JUnit report: "),
        ("", "is not a JUnit report: "),
        ("\0", "is not a JUnit report: "),
        ("<testsuite>&nbsp;</testsuite>", "is not a JUnit report: "),
        ('<?xml version="1.0" encoding="klingon"?><testsuite/>', "is not a JUnit report: "),
        ('<?xml version="1.0" encoding="utf-32"?><testsuite/>', "is not a JUnit report: "),
    ],
)
def test_what_is_no_report_says_why(report: str, problem: str) -> None:
    with pytest.raises(NotAReport) as raised:
        outcome_of(report)
    assert str(raised.value).startswith("is not a JUnit report: ")
    assert problem in str(raised.value)


def test_endless_tags_and_elements_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit, "LARGEST_TAG", 5000)
    for report in ("<testsuite " + "a" * 9000, f"<testsuite><!--{'a' * 9000}"):
        with pytest.raises(NotAReport, match="a tag or a comment in it has more than"):
            outcome_of(report, piece=100)
    assert outcome_of(f"<testsuite>{CASE}<system-out>{'a' * 9000}</system-out></testsuite>", piece=100)[
        "passed"
    ]
    monkeypatch.setattr(junit, "MOST_ELEMENTS", 100)
    with pytest.raises(NotAReport, match="elements"):
        outcome_of(f"<testsuite>{CASE * 100}</testsuite>")


def test_reports_in_other_encodings_are_read() -> None:
    report = (
        '<?xml version="1.0" encoding="{}"?><testsuite><testcase name="ü"><failure/></testcase></testsuite>'
    )
    for encoding in ("iso-8859-1", "windows-1252", "utf-16"):
        assert outcome_of(report.format(encoding).encode(encoding))["failures"][0]["name"] == "ü"


# Random reports, against a plain count of the tree that they are written from.


class Case(NamedTuple):
    problem: str
    status: str | None
    result: str | None


class Suite(NamedTuple):
    cases: list[Case]
    suites: list["Suite"]
    counts: dict[str, int]
    has_error: bool


FAILING, LEFT_OUT, FINE, ODD = ["failed", "ERROR"], ["skipped", "not-run"], ["run", "passed"], ["purple"]
WORDS = st.sampled_from([*[None] * 4, *FAILING, *LEFT_OUT, *FINE, *ODD])
CASES = st.builds(Case, st.sampled_from([*[""] * 5, "failure", "error", "skipped"]), WORDS, WORDS)
COUNTS = st.dictionaries(
    st.sampled_from(["tests", "failures", "errors", "skipped", "disabled"]),
    st.sampled_from([0, 0, 0, 1, 4]),
    max_size=3,
)
SUITES = st.recursive(
    st.builds(Suite, st.lists(CASES, max_size=4), st.just([]), COUNTS, st.sampled_from([False] * 5 + [True])),
    lambda inner: st.builds(
        Suite,
        st.lists(CASES, max_size=3),
        st.lists(inner, max_size=3),
        COUNTS,
        st.sampled_from([False] * 5 + [True]),
    ),
    max_leaves=4,
)


def written(suite: Suite, chance: random.Random, prefix: str) -> str:
    counts = "".join(f' {key}="{value}"' for key, value in suite.counts.items())
    inner = [written(each, chance, prefix) for each in suite.suites]
    inner += ["<error message='e'/>".replace("<", f"<{prefix}")] if suite.has_error else []
    for case in suite.cases:
        words = "".join(
            f" {key}={quoteattr(word)}"
            for key, word in (("status", case.status), ("result", case.result))
            if word
        )
        problem = f"<{prefix}{case.problem}>why</{prefix}{case.problem}>" if case.problem else ""
        inner.append(f'<{prefix}testcase name="c"{words}>{problem}</{prefix}testcase>')
    chance.shuffle(inner)
    return f"<{prefix}testsuite{counts}>{''.join(inner)}</{prefix}testsuite>"


def below(suite: Suite) -> Iterator[Case]:
    yield from suite.cases
    for each in suite.suites:
        yield from below(each)


def is_failing(case: Case) -> bool:
    return case.problem in ("failure", "error") or bool({case.status, case.result} & set(FAILING))


def is_left_out(case: Case) -> bool:
    return not is_failing(case) and (
        case.problem == "skipped" or bool({case.status, case.result} & set(LEFT_OUT))
    )


def failures_in(suite: Suite) -> int:
    shown = sum(map(is_failing, suite.cases)) + suite.has_error + sum(map(failures_in, suite.suites))
    return max(shown, suite.counts.get("failures", 0) + suite.counts.get("errors", 0))


def left_out_in(suite: Suite) -> int:
    shown = sum(map(is_left_out, suite.cases)) + sum(map(left_out_in, suite.suites))
    return max(shown, suite.counts.get("skipped", 0) + suite.counts.get("disabled", 0))


def expected(suites: list[Suite]) -> tuple[int, bool | None]:
    """How many tests failed, and what `passed` must be."""
    cases = [case for suite in suites for case in below(suite)]
    failed, left_out = sum(map(failures_in, suites)), sum(map(left_out_in, suites))
    is_odd = any(
        {each.status, each.result} & set(ODD) and not is_failing(each) and not is_left_out(each)
        for each in cases
    )
    if failed:
        return failed, False
    return failed, None if left_out >= len(cases) or is_odd else True


def reads_as_the_plain_model(suites: list[Suite], number: int) -> None:
    chance = random.Random(number)
    prefix, attribute = chance.choice([("", ""), ("", ' xmlns="x"'), ("j:", ' xmlns:j="x"')])
    text = "".join(written(each, chance, prefix) for each in suites)
    report = f"<{prefix}testsuites{attribute}>{text}</{prefix}testsuites>".encode()
    outcome = outcome_of(report, piece=chance.randint(1, 200))
    assert (outcome["failed_count"], outcome["passed"]) == expected(suites)
    damaged = bytearray(report)
    at = chance.randrange(len(damaged))
    damaged[at : at + chance.randint(1, 9)] = chance.randbytes(chance.randint(0, 2))
    try:
        outcome_of(bytes(damaged))
    except NotAReport:
        return


@given(st.lists(SUITES, max_size=3), st.integers(0, 10_000))
@settings(max_examples=25)
def test_random_reports_are_read_as_a_plain_model_reads_them(suites: list[Suite], number: int) -> None:
    reads_as_the_plain_model(suites, number)


@pytest.mark.prove
@given(st.lists(SUITES, max_size=3), st.integers(0, 10_000))
@settings(max_examples=500)
def test_five_hundred_random_reports_are_read_as_a_plain_model_reads_them(
    suites: list[Suite], number: int
) -> None:
    reads_as_the_plain_model(suites, number)
