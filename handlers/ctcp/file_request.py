"""Contract B: `artifacts/file_request.json`, the files that the chair asks the librarian for."""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import quoted
from runward.handlers.ctcp.documents import Documents
from runward.handlers.ctcp.json_fields import Fields, fields_of
from runward.handlers.ctcp.report import Report

PATH: Final = "artifacts/file_request.json"
SCHEMA: Final = "ctcp-file-request-v1"

_MODES: Final = ("full", "snippets")


class Request(NamedTuple):
    """What was asked for, and the budget. None is what the file doesn't state correctly."""

    paths: tuple[str, ...] | None
    max_files: int | None
    max_total_bytes: int | None


def check(documents: Documents, report: Report) -> Request | None:
    """The request. None if there is no such file that can be read."""
    fields = fields_of(documents, PATH, SCHEMA, report)
    if fields is None:
        return None
    fields.text("goal")
    fields.text("reason")
    paths: list[str | None] = [_need(need, report) for need in fields.tables("needs")]
    budget = fields.table("budget")
    files = size = None
    if budget is not None:
        files, size = budget.whole("max_files"), budget.whole("max_total_bytes")
        for key, number in (("max_files", files), ("max_total_bytes", size)):
            if number is not None and number < 1:
                budget.report("below_one", f"is {number}", key)
    known = [path for path in paths if path is not None]
    said = fields.optional("needs")
    is_whole = isinstance(said, list) and len(known) == len(said)
    return Request(tuple(known) if is_whole else None, files, size)


def _need(need: Fields, report: Report) -> str | None:
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
