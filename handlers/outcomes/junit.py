"""JUnit's XML reports of tests, as a `test_result` or, if that is asked for, a `ci_result`."""

import math
from typing import Final
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException  # type: ignore[import-untyped]
from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

from runward.config.json_value import JsonValue

USUAL: Final = "test_result"
OTHER: Final = "ci_result"
MOST_FAILURES: Final = 50
_LONGEST: Final = 500


def outcome_of_junit(content: bytes, kind: str = USUAL) -> dict[str, JsonValue] | str:
    """The outcome of this kind in the report, or why it is not a report. Entities and document types are refused."""
    try:
        root = fromstring(content, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        return f"is not a JUnit report: {str(error)[:200]}"
    if root.tag not in ("testsuites", "testsuite"):
        return f"is not a JUnit report: its first element is {root.tag[:40]!r}"
    cases = list(root.iter("testcase"))
    failed = [each for each in cases if each.find("failure") is not None or each.find("error") is not None]
    skipped = sum(each.find("skipped") is not None for each in cases)
    passed = not failed if cases else None
    outcome: dict[str, JsonValue] = {
        "outcome_kind": kind,
        "summary": f"{len(cases)} tests, {len(failed)} failed, {skipped} skipped",
        "passed": passed,
        "test_count": len(cases),
    }
    if kind == OTHER:
        good = len(cases) - len(failed) - skipped
        check: JsonValue = {"name": "tests", "passed": passed, "count": good, "total": len(cases)}
        outcome |= {"tests_passed": passed, "checks": [check]}
    else:
        outcome |= {
            "failed_count": len(failed),
            "skipped_count": skipped,
            "duration_s": sum(_seconds(each) for each in cases),
            "failures": [_failure(each) for each in failed[:MOST_FAILURES]],
        }
    if failed:
        outcome["failure_summary"] = f"{_name(failed[0])} and {len(failed) - 1} more"
    return outcome


def _failure(case: Element) -> dict[str, JsonValue]:
    found = case.find("failure")
    found = case.find("error") if found is None else found
    message = "" if found is None else found.get("message") or (found.text or "").strip()
    failure: dict[str, JsonValue] = {"name": _name(case), "message": message[:_LONGEST]}
    if case.get("file"):
        failure["file"] = case.get("file")
    line = case.get("line") or ""
    if line.isascii() and line.isdecimal() and len(line) < 10 and int(line) > 0:
        failure["line"] = int(line)
    return failure


def _name(case: Element) -> str:
    group, name = case.get("classname"), case.get("name") or "a test without a name"
    return (f"{group}.{name}" if group else name)[:_LONGEST]


def _seconds(case: Element) -> float:
    try:
        seconds = float((case.get("time") or "0").replace(",", ""))
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds >= 0 else 0.0
