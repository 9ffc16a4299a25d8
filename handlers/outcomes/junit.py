"""JUnit's XML reports of tests, as a `test_result` and as a `ci_result`.

The report is read as a stream. Its suites may count failures that no case of theirs shows, so of the two numbers the
larger one holds.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.sax import SAXException
from xml.sax.handler import ContentHandler, LexicalHandler, property_lexical_handler
from xml.sax.xmlreader import AttributesImpl

from defusedxml import DefusedXmlException  # type: ignore[import-untyped]
from defusedxml.expatreader import DefusedExpatParser  # type: ignore[import-untyped]

from runward.config.json_value import JsonValue
from runward.handlers.outcomes.findings import (
    DEEPEST,
    LONGEST_TEXT,
    MOST_FINDINGS,
    Gaps,
    NotAReport,
    Pieces,
    fitting,
)

USUAL: Final = "test_result"
OTHER: Final = "ci_result"

MOST_ELEMENTS: Final = 4 << 20
MOST_ATTRIBUTES: Final = 1000
"""Attributes of one element."""
LARGEST_TAG: Final = 8 << 20
"""Bytes of a tag or a comment: the parser holds each of them whole."""

_LONGEST_PATH: Final = 1000

_FAILED: Final = frozenset(
    {
        "failed", "failure", "fail", "error", "errors", "errored", "broken", "crash", "crashed", "timeout", "timedout",
        "aborted", "killed", "regression", "unexpectedsuccess", "unexpectedpass", "xpassstrict", "ambiguous", "undefined",
    }
)  # fmt: skip
_NOT_RUN: Final = frozenset(
    {
        "skipped", "skip", "notrun", "notexecuted", "ignored", "ignore", "disabled", "suppressed", "pending", "blocked",
        "inconclusive", "excluded", "filtered", "todo", "cancelled", "canceled", "none", "unknown",
    }
)  # fmt: skip
_RAN: Final = frozenset(
    {
        "", "run", "ran", "passed", "pass", "ok", "success", "successful", "succeeded", "completed", "complete", "executed",
        "fixed", "finished", "done", "expected", "flaky", "xfail", "xfailed", "expectedfailure", "xpass", "xpassed",
        "warning", "0",
    }
)  # fmt: skip
"""Words of `status` and `result`, in small letters and without anything else. A test with another word proves nothing."""


def outcomes_of_junit(pieces: Pieces) -> Mapping[str, dict[str, JsonValue]]:
    """The outcome of each kind that the report can become. Raises `NotAReport`. Declared entities are refused."""
    reading = _Reading()
    parser = DefusedExpatParser()
    parser.setContentHandler(reading)
    parser.setProperty(property_lexical_handler, _Marks(reading))
    idle = 0
    try:
        for piece in pieces():
            before = reading.events
            parser.feed(piece)
            # The parser holds a tag until it is whole. So bytes that give no event are counted: a hostile tag must not
            # take all memory.
            idle = idle + len(piece) if reading.events == before else 0
            if idle > LARGEST_TAG:
                _refuse(f"a tag or a comment in it has more than {LARGEST_TAG >> 20} MiB")
        parser.close()
    except DefusedXmlException:
        _refuse("it declares entities, which are never read")
    except SAXException as error:
        _refuse(error.getMessage()[:200])
    except (ValueError, LookupError) as error:
        _refuse(str(error)[:200])
    if not reading.events:
        _refuse("it is empty")
    return _outcomes(reading)


def _refuse(why: str) -> NoReturn:
    raise NotAReport(f"is not a JUnit report: {why}")


@dataclass(slots=True)
class _Tally:
    """What the cases below a suite show, and where their suites count more, what these count."""

    cases: int = 0
    failed: int = 0
    not_run: int = 0

    def add(self, cases: int, failed: int, not_run: int) -> None:
        self.cases, self.failed, self.not_run = (
            self.cases + cases,
            self.failed + failed,
            self.not_run + not_run,
        )


@dataclass(slots=True)
class _Suite:
    attributes: Mapping[str, str]
    tally: _Tally = field(default_factory=_Tally)

    def counted(self) -> _Tally:
        """The tally, or what the suite's attributes say if that is more."""
        count = self._count
        # A suite may count failures that no case of its own shows. Of the two numbers the larger one holds.
        return _Tally(
            max(self.tally.cases, count("tests")),
            max(self.tally.failed, count("failures") + count("errors")),
            max(self.tally.not_run, count("skipped") + count("disabled")),
        )

    def _count(self, name: str) -> int:
        written = self.attributes.get(name, "").strip()
        if not written:
            return 0
        if not re.fullmatch(r"\+?[0-9]{1,9}(\.0+)?", written, re.ASCII):
            _refuse(f"the number of {name} of a suite is {written[:40]!r}")
        return int(float(written))


@dataclass(slots=True)
class _Case:
    attributes: Mapping[str, str]
    problem: "_Problem | None" = None
    is_skipped: bool = False


@dataclass(slots=True)
class _Problem:
    """A failure or an error, with its message; without one its text counts, of which `text` is the beginning."""

    message: str
    text: str = ""

    def said(self) -> str:
        return (self.message or self.text.strip())[:LONGEST_TEXT]


class _Reading(ContentHandler):
    """The report as far as it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.events = 0
        self.cases = self.unknown = self.failed_here = 0
        self.seconds: float | None = None
        self.failures: list[dict[str, JsonValue]] = []
        """The first failures that cases or suites show."""
        self.whole = _Tally()
        self._elements = 0
        self._open: list[str] = []
        self._suites: list[_Suite] = []
        self._case: _Case | None = None
        self._problem: _Problem | None = None
        """The failure or error whose text comes next."""

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        self.events += 1
        self._elements += 1
        kind = name.rpartition(":")[2]
        if not self._open and kind not in ("testsuites", "testsuite"):
            _refuse(f"its first element is {kind[:40]!r}")
        if len(self._open) == DEEPEST:
            _refuse(f"it is nested more than {DEEPEST} levels deep")
        if self._elements > MOST_ELEMENTS:
            _refuse(f"it has more than {MOST_ELEMENTS >> 20} million elements")
        if len(attrs) > MOST_ATTRIBUTES:
            _refuse(f"an element in it has more than {MOST_ATTRIBUTES} attributes")
        self._begin(kind, dict(attrs.items()))
        self._open.append(kind)

    def _begin(self, kind: str, attributes: Mapping[str, str]) -> None:
        if kind in ("failure", "error"):
            if self._case is None:
                self._problem = _Problem(attributes.get("message", ""))
            # A case may hold several failures. The first one is its problem.
            elif self._open[-1] == "testcase" and self._case.problem is None:
                self._problem = self._case.problem = _Problem(attributes.get("message", ""))
        elif self._case is not None:
            self._case.is_skipped |= kind == "skipped" and self._open[-1] == "testcase"
        elif kind == "testcase":
            self._case = _Case(attributes)
        elif kind in ("testsuites", "testsuite"):
            self._suites.append(_Suite(attributes))

    def characters(self, content: str) -> None:
        self.events += 1
        # Of a long output only the beginning is kept.
        if self._problem is not None and len(self._problem.text) < 2 * LONGEST_TEXT:
            self._problem.text += content[: 2 * LONGEST_TEXT]

    def endElement(self, name: str) -> None:
        self.events += 1
        kind = self._open.pop()
        if kind in ("failure", "error") and self._problem is not None:
            problem, self._problem = self._problem, None
            if self._case is None:
                self._fail(
                    self._suites[-1].attributes.get("name") or "a suite without a name", problem.said()
                )
        elif kind == "testcase" and self._case is not None and "testcase" not in self._open:
            self._end_case(self._case)
            self._case = None
        elif kind in ("testsuites", "testsuite") and self._case is None:
            self._end_suite(self._suites.pop())

    def _end_case(self, case: _Case) -> None:
        words = _words(case.attributes)
        self.cases += 1
        seconds = _seconds(case.attributes.get("time", ""))
        if seconds is not None:
            self.seconds = (self.seconds or 0.0) + seconds
        failing = [each for each in words if each in _FAILED]
        if case.problem is not None or failing:
            problem = f"its status is {failing[0]}" if case.problem is None else case.problem.said()
            self._fail(_name(case.attributes), problem, case.attributes)
            self._suites[-1].tally.add(1, 0, 0)
            return
        # A skipped test did not fail, but it proves nothing either.
        is_left_out = case.is_skipped or any(each in _NOT_RUN for each in words)
        self._suites[-1].tally.add(1, 0, is_left_out)
        self.unknown += not is_left_out and any(each not in _RAN for each in words)

    def _end_suite(self, suite: _Suite) -> None:
        failing = [each for each in _words(suite.attributes) if each in _FAILED]
        if failing and not suite.tally.failed:
            name = suite.attributes.get("name") or "a suite without a name"
            # The failure belongs to this suite, which is over already.
            self._suites.append(suite)
            self._fail(name, f"its status is {failing[0]}")
            self._suites.pop()
        counted = suite.counted()
        parent = self._suites[-1].tally if self._suites else self.whole
        parent.add(counted.cases, counted.failed, counted.not_run)

    def _fail(self, name: str, message: str, attributes: Mapping[str, str] | None = None) -> None:
        self._suites[-1].tally.add(0, 1, 0)
        self.failed_here += 1
        if len(self.failures) == MOST_FINDINGS:
            return
        failure: dict[str, JsonValue] = {"name": name[:LONGEST_TEXT], "message": message}
        file, line = (attributes or {}).get("file", ""), (attributes or {}).get("line", "")
        if file and len(file) <= _LONGEST_PATH:
            failure["file"] = file
        if line.isascii() and line.isdecimal() and len(line) < 10 and int(line) > 0:
            failure["line"] = int(line)
        self.failures.append(failure)


class _Marks(LexicalHandler):
    """Comments, and the document type: its name alone is harmless."""

    def __init__(self, reading: _Reading) -> None:
        self._reading = reading

    def comment(self, content: str) -> None:
        self._reading.events += 1

    def startDTD(self, name: str, public_id: str | None, system_id: str | None) -> None:
        if public_id or system_id:
            _refuse("its document type is in another file, which is never read")


def _outcomes(reading: _Reading) -> Mapping[str, dict[str, JsonValue]]:
    cases, failed, skipped = reading.cases, reading.whole.failed, reading.whole.not_run
    gaps: list[str] = []
    # A report proves only what ran.
    if skipped >= cases:
        gaps.append("no test ran")
    if reading.unknown:
        gaps.append(f"the status of {reading.unknown} tests says nothing")
    counts = f"{cases} tests, {failed} failed, {skipped} skipped"
    # These failures have no name, so the outcome says that there are more than it lists.
    hidden = failed - reading.failed_here
    notes = [f"the suites count {hidden} failures that no test shows"] if hidden > 0 else []
    notes += [f"the suites count {reading.whole.cases} tests"] if reading.whole.cases > cases else []
    fitted = fitting(reading.failures, "message")
    if len(fitted) < reading.failed_here:
        notes.append(f"{len(fitted):,} of {reading.failed_here:,} failures are kept")
    verdict = Gaps(gaps)
    passed = verdict.verdict(failed)
    outcome: dict[str, JsonValue] = {
        "summary": verdict.summary("; ".join((counts, *notes))),
        "passed": passed,
        "test_count": cases,
    }
    if reading.failures:
        outcome["failure_summary"] = f"{reading.failures[0]['name']} and {failed - 1} more"
    elif failed:
        outcome["failure_summary"] = notes[0]
    good = max(0, cases - failed - skipped)
    check: JsonValue = {"name": "tests", "passed": passed, "count": good, "total": cases}
    seconds = reading.seconds if reading.seconds is None or math.isfinite(reading.seconds) else None
    return {
        USUAL: {
            "outcome_kind": USUAL,
            **outcome,
            "failed_count": failed,
            "skipped_count": skipped,
            "duration_s": seconds,
            "failures": fitted,
        },
        OTHER: {"outcome_kind": OTHER, **outcome, "tests_passed": passed, "checks": [check]},
    }


def _words(attributes: Mapping[str, str]) -> list[str]:
    """The status in plain letters; what has none is a word of another language, whose meaning is not known."""
    written = [attributes.get(key, "").strip().lower() for key in ("status", "result")]
    return [re.sub(r"[^a-z0-9]", "", each) or each for each in written]


def _name(case: Mapping[str, str]) -> str:
    group, name = case.get("classname"), case.get("name") or "a test without a name"
    return f"{group}.{name}" if group else name


def _seconds(written: str) -> float | None:
    """The time of a test. A comma separates thousands, or, in some languages, the fraction; None if that is not clear."""
    written = written.strip()
    if "," in written:
        if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+\.[0-9]+", written):
            written = written.replace(",", "")
        elif re.fullmatch(r"0,[0-9]+|[0-9]+,([0-9]{1,2}|[0-9]{4,})", written):
            written = written.replace(",", ".")
        else:
            return None
    try:
        seconds = float(written)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
