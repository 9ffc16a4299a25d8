"""Which of a session's calls verified its work: commands that match the settings' globs, with their results.

Runward runs no verification of its own. Only commands that the session itself ran through a tool count.
"""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.bundle.counted_tests import CountedTests, counted_tests

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
    said = params.get("command", params.get("cmd"))
    if isinstance(said, list) and said and all(isinstance(word, str) for word in said):
        words = [str(word) for word in said]
        said = words[-1] if words[0] in _SHELLS and len(words) > 1 else " ".join(words)
    if not isinstance(said, str) or not said.strip():
        return None
    return " ".join(said.split())


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
