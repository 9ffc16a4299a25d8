"""Findings: what breaks a rule of a contract, and where."""

from typing import Final, NamedTuple

from runward.config.counting import counted
from runward.handlers.ctcp.rules import FURTHER, RULES, Severity

MOST: Final = 200
"""Findings of one contract that are listed; the others are counted."""

MOST_COUNTED: Final = 100_000
"""Findings of one contract that are counted. After that many, a patch or a journal is not read further."""


class Finding(NamedTuple):
    """One broken rule. `path` is relative to the run directory; `line` counts from 1."""

    contract: str
    path: str
    rule: str
    severity: Severity
    message: str
    line: int | None


class Report:
    """The findings about one contract. With `allow_missing`, files that don't exist are ignored."""

    def __init__(self, letter: str, path: str, allow_missing: bool = False) -> None:
        self._letter, self._path, self.allows_missing = letter, path, allow_missing
        self._found: list[Finding] = []
        self._further: dict[Severity, int] = {"error": 0, "warning": 0}

    def add(self, name: str, message: str, line: int | None = None, path: str | None = None) -> None:
        """A finding against this contract's rule of that name."""
        rule = RULES[f"{self._letter}.{name}"]
        if len(self._found) < MOST:
            place = self._path if path is None else path
            self._found.append(Finding(self._letter, place, rule.name, rule.severity, message, line))
        else:
            self._further[rule.severity] += 1

    @property
    def has_errors(self) -> bool:
        return self._further["error"] > 0 or any(each.severity == "error" for each in self._found)

    @property
    def is_full(self) -> bool:
        """Whether looking for more findings is pointless."""
        return sum(self._further.values()) >= MOST_COUNTED

    def findings(self) -> tuple[Finding, ...]:
        """The first findings, and one that counts the rest."""
        further = sum(self._further.values())
        if not further:
            return tuple(self._found)
        severity: Severity = "error" if self._further["error"] else "warning"
        least = "at least " if self.is_full else ""
        message = f"{least}{counted(further, 'further finding', 'further findings')} of this contract"
        rest = Finding(self._letter, self._path, f"{self._letter}.{FURTHER}", severity, message, None)
        return (*self._found, rest)
