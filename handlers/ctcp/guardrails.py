"""Contract A: `artifacts/guardrails.md`, how files and the web may be searched."""

import re
from typing import Final, NamedTuple

from runward.config.problem import quoted
from runward.handlers.ctcp.documents import Documents, content_of
from runward.handlers.ctcp.key_lines import KeyLine, key_lines
from runward.handlers.ctcp.report import Report

PATH: Final = "artifacts/guardrails.md"
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


def check(documents: Documents, report: Report) -> Guardrails | None:
    """The guardrails. None if there is no such file."""
    content = content_of(documents, PATH, report)
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
    numbers = {key: _number(key, keys.get(key), report) for key in wanted}
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


def _number(key: str, found: KeyLine | None, report: Report) -> int | None:
    if found is None or not _WHOLE.fullmatch(found.value):
        what = "is missing" if found is None else f"is {quoted(found.value)}, which is not a whole number"
        report.add("field", f"{quoted(key)} {what}", _line(found))
        return None
    number = int(found.value)
    if number < 1:
        report.add("below_one", f"{key} is {number}", found.line)
    return number


def _line(found: KeyLine | None) -> int | None:
    return None if found is None else found.line
