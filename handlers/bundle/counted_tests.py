"""How many tests passed and failed, according to a test runner's output. Any other output gives no counts."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

_SEARCHED: Final = 65_536
"""Characters at the end of an output that are searched for the counts: runners print their summary last."""


class CountedTests(NamedTuple):
    """What a runner counted. `failed` are those that failed or had an error; `total` leaves out skipped tests."""

    runner: str
    passed: int
    failed: int

    @property
    def total(self) -> int:
        """Tests that ran."""
        return self.passed + self.failed


# The text is hostile. No two parts of an expression may match the same characters in more than one way, because then the time
# grows with the square of the length, or worse, and nothing else runs meanwhile. So blanks at the beginning end with the line.
_PYTEST: Final = re.compile(
    r"^=*[ ]?((?:\d{1,9} (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)(?:, )?)+)"
    r" in [\d.]+ ?s",
    re.MULTILINE,
)
_COUNTED: Final = re.compile(r"(\d{1,9}) (passed|failed|errors?|xfailed|xpassed)")
_UNITTEST: Final = re.compile(
    r"^Ran (\d{1,9}) tests? in [\d.]+s\s+(OK|FAILED)(?: \(([^)\n]*)\))?", re.MULTILINE
)
_NAMED: Final = re.compile(r"(failures|errors|skipped|unexpected successes)=(\d{1,9})")
_CARGO: Final = re.compile(r"^test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed;", re.MULTILINE)
_GO: Final = re.compile(r"^[ \t]*--- (PASS|FAIL): ", re.MULTILINE)
_JEST: Final = re.compile(r"^[ \t]*Tests:[ \t]+((?:\d{1,9} \w+, )*\d{1,9} total)", re.MULTILINE)
_VITEST: Final = re.compile(
    r"^[ \t]*Tests[ \t]+(\d{1,9} [a-z]+(?: \| \d{1,9} [a-z]+)*) \((\d{1,9})\)", re.MULTILINE
)
_EACH: Final = re.compile(r"(\d{1,9}) (\w+)")
_JUNIT: Final = re.compile(r"<testsuites?\b[^<>]*>")
_ATTRIBUTE: Final = re.compile(r"\b(tests|failures|errors|skipped|disabled)=\"(\d{1,9})\"")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def counted_tests(output: str) -> CountedTests | None:
    """The last counts in the output of a command. None if it is not the output of a known runner."""
    text = _COLOURS.sub("", output[-_SEARCHED:])
    for read in _READERS:
        found = read(text)
        if found is not None:
            return found
    return None


def _pytest(text: str) -> CountedTests | None:
    sums = _PYTEST.findall(text)
    if not sums:
        return None
    passed = failed = 0
    for number, what in _COUNTED.findall(sums[-1]):
        if what in ("passed", "xfailed", "xpassed"):
            passed += int(number)
        else:
            failed += int(number)
    return CountedTests("pytest", passed, failed)


def _unittest(text: str) -> CountedTests | None:
    found = _UNITTEST.findall(text)
    if not found:
        return None
    ran, _, said = found[-1]
    named = {what: int(number) for what, number in _NAMED.findall(said)}
    failed = named.get("failures", 0) + named.get("errors", 0) + named.get("unexpected successes", 0)
    passed = int(ran) - failed - named.get("skipped", 0)
    return CountedTests("unittest", max(0, passed), failed)


def _cargo(text: str) -> CountedTests | None:
    found = _CARGO.findall(text)
    if not found:
        return None
    return CountedTests(
        "cargo", sum(int(passed) for passed, _ in found), sum(int(failed) for _, failed in found)
    )


def _go(text: str) -> CountedTests | None:
    found = _GO.findall(text)
    return CountedTests("go", found.count("PASS"), found.count("FAIL")) if found else None


def _jest(text: str) -> CountedTests | None:
    found = _JEST.findall(text)
    if not found:
        return None
    named = {what: int(number) for number, what in _EACH.findall(found[-1])}
    return CountedTests("jest", named.get("passed", 0), named.get("failed", 0))


def _vitest(text: str) -> CountedTests | None:
    found = _VITEST.findall(text)
    if not found:
        return None
    named = {what: int(number) for number, what in _EACH.findall(found[-1][0])}
    return CountedTests("vitest", named.get("passed", 0), named.get("failed", 0))


def _junit(text: str) -> CountedTests | None:
    suites = _JUNIT.findall(text)
    if not suites:
        return None
    counts = [(each, {what: int(number) for what, number in _ATTRIBUTE.findall(each)}) for each in suites]
    whole = [named for each, named in counts if each.startswith("<testsuites") and "tests" in named]
    total = failed = skipped = 0
    for named in whole or [named for _, named in counts if "tests" in named]:
        total += named["tests"]
        failed += named.get("failures", 0) + named.get("errors", 0)
        skipped += named.get("skipped", 0) + named.get("disabled", 0)
    # One suite may count what the whole report leaves out. Suites may be in suites, so their sum proves nothing.
    failed = max([failed, *(named.get("failures", 0) + named.get("errors", 0) for _, named in counts)])
    return CountedTests("junit", max(0, total - failed - skipped), failed) if total else None


_READERS: Final[tuple[Callable[[str], CountedTests | None], ...]] = (
    _pytest,
    _unittest,
    _cargo,
    _jest,
    _vitest,
    _go,
    _junit,
)
