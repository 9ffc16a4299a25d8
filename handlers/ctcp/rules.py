"""Every rule of the CTCP contracts: its name, whether breaking it is an error, and what breaks it. And the findings.

`docs/ctcp.md` is checked against this table. Rules of the contracts' first version are errors. Rules that only later
versions have, and rules about what is well-formed but should be noticed, are warnings.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.problem import counted

Severity: TypeAlias = Literal["error", "warning"]

LETTERS: Final = "ABCDEFGHIJ"


class Rule(NamedTuple):
    """One rule. `sentence` says what breaks it."""

    name: str
    severity: Severity
    sentence: str


_MISSING: Final = "The file does not exist, or is not a regular file that can be read."
_TOO_LARGE: Final = "The file is over 16 MiB."
_FIELD: Final = "A field is missing or has the wrong type."
_NOT_JSON: Final = "The file is not JSON, repeats a key, contains NaN, or has more than 64 levels."
_NOT_OBJECT: Final = "The file contains JSON that is not an object."
_SCHEMA: Final = "`schema_version` is not the contract's."


def _json(letter: str) -> tuple[Rule, ...]:
    return (
        Rule(f"{letter}.not_json", "error", _NOT_JSON),
        Rule(f"{letter}.not_object", "error", _NOT_OBJECT),
        Rule(f"{letter}.field", "error", _FIELD),
        Rule(f"{letter}.too_large", "error", _TOO_LARGE),
    )


def _document(letter: str) -> tuple[Rule, ...]:
    missing = Rule(f"{letter}.missing", "error", _MISSING)
    return (missing, *_json(letter), Rule(f"{letter}.schema_version", "error", _SCHEMA))


_ALL: Final = (
    Rule("A.missing", "error", _MISSING),
    Rule("A.too_large", "error", _TOO_LARGE),
    Rule("A.field", "error", "A key is missing or empty, or a number is not a whole number."),
    Rule("A.find_mode", "error", "`find_mode` is neither `resolver_only` nor `resolver_plus_web`."),
    Rule("A.below_one", "warning", "A number is below 1."),
    *_document("B"),
    Rule("B.mode", "error", "A need's `mode` is neither `full` nor `snippets`."),
    Rule("B.line_ranges", "error", "`line_ranges` is not a list of pairs of whole numbers."),
    Rule("B.reversed_range", "warning", "A range ends before it begins."),
    Rule("B.below_one", "warning", "A number of the budget is below 1."),
    *_document("C"),
    Rule("C.reason", "error", "A file is omitted for a reason that no version of the contract has."),
    Rule("C.path", "error", "An included file's path is absolute or leads outside."),
    Rule("C.not_requested", "error", "An included file was not requested."),
    Rule("C.too_many_files", "error", "More files are included than `budget.max_files`."),
    Rule("C.too_many_bytes", "error", "The contents have more UTF-8 bytes than `budget.max_total_bytes`."),
    Rule("C.later_reason", "warning", "A file is omitted for a reason of version 0.2."),
    Rule("C.unanswered", "warning", "A need is neither included nor omitted."),
    *_document("D"),
    Rule("D.not_a_candidate", "warning", "The selected workflow and version are not a candidate."),
    Rule("E.not_readable", "error", "The file is there, but is not a regular file that can be read."),
    *_json("E"),
    Rule("E.schema_version", "error", _SCHEMA),
    Rule("E.not_enabled", "error", "The file exists, and `find_mode` is `resolver_only`."),
    Rule("E.locator", "error", "A locator's `type` is none of the contract's four."),
    Rule("E.domain", "error", "The host of a `url` is neither in `allow_domains` nor below an entry of it."),
    Rule("E.too_many_pages", "error", "The results have more different pages than `max_pages`."),
    Rule("E.wider", "warning", "The constraints are wider than those of the guardrails."),
    Rule("F.missing", "error", "`PLAN_draft.md` or `PLAN.md` does not exist, or is not a regular file."),
    Rule("F.too_large", "error", _TOO_LARGE),
    Rule("F.field", "error", "A key of the plan is missing or empty. `Scope-Deny` may be empty."),
    Rule("F.status", "error", "`Status` is not `SIGNED`."),
    Rule("F.gates", "error", "`Gates` lacks `lite`."),
    Rule("F.later_key", "warning", "`Behaviors`, `Results` or a gate of version 0.2 is missing."),
    Rule("G.missing", "error", "A review does not exist, or is not a regular file that can be read."),
    Rule("G.too_large", "error", _TOO_LARGE),
    Rule("G.verdict", "error", "The first line that begins with `Verdict:` says neither `APPROVE` nor `BLOCK`."),
    Rule("G.field", "error", "A `BLOCK` has no `Blocking Reasons` or no `Required Fix/Artifacts`."),
    Rule("G.block", "warning", "A review blocks, and says why."),
    Rule("H.missing", "error", _MISSING),
    Rule("H.too_large", "error", "The patch is over 256 MiB, one of its lines over 16 MiB, or it has more than 10,000,000 lines."),
    Rule("H.not_a_diff", "error", "The patch does not begin with `diff --git`, or has a line that is not part of a diff."),
    Rule("H.hunk", "error", "A hunk is shorter or longer than it states."),
    Rule("H.names", "error", "The lines of one file's header name different files."),
    Rule("H.path", "error", "A path is absolute, has `..`, a drive letter or NUL, or is in `.git`."),
    Rule("H.link", "error", "A link's target leaves the tree."),
    Rule("H.scope", "error", "A touched path is outside `Scope-Allow` or inside `Scope-Deny`."),
    Rule("H.does_not_apply", "error", "`git apply --check` refuses the patch (with `--tree`)."),
    Rule("H.large", "warning", "The patch touches more than 5 files or adds more than 400 lines."),
    Rule("I.missing", "error", _MISSING),
    *_json("I"),
    Rule("I.result", "error", "`result` is neither `PASS` nor `FAIL`."),
    Rule("I.gate", "error", "`gate` is neither `lite` nor `full`."),
    Rule("I.contradiction", "error", "`PASS` next to a failure or an exit code other than 0, or `FAIL` next to neither."),
    Rule("I.no_bundle", "error", "`artifacts.bundle` names a file that does not exist."),
    Rule("I.not_a_zip", "error", "The failure bundle is not a zip file."),
    Rule("I.bundle_path", "error", "A name in the failure bundle is absolute or has `..`."),
    Rule("I.bundle_size", "error", "The failure bundle has more than 10,000 entries or over 1 GiB unpacked."),
    Rule("I.fail", "warning", "The verification failed, and says why."),
    Rule("I.no_trace", "warning", "`TRACE.md` does not exist."),
    Rule("I.bundle_names", "warning", "The failure bundle lacks a name that belongs in it."),
    Rule("J.missing", "error", _MISSING),
    Rule("J.too_large", "error", "The journal is over 256 MiB, one of its lines over 16 MiB, or it has more than 10,000,000 lines."),
    Rule("J.no_events", "error", "The file contains nothing."),
    Rule("J.not_json", "error", "A line is not JSON, repeats a key, contains NaN, or has more than 64 levels."),
    Rule("J.not_object", "error", "A line contains JSON that is not an object."),
    Rule("J.field", "error", "`ts`, `role`, `event` or `path` is missing or not text. `path` may be empty."),
    Rule("J.time", "warning", "`ts` is not a time."),
    Rule("J.other_end", "warning", "`RUN.json` reports another end than the verification report."),
)  # fmt: skip

RULES: Final[Mapping[str, Rule]] = {rule.name: rule for rule in _ALL}

FURTHER: Final = "further"
"""The name of the finding that counts a contract's findings beyond those listed; as severe as the worst of them."""


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
        self._findings: list[Finding] = []
        self._further: dict[Severity, int] = {"error": 0, "warning": 0}

    def add(self, name: str, message: str, line: int | None = None, path: str | None = None) -> None:
        """A finding against this contract's rule of that name."""
        rule = RULES[f"{self._letter}.{name}"]
        # A patch or a journal may break a rule on each of its millions of lines.
        if len(self._findings) < MOST:
            place = self._path if path is None else path
            self._findings.append(
                Finding(
                    contract=self._letter,
                    path=place,
                    rule=rule.name,
                    severity=rule.severity,
                    message=message,
                    line=line,
                )
            )
        else:
            self._further[rule.severity] += 1

    @property
    def has_errors(self) -> bool:
        return self._further["error"] > 0 or any(each.severity == "error" for each in self._findings)

    @property
    def is_full(self) -> bool:
        """Whether looking for more findings is pointless."""
        return sum(self._further.values()) >= MOST_COUNTED

    def findings(self) -> tuple[Finding, ...]:
        """The first findings, and one that counts the rest."""
        further = sum(self._further.values())
        if not further:
            return tuple(self._findings)
        severity: Severity = "error" if self._further["error"] else "warning"
        least = "at least " if self.is_full else ""
        message = f"{least}{counted(further, 'further finding', 'further findings')} of this contract"
        rest = Finding(
            contract=self._letter,
            path=self._path,
            rule=f"{self._letter}.{FURTHER}",
            severity=severity,
            message=message,
            line=None,
        )
        return (*self._findings, rest)
