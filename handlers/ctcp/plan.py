"""Contract F: `artifacts/PLAN_draft.md`, which is free, and `artifacts/PLAN.md`, the signed plan."""

from typing import Final, NamedTuple

from runward.config.problem import quoted
from runward.handlers.ctcp.documents import Documents, content_of
from runward.handlers.ctcp.key_lines import key_lines
from runward.handlers.ctcp.report import Report

DRAFT: Final = "artifacts/PLAN_draft.md"
PATH: Final = "artifacts/PLAN.md"

_WANTED: Final = ("Scope-Allow", "Stop", "Budgets", "Steps")
_LATER: Final = ("Behaviors", "Results")
_LATER_GATES: Final = ("plan_check", "patch_check", "behavior_catalog_check")


class Scope(NamedTuple):
    """The path prefixes that a patch may touch, and may not. None is what the plan doesn't say."""

    allow: tuple[str, ...] | None
    deny: tuple[str, ...] | None


def check(documents: Documents, report: Report) -> Scope | None:
    """The plan's scope. None if there is no plan."""
    content_of(documents, DRAFT, report)
    content = content_of(documents, PATH, report)
    if content is None:
        return None
    keys = key_lines(content)
    status = keys.get("status")
    if status is None or status.value != "SIGNED":
        said = "is missing" if status is None else f"is {quoted(status.value)}"
        _add(report, "status", f"'Status' {said}; write SIGNED", None if status is None else status.line)
    for name in _WANTED:
        found = keys.get(name.lower())
        if found is None or not found.items:
            said = "missing" if found is None else "empty"
            _add(report, "field", f"{quoted(name)} is {said}", None if found is None else found.line)
    if "scope-deny" not in keys:
        _add(report, "field", "'Scope-Deny' is missing; write none if nothing is denied")
    gates = keys.get("gates")
    named = () if gates is None else gates.items
    if "lite" not in named:
        said = "is missing" if gates is None else "lacks 'lite'"
        _add(report, "gates", f"'Gates' {said}", None if gates is None else gates.line)
    later = [name for name in _LATER if name.lower() not in keys]
    later += [name for name in _LATER_GATES if name not in named]
    if later:
        _add(report, "later_key", f"version 0.2 also asks for {', '.join(later)}")
    allow, deny = keys.get("scope-allow"), keys.get("scope-deny")
    return Scope(
        allow.items if allow is not None and allow.items else None, None if deny is None else deny.items
    )


def _add(report: Report, rule: str, message: str, line: int | None = None) -> None:
    report.add(rule, message, line, PATH)
