"""Contracts F to J: the signed plan, its reviews, the patch, its verification, and the run's journal."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from runward.config.problem import quoted
from runward.handlers.ctcp.diff_sections import DiffFault, FileDiff, read_diff
from runward.handlers.ctcp.documents import (
    MOST_BYTES,
    Documents,
    Fields,
    ZipDirectory,
    content_of,
    fields_of,
    key_lines,
    lined_content_of,
)
from runward.handlers.ctcp.rules import Report
from runward.handlers.foreign_json import read_json
from runward.handlers.layouts.ctcp_log import LineFault, read_line, time_at

PLAN_DRAFT: Final = "artifacts/PLAN_draft.md"
PLAN: Final = "artifacts/PLAN.md"

_WANTED: Final = ("Scope-Allow", "Stop", "Budgets", "Steps")
_LATER: Final = ("Behaviors", "Results")
_LATER_GATES: Final = ("plan_check", "patch_check", "behavior_catalog_check")


class Scope(NamedTuple):
    """The path prefixes that a patch may touch, and may not. None is what the plan doesn't say."""

    allow: tuple[str, ...] | None
    deny: tuple[str, ...] | None


def check_plan(documents: Documents, report: Report) -> Scope | None:
    """The plan's scope. None if there is no plan."""
    content_of(documents, PLAN_DRAFT, report)
    content = content_of(documents, PLAN, report)
    if content is None:
        return None
    keys = key_lines(content)
    status = keys.get("status")
    if status is None or status.value != "SIGNED":
        fault = "is missing" if status is None else f"is {quoted(status.value)}"
        _add_on_plan(
            report, "status", f"'Status' {fault}; write SIGNED", None if status is None else status.line
        )
    for name in _WANTED:
        section = keys.get(name.lower())
        if section is None or not section.items:
            fault = "missing" if section is None else "empty"
            _add_on_plan(
                report, "field", f"{quoted(name)} is {fault}", None if section is None else section.line
            )
    if "scope-deny" not in keys:
        _add_on_plan(report, "field", "'Scope-Deny' is missing; write none if nothing is denied")
    gates = keys.get("gates")
    named = () if gates is None else gates.items
    if "lite" not in named:
        fault = "is missing" if gates is None else "lacks 'lite'"
        _add_on_plan(report, "gates", f"'Gates' {fault}", None if gates is None else gates.line)
    later = [name for name in _LATER if name.lower() not in keys]
    later += [name for name in _LATER_GATES if name not in named]
    if later:
        _add_on_plan(report, "later_key", f"version 0.2 also asks for {', '.join(later)}")
    allow, deny = keys.get("scope-allow"), keys.get("scope-deny")
    return Scope(
        allow.items if allow is not None and allow.items else None, None if deny is None else deny.items
    )


def _add_on_plan(report: Report, rule: str, message: str, line: int | None = None) -> None:
    report.add(rule, message, line, PLAN)


REVIEW_OF_CONTRACT: Final = "reviews/review_contract.md"
REVIEW_OF_COST: Final = "reviews/review_cost.md"

_VERDICT: Final = b"verdict:"
_NEEDED: Final = ("Blocking Reasons", "Required Fix/Artifacts")


def check_reviews(documents: Documents, report: Report) -> None:
    """Check both reviews."""
    for path in (REVIEW_OF_CONTRACT, REVIEW_OF_COST):
        content = content_of(documents, path, report)
        if content is not None:
            _check_review(path, content, report)


def _check_review(path: str, content: bytes | bytearray, report: Report) -> None:
    number, word = _verdict(content)
    if word == "BLOCK":
        keys = key_lines(content)
        lacking = [name for name in _NEEDED if name.lower() not in keys or not keys[name.lower()].items]
        for name in lacking:
            report.add("field", f"blocks, and {quoted(name)} is missing or empty", number, path)
        if not lacking:
            report.add("block", "blocks, and says why", number, path)
    elif word != "APPROVE":
        fault = (
            "has no line that begins with 'Verdict:'" if word is None else f"the verdict is {quoted(word)}"
        )
        report.add("verdict", f"{fault}; write APPROVE or BLOCK", number, path)


def _verdict(content: bytes | bytearray) -> tuple[int | None, str | None]:
    """What the first verdict says, and its line."""
    # The first counts: further down, a review may quote another one.
    for number, line in enumerate(bytes(content).split(b"\n"), 1):
        if line[: len(_VERDICT)].lower() == _VERDICT:
            return number, line[len(_VERDICT) :].decode(errors="replace").strip()
    return None, None


PATCH: Final = "artifacts/diff.patch"

_MOST_FILES: Final = 5
_MOST_ADDED: Final = 400
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_GIT: Final = frozenset({".git", "git~1"})  # the second is the short name that Windows gives the first


def check_patch(documents: Documents, report: Report) -> None:
    """Check the patch, also against the plan's scope if that can be read."""
    content = lined_content_of(documents, PATCH, report)
    if content is None:
        return
    # What is wrong with the plan is contract F's: here it goes into a report that nobody reads.
    scope = check_plan(documents, Report("F", PLAN)) or Scope(None, None)
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
    # Where such a path leads depends on the reader, so whether it is in the scope can't be said.
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


VERIFY_REPORT: Final = "artifacts/verify_report.json"
TRACE: Final = "TRACE.md"
BUNDLE: Final = "failure_bundle.zip"

MOST_ENTRIES: Final = 10_000
MOST_UNPACKED: Final = 1 << 30

_RESULTS: Final = ("PASS", "FAIL")
_GATES: Final = ("lite", "full")
_IN_BUNDLE: Final = (
    TRACE,
    "events.jsonl",
    VERIFY_REPORT,
    "artifacts/PLAN.md",
    "artifacts/diff.patch",
    "reviews/",
    "outbox/",
)


class Verified(NamedTuple):
    """What the report says: its result if it is a valid one, and the bundle that it names."""

    result: str | None
    bundle: str | None


def named_bundle(documents: Documents) -> str | None:
    """The file that the report names as its bundle, for callers that have to check whether it is there."""
    report = check_verify_report(documents, Report("I", VERIFY_REPORT))
    return None if report is None else report.bundle


def check_verify_report(documents: Documents, report: Report) -> Verified | None:
    """What the report says. None if there is no such file that can be read."""
    _check_beside(documents, report)
    fields = fields_of(documents, VERIFY_REPORT, None, report)
    if fields is None:
        return None
    result, gate = fields.text("result"), fields.text("gate")
    if gate is not None and gate not in _GATES:
        fields.report("gate", f"is {quoted(gate)}; write 'lite' or 'full'", "gate")
    codes: list[int | None] = []
    for each in fields.tables("commands"):
        each.text("cmd")
        codes.append(each.whole("exit_code"))
    failures = 0
    for each in fields.tables("failures"):
        failures += 1
        for key in ("kind", "id", "message"):
            each.text(key)
    if result is not None and result not in _RESULTS:
        fields.report("result", f"is {quoted(result)}; write 'PASS' or 'FAIL'", "result")
        result = None
    # A list that is missing has its own finding: what it would say must not contradict the result as well.
    if result is not None and all(isinstance(fields.optional(key), list) for key in ("commands", "failures")):
        _check_result(result, codes, failures, fields)
    return Verified(result, _bundle(fields, documents))


def _check_result(result: str, codes: list[int | None], failures: int, fields: Fields) -> None:
    failed = [code for code in codes if code not in (0, None)]
    if result == "PASS":
        if failures or failed:
            fault = f"{failures} failures are listed" if failures else f"a command's exit code is {failed[0]}"
            fields.report("contradiction", f"is PASS, and {fault}", "result")
    elif failures or failed:
        fields.report("fail", "is FAIL, with its failures", "result")
    elif None not in codes:
        fields.report("contradiction", "is FAIL, without a failure or an exit code other than 0", "result")


def _bundle(fields: Fields, documents: Documents) -> str | None:
    """The bundle that the report names, which must be there."""
    artifacts = fields.table("artifacts")
    if artifacts is None:
        return None
    artifacts.text("trace")
    name = artifacts.optional("bundle")
    if name is None or name == "":
        return None
    if not isinstance(name, str):
        artifacts.report("field", "must be a text", "bundle")
        return None
    if not documents.is_there(name):
        artifacts.report(
            "no_bundle", f"names {quoted(name)}, which does not exist in the run directory", "bundle"
        )
    return name


def _check_beside(documents: Documents, report: Report) -> None:
    if documents.document(TRACE).state == "absent" and not report.allows_missing:
        report.add("no_trace", "the file does not exist", path=TRACE)
    if documents.bundle is not None:
        _check_bundle(documents.bundle, report)


def _check_bundle(bundle: ZipDirectory, report: Report) -> None:
    if bundle.is_too_large or len(bundle.entries) > MOST_ENTRIES:
        report.add("bundle_size", f"has more than {MOST_ENTRIES:,} entries", path=BUNDLE)
        return
    if bundle.problem is not None:
        report.add("not_a_zip", bundle.problem, path=BUNDLE)
        return
    # Only the directory is ever read. Unpacking is what a zip bomb waits for.
    unpacked = sum(each.size for each in bundle.entries)
    if unpacked > MOST_UNPACKED:
        message = f"states {unpacked:,} bytes unpacked, which is over 1 GiB; it was not unpacked"
        report.add("bundle_size", message, path=BUNDLE)
    for each in bundle.entries:
        parts = each.name.replace("\\", "/").split("/")
        if parts[0] == "" or ".." in parts or _DRIVE.match(each.name) or "\0" in each.name:
            report.add("bundle_path", f"{quoted(each.name)} leads outside", path=BUNDLE)
    names = {each.name for each in bundle.entries}
    lacking = [name for name in _IN_BUNDLE if not any(_is_in(name, each) for each in names)]
    if lacking:
        report.add("bundle_names", f"lacks {', '.join(lacking)}", path=BUNDLE)


def _is_in(name: str, entry: str) -> bool:
    return entry.startswith(name) if name.endswith("/") else entry == name


EVENTS: Final = "events.jsonl"
RUN: Final = "RUN.json"

_ENDS: Final = {"pass": "PASS", "fail": "FAIL"}


def check_events(documents: Documents, report: Report) -> None:
    """Check every line, and that the run's own end and its report agree."""
    _check_end(documents, report)
    content = lined_content_of(documents, EVENTS, report)
    if content is None:
        return
    events = 0
    for number, line in _lines(content):
        if report.is_full:
            return
        if line is None:
            report.add("too_large", f"the line is over {MOST_BYTES >> 20} MiB", number)
            events += 1
        elif line and not line.isspace():
            events += 1
            event = read_line(line)
            if isinstance(event, LineFault):
                report.add(event.rule, event.message, number)
            elif time_at(str(event["ts"]), 0) is None:
                report.add("time", f"ts is {quoted(event['ts'])}, which is not a time", number)
    if not events:
        report.add("no_events", "contains nothing")


def _lines(content: bytes | bytearray) -> Iterator[tuple[int, bytes | None]]:
    """The lines with their numbers. None for a line that is too long."""
    start = number = 0
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end == -1 else end
        number += 1
        yield number, bytes(content[start:end]) if end - start <= MOST_BYTES else None
        start = end + 1


def _check_end(documents: Documents, report: Report) -> None:
    verify_report = check_verify_report(documents, Report("I", VERIFY_REPORT))
    run = documents.document(RUN)
    value = read_json(bytes(run.content)) if run.state == "file" else None
    status = value.get("status") if isinstance(value, dict) else None
    end = _ENDS.get(status) if isinstance(status, str) else None
    if (
        verify_report is not None
        and end is not None
        and verify_report.result is not None
        and end != verify_report.result
    ):
        message = f"status is {quoted(status)}, and the verification's result is {verify_report.result}"
        report.add("other_end", message, path=RUN)
