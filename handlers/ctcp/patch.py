"""Contract H: `artifacts/diff.patch`, what the run wants to change, which must stay in the plan's scope."""

import re
from collections.abc import Sequence
from typing import Final

from runward.config.problem import quoted
from runward.handlers.ctcp import plan
from runward.handlers.ctcp.diff_sections import DiffFault, FileDiff, read_diff
from runward.handlers.ctcp.documents import Documents, lined_content_of
from runward.handlers.ctcp.plan import Scope
from runward.handlers.ctcp.report import Report

PATH: Final = "artifacts/diff.patch"

_MOST_FILES: Final = 5
_MOST_ADDED: Final = 400
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_GIT: Final = frozenset({".git", "git~1"})


def check(documents: Documents, report: Report) -> None:
    """Check the patch, also against the plan's scope if that can be read."""
    content = lined_content_of(documents, PATH, report)
    if content is None:
        return
    scope = plan.check(documents, Report("F", plan.PATH)) or Scope(None, None)
    allow = None if scope.allow is None else [_parts(each) for each in scope.allow]
    deny = [_parts(each) for each in scope.deny or ()]
    touched: set[str] = set()
    added = 0
    for each in read_diff(content):
        if isinstance(each, DiffFault):
            report.add(each.rule, each.message, each.line)
            if report.is_full:
                return
            continue
        added += each.added
        touched.update(each.touched)
        _check_file(each, allow, deny, report)
    if len(touched) > _MOST_FILES or added > _MOST_ADDED:
        message = f"touches {len(touched)} files and adds {added} lines; version 0.2 allows {_MOST_FILES} and {_MOST_ADDED}"
        report.add("large", message)


def _check_file(
    diff: FileDiff, allow: Sequence[tuple[str, ...]] | None, deny: Sequence[tuple[str, ...]], report: Report
) -> None:
    bad = [(path, why) for path in diff.touched if (why := why_not_a_path(path)) is not None]
    for path, why in bad:
        report.add("path", f"{quoted(path)} {why}", diff.line)
    if bad:
        return
    if diff.is_link and diff.new is not None and (diff.target is not None or diff.is_binary):
        why = _why_out(diff.new, diff.target)
        if why is not None:
            report.add("link", f"{quoted(diff.new)} {why}", diff.line)
    for path in diff.touched:
        parts = _parts(path)
        if any(_is_below(parts, each) for each in deny):
            report.add("scope", f"{quoted(path)} is in Scope-Deny", diff.line)
        elif allow is not None and not any(_is_below(parts, each) for each in allow):
            report.add("scope", f"{quoted(path)} is not in Scope-Allow", diff.line)


def why_not_a_path(path: str) -> str | None:
    """Why a patch must not touch this path. None if it may."""
    parts = path.split("/")
    if path.startswith("/"):
        return "is absolute"
    if "\0" in path:
        return "has a NUL in it"
    if _DRIVE.match(path):
        return "has a drive letter"
    if ".." in path.replace("\\", "/").split("/"):
        return "has '..' in it"
    if "" in parts or "." in parts:
        return "has an empty or '.' component"
    if any(_is_git(part) for part in path.replace("\\", "/").split("/")):
        return "is in .git"
    return None


def _is_git(part: str) -> bool:
    """Whether a file system may take the name for git's own directory, as those of Windows and macOS do."""
    return part.casefold().rstrip(". ") in _GIT


def _why_out(path: str, target: str | None) -> str | None:
    """Why a link at `path` leads out of the tree, or into git's own directory."""
    if target is None:
        return "is a link whose target can't be read"
    if target.startswith("/") or _DRIVE.match(target) or "\0" in target or "\\" in target:
        return f"leads to {quoted(target)}, outside the tree"
    depth, goes_down = path.count("/"), False
    for part in target.split("/"):
        if part == "..":
            # After a name it may start from anywhere: the name may be a link, too.
            depth -= 1
            if depth < 0 or goes_down:
                return f"leads to {quoted(target)}, which may be outside the tree"
        elif part not in ("", "."):
            goes_down = True
            if _is_git(part):
                return f"leads to {quoted(target)}, in .git"
    return None


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _is_below(path: tuple[str, ...], entry: tuple[str, ...]) -> bool:
    return path[: len(entry)] == entry
