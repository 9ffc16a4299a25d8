"""Contracts A to E: how files and the web may be searched, what was asked for, and what was found."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic_core import Url

from runward.config.json_value import JsonValue
from runward.config.problem import kind, quoted
from runward.handlers.ctcp.documents import (
    Documents,
    Fields,
    KeyLine,
    content_of,
    fields_of,
    key_lines,
    why_unread,
)
from runward.handlers.ctcp.rules import Report

GUARDRAILS: Final = "artifacts/guardrails.md"
RESOLVER_ONLY: Final = "resolver_only"
PLUS_WEB: Final = "resolver_plus_web"

_ALWAYS: Final = ("max_files", "max_total_bytes", "max_iterations")
_WEB: Final = ("max_queries", "max_pages")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,400}")


class Guardrails(NamedTuple):
    """What the guardrails say. None is what they don't say."""

    find_mode: str | None
    allow_domains: tuple[str, ...] | None
    max_queries: int | None
    max_pages: int | None


def check_guardrails(documents: Documents, report: Report) -> Guardrails | None:
    """The guardrails. None if there is no such file."""
    content = content_of(documents, GUARDRAILS, report)
    if content is None:
        return None
    keys = key_lines(content)
    mode = keys.get("find_mode")
    find_mode = mode.value if mode is not None and mode.value in (RESOLVER_ONLY, PLUS_WEB) else None
    if mode is None or not mode.value:
        report.add("field", f"'find_mode' is missing; write {RESOLVER_ONLY} or {PLUS_WEB}", _line(mode))
    elif find_mode is None:
        message = f"find_mode is {quoted(mode.value)}; write {RESOLVER_ONLY} or {PLUS_WEB}"
        report.add("find_mode", message, mode.line)
    wanted = (*_ALWAYS, *_WEB) if find_mode == PLUS_WEB else _ALWAYS
    numbers = {key: _guardrail_number(key, keys.get(key), report) for key in wanted}
    domains = keys.get("allow_domains")
    if find_mode == PLUS_WEB and (domains is None or not domains.items):
        message = f"'allow_domains' is missing or empty, and find_mode is {PLUS_WEB}"
        report.add("field", message, _line(domains))
    return Guardrails(
        find_mode,
        None if domains is None else domains.items or None,
        numbers.get("max_queries"),
        numbers.get("max_pages"),
    )


def _guardrail_number(key: str, line: KeyLine | None, report: Report) -> int | None:
    if line is None or not _WHOLE.fullmatch(line.value):
        what = "is missing" if line is None else f"is {quoted(line.value)}, which is not a whole number"
        report.add("field", f"{quoted(key)} {what}", _line(line))
        return None
    number = int(line.value)
    if number < 1:
        report.add("below_one", f"{key} is {number}", line.line)
    return number


def _line(line: KeyLine | None) -> int | None:
    return None if line is None else line.line


FILE_REQUEST: Final = "artifacts/file_request.json"
_FILE_REQUEST_SCHEMA: Final = "ctcp-file-request-v1"

_MODES: Final = ("full", "snippets")


class Request(NamedTuple):
    """What was asked for, and the budget. None is what the file doesn't state correctly."""

    paths: tuple[str, ...] | None
    max_files: int | None
    max_total_bytes: int | None


def check_file_request(documents: Documents, report: Report) -> Request | None:
    """The request. None if there is no such file that can be read."""
    fields = fields_of(documents, FILE_REQUEST, _FILE_REQUEST_SCHEMA, report)
    if fields is None:
        return None
    fields.text("goal")
    fields.text("reason")
    paths: list[str | None] = [_need(need) for need in fields.tables("needs")]
    budget = fields.table("budget")
    files = size = None
    if budget is not None:
        files, size = budget.whole("max_files"), budget.whole("max_total_bytes")
        for key, number in (("max_files", files), ("max_total_bytes", size)):
            if number is not None and number < 1:
                budget.report("below_one", f"is {number}", key)
    known = [path for path in paths if path is not None]
    needs = fields.optional("needs")
    is_whole = isinstance(needs, list) and len(known) == len(needs)
    return Request(tuple(known) if is_whole else None, files, size)


def _need(need: Fields) -> str | None:
    path, mode = need.text("path"), need.text("mode")
    if mode is not None and mode not in _MODES:
        need.report("mode", f"is {quoted(mode)}; write 'full' or 'snippets'", "mode")
    ranges = need.optional("line_ranges")
    if ranges is not None:
        _check_ranges(ranges, need)
    return path


def _check_ranges(ranges: JsonValue, need: Fields) -> None:
    if not isinstance(ranges, list):
        need.report("line_ranges", "is not a list of pairs", "line_ranges")
        return
    for index, pair in enumerate(ranges):
        match pair:
            case [int() as first, int() as last] if not isinstance(first, bool) and not isinstance(
                last, bool
            ):
                if last < first:
                    need.report(
                        "reversed_range", f"ends before it begins: [{first}, {last}]", "line_ranges", index
                    )
            case _:
                need.report("line_ranges", "is not a pair of whole numbers", "line_ranges", index)


CONTEXT_PACK: Final = "artifacts/context_pack.json"
_CONTEXT_PACK_SCHEMA: Final = "ctcp-context-pack-v1"

_REASONS: Final = ("too_large", "denied", "irrelevant")
_LATER_REASONS: Final = ("not_found", "invalid_request", "budget_exceeded")


def check_context_pack(documents: Documents, report: Report) -> None:
    """Check the pack, also against the request if that can be read."""
    fields = fields_of(documents, CONTEXT_PACK, _CONTEXT_PACK_SCHEMA, report)
    if fields is None:
        return
    for key in ("goal", "repo_slug", "summary"):
        fields.text(key)
    request = check_file_request(documents, Report("B", FILE_REQUEST))
    requested = None
    if request is not None and request.paths is not None:
        requested = frozenset(_plain(path) for path in request.paths)
    answered: set[str] = set()
    count = size = 0
    # Once an entry has no path, nothing can be said about what is unanswered: it may be that one.
    is_whole = all(isinstance(fields.optional(key), list) for key in ("files", "omitted"))
    for each in fields.tables("files"):
        path, content = _included(each, requested)
        count += 1
        size += len(content.encode())
        is_whole &= path is not None
        answered.add(_plain(path or ""))
    for each in fields.tables("omitted"):
        path = _omitted(each)
        is_whole &= path is not None
        answered.add(_plain(path or ""))
    if request is None:
        return
    if request.max_files is not None and count > request.max_files:
        message = f"has {count} files, and the budget is {request.max_files}"
        fields.report("too_many_files", message, "files")
    if request.max_total_bytes is not None and size > request.max_total_bytes:
        message = f"has {size} bytes of content, and the budget is {request.max_total_bytes}"
        fields.report("too_many_bytes", message, "files")
    if request.paths is not None and is_whole:
        for path in dict.fromkeys(request.paths):
            if _plain(path) not in answered:
                fields.report(
                    "unanswered", f"{quoted(path)} was requested, and is neither included nor omitted"
                )


def _included(file: Fields, requested: frozenset[str] | None) -> tuple[str | None, str]:
    path, content = file.text("path"), file.text("content")
    file.text("why")
    if path is not None:
        if path.startswith("/") or _plain(path).split("/")[0] == "..":
            file.report("path", f"{quoted(path)} leads outside", "path")
        elif requested is not None and _plain(path) not in requested:
            file.report("not_requested", f"{quoted(path)} was not requested", "path")
    return path, content or ""


def _omitted(file: Fields) -> str | None:
    path, reason = file.text("path"), file.text("reason")
    if reason in _LATER_REASONS:
        file.report("later_reason", f"{quoted(reason)} is a reason of version 0.2", "reason")
    elif reason is not None and reason not in _REASONS:
        file.report("reason", f"is {quoted(reason)}; write one of {', '.join(_REASONS)}", "reason")
    return path


def _plain(path: str) -> str:
    """The path without redundant parts, so that two ways to write it compare equal."""
    way: list[str] = []
    for part in path.split("/"):
        if part == ".." and way and way[-1] != "..":
            way.pop()
        elif part not in ("", "."):
            way.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(way)


FIND_RESULT: Final = "artifacts/find_result.json"
_FIND_RESULT_SCHEMA: Final = "ctcp-find-result-v1"


def check_find_result(documents: Documents, report: Report) -> None:
    """Check the selection and its candidates."""
    fields = fields_of(documents, FIND_RESULT, _FIND_RESULT_SCHEMA, report)
    if fields is None:
        return
    selected = fields.text("selected_workflow_id"), fields.text("selected_version")
    candidates: set[tuple[str, str]] = set()
    is_whole = isinstance(fields.optional("candidates"), list)
    for each in fields.tables("candidates"):
        workflow, version = each.text("workflow_id"), each.text("version")
        each.number("score")
        each.text("why")
        if workflow is None or version is None:
            is_whole = False
        else:
            candidates.add((workflow, version))
    if is_whole and None not in selected and selected not in candidates:
        message = f"{quoted(selected[0])} {quoted(selected[1])} is selected, and is not a candidate"
        fields.report("not_a_candidate", message)


WEB_FINDINGS: Final = "artifacts/find_web.json"
_WEB_FINDINGS_SCHEMA: Final = "ctcp-find-web-v1"

_LOCATORS: Final = ("heading", "anchor", "line_range", "offset")
_TEXTS: Final = ("fetched_at", "excerpt", "why_relevant")


def check_web_findings(documents: Documents, report: Report) -> None:
    """Check the findings, also against the guardrails if those can be read."""
    document = documents.document(WEB_FINDINGS)
    # The only optional document: a run that may not use the web has none.
    if document.state == "absent":
        return
    rails = check_guardrails(documents, Report("A", GUARDRAILS))
    if rails is not None and rails.find_mode == RESOLVER_ONLY:
        report.add("not_enabled", f"exists, and find_mode is {RESOLVER_ONLY}")
        return
    if document.state in ("not_regular", "denied"):
        report.add("not_readable", why_unread(document) or "")
        return
    fields = fields_of(documents, WEB_FINDINGS, _WEB_FINDINGS_SCHEMA, report)
    if fields is None:
        return
    constraints = fields.table("constraints")
    domains, most = None, None
    if constraints is not None:
        domains, most = constraints.texts("allow_domains"), constraints.whole("max_pages")
        queries = constraints.whole("max_queries")
        if rails is not None and rails.find_mode == PLUS_WEB:
            _compare(constraints, rails, domains, queries, most)
    pages: set[str] = set()
    for each in fields.tables("results"):
        url = _result(each, domains)
        if url is not None:
            pages.add(url.partition("#")[0])  # what is behind `#` is a place on the same page
    if most is not None and len(pages) > most:
        fields.report(
            "too_many_pages", f"has {len(pages)} different pages, and max_pages is {most}", "results"
        )


def _compare(
    constraints: Fields,
    rails: Guardrails,
    domains: Sequence[str] | None,
    queries: int | None,
    pages: int | None,
) -> None:
    for key, here, there in (
        ("max_queries", queries, rails.max_queries),
        ("max_pages", pages, rails.max_pages),
    ):
        if here is not None and there is not None and here > there:
            constraints.report("wider", f"is {here}, and the guardrails allow {there}", key)
    if domains is not None and rails.allow_domains is not None:
        for index, each in enumerate(domains):
            if not _is_allowed(each.lower(), rails.allow_domains):
                message = f"{quoted(each)} is not among the guardrails'"
                constraints.report("wider", message, "allow_domains", index)


def _result(result: Fields, domains: Sequence[str] | None) -> str | None:
    url = result.text("url")
    for key in _TEXTS:
        result.text(key)
    _check_flags(result.items("risk_flags"), result)
    locator = result.table("locator")
    if locator is not None:
        kind = locator.text("type")
        locator.text("value")
        if kind is not None and kind not in _LOCATORS:
            locator.report("locator", f"is {quoted(kind)}; write one of {', '.join(_LOCATORS)}", "type")
    if url is not None and domains is not None:
        host = _host(url)
        if host is None or not _is_allowed(host, domains):
            result.report("domain", f"{quoted(url)} is not on an allowed domain", "url")
    return url


def _check_flags(flags: list[JsonValue] | None, result: Fields) -> None:
    for index, each in enumerate(flags or ()):
        if not isinstance(each, str):
            result.report("field", f"must be a text, not {kind(each)}", "risk_flags", index)


def _host(url: str) -> str | None:
    """The host of a URL. None if there is none, or if readers may disagree about it."""
    # A browser takes `\` for `/` and drops tabs and line ends: it would go to another host than others read here.
    if "\\" in url or not url.isprintable() or " " in url:
        return None
    try:
        host = Url(url).host
    except ValueError:
        return None
    return host.rstrip(".") if host else None


def _is_allowed(host: str, domains: Sequence[str]) -> bool:
    allowed = (each.lower().strip(".") for each in domains)
    return any(each and (host == each or host.endswith(f".{each}")) for each in allowed)
