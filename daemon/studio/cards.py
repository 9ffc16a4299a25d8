"""Outcomes: what sessions found out, as cards. A template for each kind, and JSON for kinds that have none.

A package can add a card for its own kind through an entry point in the group `runward.cards`: its name is the kind, and it
refers to the path of a template. The template gets `outcome` (as `artifact show --json` prints it), `content` and `session`.
"""

import sqlite3
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, NamedTuple

from jinja2 import Template
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.store.tables.artifacts import (
    Newest,
    Wanted,
    artifact_with,
    has_artifacts,
    newest_artifacts,
)
from runward.daemon.store.tables.sessions import session
from runward.daemon.studio.filters import Filters, place_of
from runward.daemon.studio.pages import Entry, Pages
from runward.daemon.studio.rendering import PAGE, address, bounded_json, page, template_at, template_called
from runward.daemon.views.outcomes import outcomes_as_json
from runward.daemon.views.sessions import sessions_as_json

ENTRY_POINT: Final = "runward.cards"

_HERE: Final = Path(__file__).parent / "templates" / "cards"
_GROUPS: Final = {"critical": "major", "high": "major", "medium": "minor", "low": "minor"}
_ANY: Final = "cards/any.html"
_LONG: Final = 20
"""Lines of JSON that are shown without a click."""


class Finding(NamedTuple):
    """A finding of a review. `group` is `major`, `minor` or `info`; texts are empty where the producer gave none."""

    group: str
    title: str
    place: str
    evidence: str
    suggestion: str
    category: str
    is_blocking: bool


def card(outcome: Mapping[str, JsonValue], session: Mapping[str, JsonValue] | None) -> Markup:
    """The card of an outcome; `session` is the one that produced it, if it is known."""
    content = outcome["content"]
    kind = str(outcome["kind"])
    text = bounded_json(content)
    values = {
        "outcome": outcome,
        "content": content if isinstance(content, dict) else {},
        "session": session,
        "findings": findings_of(content),
        "categories": _categories(content),
        "as_json": text,
        "is_long": text.count("\n") >= _LONG,
        "problem": None,
    }
    if not isinstance(content, dict):
        return _rendered(template_called(_ANY), values)
    # Our own first: another package can add a kind, and not take one over.
    if kind in _own_kinds():
        return _rendered(template_called(f"cards/{kind}.html"), values)
    added = _added().get(kind)
    if added is None:
        return _rendered(template_called(_ANY), values)
    try:
        return _rendered(template_at(str(added.load())), values)
    except Exception as error:  # noqa: BLE001 # it is another package's: the outcome is shown all the same
        values["problem"] = f"{added.value}: {type(error).__name__}: {error}"
        return _rendered(template_called(_ANY), values)


def _rendered(template: Template, values: Mapping[str, object]) -> Markup:
    return Markup(template.render(values))  # noqa: S704 # the template escapes what it is given


def findings_of(content: JsonValue) -> list[Finding]:
    """The findings of a review or a linter, in their order."""
    return [
        _finding(each) for each in objects(content.get("findings") if isinstance(content, dict) else None)
    ]


def _finding(value: Mapping[str, JsonValue]) -> Finding:
    group = _GROUPS.get(str(value.get("severity")), "info")
    described, _, rest = _text(value, "description").partition("\n")
    title = _text(value, "title")
    line = value.get("line")
    place = _text(value, "file") + (f":{line}" if isinstance(line, int) else "")
    return Finding(
        group=group,
        title=title or described,
        place=place,
        evidence=_text(value, "evidence") or (_text(value, "description") if title else rest.strip()),
        suggestion=_text(value, "suggestion"),
        category=_text(value, "category"),
        is_blocking=group == "major" or value.get("required") is True,
    )


def _categories(content: JsonValue) -> list[tuple[str, int]]:
    """How many findings each category has: the most first, then by name."""
    counted = Counter(each.category for each in findings_of(content) if each.category)
    return sorted(counted.items(), key=lambda each: (-each[1], each[0]))


def _text(value: Mapping[str, JsonValue], key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""


@cache
def _own_kinds() -> frozenset[str]:
    return frozenset(each.stem for each in _HERE.glob("*.html") if each.name != Path(_ANY).name)


@cache
def _added() -> dict[str, EntryPoint]:
    """The cards of other packages, by kind."""
    return {each.name: each for each in entry_points(group=ENTRY_POINT)}


_FILTERS: Final = ("kind", "passed", "session", "chain_run", "since", "after")
_PASSED: Final = ("true", "false", "null")


class OutcomePages(Pages):
    """The list, and the page of an outcome."""

    entry = Entry("Outcomes", "/outcomes", lambda connection, _: has_artifacts(connection))

    def routes(self) -> list[Route]:
        """The list, and one outcome."""
        return [self.route("/outcomes", self.listing), self.route("/outcomes/{identifier}", self.one)]

    async def listing(self, request: Request) -> Response:
        """The newest outcomes that the filters in the address want."""
        given = Filters(request, _FILTERS)
        wanted, after = _wanted(given), given.after("after")

        def look(connection: sqlite3.Connection, settings: Settings) -> tuple[list[JsonValue], Newest]:
            part = newest_artifacts(connection, wanted, after)
            return outcomes_as_json(settings, part.rows), part

        outcomes, part = await self.read(request, look)
        chosen = {name: given.one(name) for name in _FILTERS[:-1] if given.one(name) is not None}
        return page(
            request,
            "outcomes.html",
            {"outcomes": outcomes},
            older=part.last and address(request, after=place_of(*part.last)),
            is_searched=part.is_searched,
            chosen=chosen,
            without=[
                (name, value, address(request, **{name: None, "after": None}))
                for name, value in chosen.items()
            ],
        )

    async def one(self, request: Request) -> Response:
        """An outcome as a card, and the session that produced it."""
        identifier = request.path_params["identifier"]

        def look(connection: sqlite3.Connection, settings: Settings) -> tuple[JsonValue, JsonValue] | None:
            row = artifact_with(connection, identifier)
            if row is None:
                return None
            by = session(connection, row.session_key)
            producers = [] if by is None else sessions_as_json(connection, settings, [by])
            return outcomes_as_json(settings, [row])[0], next(iter(producers), None)

        artifact = await self.read(request, look)
        if artifact is None:
            raise HTTPException(404, f"There is no outcome {identifier}.")
        outcome, by = artifact
        assert isinstance(outcome, dict), "our own JSON"
        shown = card(outcome, by if isinstance(by, dict) else None)
        return page(request, "outcome.html", {"outcome": outcome}, card=shown)


def _wanted(given: Filters) -> Wanted:
    """What the filters in the address want. Raises `HTTPException`."""
    return Wanted(
        kind=given.one("kind"),
        passed=given.one("passed", _PASSED),
        session=given.one("session"),
        chain_run=given.one("chain_run"),
        since=given.moment("since"),
        limit=PAGE,
    )
