"""Which of a session's calls verified its work: commands that match the settings' globs, with their results.

Where a command's output is that of a test runner, the result has the numbers of passed and failed tests.
"""

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue

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
        counts = read(text)
        if counts is not None:
            return counts
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
    runs = _UNITTEST.findall(text)
    if not runs:
        return None
    ran, _, outcome = runs[-1]
    named = {what: int(number) for what, number in _NAMED.findall(outcome)}
    failed = named.get("failures", 0) + named.get("errors", 0) + named.get("unexpected successes", 0)
    passed = int(ran) - failed - named.get("skipped", 0)
    return CountedTests("unittest", max(0, passed), failed)


def _cargo(text: str) -> CountedTests | None:
    results = _CARGO.findall(text)
    if not results:
        return None
    return CountedTests(
        "cargo", sum(int(passed) for passed, _ in results), sum(int(failed) for _, failed in results)
    )


def _go(text: str) -> CountedTests | None:
    results = _GO.findall(text)
    return CountedTests("go", results.count("PASS"), results.count("FAIL")) if results else None


def _jest(text: str) -> CountedTests | None:
    lines = _JEST.findall(text)
    if not lines:
        return None
    named = {what: int(number) for number, what in _EACH.findall(lines[-1])}
    return CountedTests("jest", named.get("passed", 0), named.get("failed", 0))


def _vitest(text: str) -> CountedTests | None:
    lines = _VITEST.findall(text)
    if not lines:
        return None
    named = {what: int(number) for number, what in _EACH.findall(lines[-1][0])}
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


MOST_COMMANDS: Final = 1000
"""Different commands that are kept per session."""

_LEADING: Final = re.compile(r"^(?:cd [^&;|]+ && |(?:[A-Za-z_][A-Za-z0-9_]*=\S* )+)+")
"""What often precedes a command: a change of directory, variables."""

_SHELLS: Final = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh"})


_PARTS: Final = re.compile(r"\s*(?:&&|\|\||;|\n|\|)\s*")
"""What separates the commands of a compound one."""


class VerificationRun(NamedTuple):
    """The last run of a command. `exit_code` is None if the tool reports none."""

    command: str
    exit_code: int | None
    results: CountedTests | None


@dataclass(slots=True)
class _Runs:
    exit_code: int | None = None
    ended: bool = False
    last: CountedTests | None = None


@dataclass(slots=True)
class VerificationRuns:
    """The commands that match `globs`, in the order of their first run."""

    globs: Sequence[str]
    _runs: dict[str, _Runs] = field(default_factory=dict)
    _running: dict[str, str] = field(default_factory=dict)
    _first: dict[str, int] = field(default_factory=dict)
    """How many tests failed, by runner, at the first count."""
    _latest: dict[str, int] = field(default_factory=dict)
    _counted: dict[str, int] = field(default_factory=dict)
    told_delta: int | None = None
    """The delta that the session itself reports. It counts if its calls show none."""

    def called(self, call: str, params: JsonValue) -> None:
        """A tool was called under this id."""
        command = command_of(params)
        if command is None or not is_verification(command, self.globs):
            return
        if command not in self._runs:
            if len(self._runs) >= MOST_COMMANDS:
                return
            self._runs[command] = _Runs()
        self._running[call] = command

    def returned(self, call: str, output: JsonValue, success: bool, exit_code: int | None) -> None:
        """The call came back."""
        command = self._running.pop(call, None)
        if command is None:
            return
        text = text_of(output)
        results = counted_tests(text)
        run = self._runs[command]
        run.ended = True
        run.exit_code = 0 if exit_code is None and success else exit_code
        run.last = results
        if results is not None:
            self._first.setdefault(results.runner, results.failed)
            self._latest[results.runner] = results.failed
            self._counted[results.runner] = self._counted.get(results.runner, 0) + 1

    def told(self, command: str, exit_code: int | None) -> None:
        """The session itself reports this result. What its calls showed counts before it."""
        if command not in self._runs and len(self._runs) >= MOST_COMMANDS:
            return
        run = self._runs.setdefault(command, _Runs())
        if not run.ended or run.exit_code is None:
            run.ended, run.exit_code = True, exit_code

    def runs(self) -> tuple[VerificationRun, ...]:
        """The commands that came back at least once."""
        return tuple(
            VerificationRun(command, run.exit_code, run.last)
            for command, run in self._runs.items()
            if run.ended
        )

    @property
    def delta(self) -> int | None:
        """The tests that failed at the first count minus those at the last, for the runners that counted twice."""
        again = [runner for runner, times in self._counted.items() if times > 1]
        return sum(self._first[each] - self._latest[each] for each in again) if again else self.told_delta


def is_verification(command: str, globs: Sequence[str]) -> bool:
    """Whether a command, or a part of a compound one, matches a glob."""
    matches = _any_of(tuple(globs)).match
    if matches(_LEADING.sub("", command)) is not None:
        return True
    if not any(each in command for each in "&|;\n"):
        return False
    return any(matches(_LEADING.sub("", each)) is not None for each in _PARTS.split(command.strip()))


@lru_cache(maxsize=16)
def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    """Matches what one of the globs matches, and nothing if there are no globs."""
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs) or r"(?!)")


def command_of(params: JsonValue) -> str | None:
    """The command that a call runs, on one line. None if its params name none."""
    if not isinstance(params, dict):
        return None
    command = params.get("command", params.get("cmd"))
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        words = [str(word) for word in command]
        command = words[-1] if words[0] in _SHELLS and len(words) > 1 else " ".join(words)
    if not isinstance(command, str) or not command.strip():
        return None
    return " ".join(command.split())


def text_of(value: JsonValue) -> str:
    """The text in what a tool returned: itself, that of its blocks, or the field that the tool uses for its output."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text_of(each) for each in value)
    if isinstance(value, dict):
        named = [value[key] for key in ("text", "stdout", "output", "content", "stderr") if key in value]
        return "\n".join(text_of(each) for each in named)
    return ""
