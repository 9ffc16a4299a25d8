"""Contract E: `artifacts/find_web.json`, what was found on the web. It may be absent."""

from collections.abc import Sequence
from typing import Final

from pydantic_core import Url

from runward.config.json_value import JsonValue
from runward.config.problem import kind, quoted
from runward.handlers.ctcp import guardrails
from runward.handlers.ctcp.documents import Documents, why_unread
from runward.handlers.ctcp.guardrails import Guardrails
from runward.handlers.ctcp.json_fields import Fields, fields_of
from runward.handlers.ctcp.report import Report

PATH: Final = "artifacts/find_web.json"
SCHEMA: Final = "ctcp-find-web-v1"

_LOCATORS: Final = ("heading", "anchor", "line_range", "offset")
_TEXTS: Final = ("fetched_at", "excerpt", "why_relevant")


def check(documents: Documents, report: Report) -> None:
    """Check the findings, also against the guardrails if those can be read."""
    document = documents.document(PATH)
    if document.state == "absent":
        return
    rails = guardrails.check(documents, Report("A", guardrails.PATH))
    if rails is not None and rails.find_mode == guardrails.RESOLVER_ONLY:
        report.add("not_enabled", f"exists, and find_mode is {guardrails.RESOLVER_ONLY}")
        return
    if document.state in ("not_regular", "denied"):
        report.add("not_readable", why_unread(document) or "")
        return
    fields = fields_of(documents, PATH, SCHEMA, report)
    if fields is None:
        return
    constraints = fields.table("constraints")
    domains, most = None, None
    if constraints is not None:
        domains, most = constraints.texts("allow_domains"), constraints.whole("max_pages")
        queries = constraints.whole("max_queries")
        if rails is not None and rails.find_mode == guardrails.PLUS_WEB:
            _compare(constraints, rails, domains, queries, most)
    pages: set[str] = set()
    for each in fields.tables("results"):
        url = _result(each, domains)
        if url is not None:
            pages.add(url.partition("#")[0])
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
        found = locator.text("type")
        locator.text("value")
        if found is not None and found not in _LOCATORS:
            locator.report("locator", f"is {quoted(found)}; write one of {', '.join(_LOCATORS)}", "type")
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
