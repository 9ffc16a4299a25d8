"""Contract C: `artifacts/context_pack.json`, the files that the librarian hands out, and those that it omits."""

from typing import Final

from runward.config.problem import quoted
from runward.handlers.ctcp import file_request
from runward.handlers.ctcp.documents import Documents
from runward.handlers.ctcp.json_fields import Fields, fields_of
from runward.handlers.ctcp.report import Report

PATH: Final = "artifacts/context_pack.json"
SCHEMA: Final = "ctcp-context-pack-v1"

_REASONS: Final = ("too_large", "denied", "irrelevant")
_LATER_REASONS: Final = ("not_found", "invalid_request", "budget_exceeded")


def check(documents: Documents, report: Report) -> None:
    """Check the pack, also against the request if that can be read."""
    fields = fields_of(documents, PATH, SCHEMA, report)
    if fields is None:
        return
    for key in ("goal", "repo_slug", "summary"):
        fields.text(key)
    request = file_request.check(documents, Report("B", file_request.PATH))
    requested = None
    if request is not None and request.paths is not None:
        requested = frozenset(_plain(path) for path in request.paths)
    answered: set[str] = set()
    count = size = 0
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
