"""Outcomes: what sessions found out, as cards."""

import sqlite3
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading_artifacts import (
    Newest,
    Wanted,
    artifact_with,
    has_artifacts,
    newest_artifacts,
)
from runward.daemon.store.reading_sessions import session
from runward.daemon.studio.cards import card
from runward.daemon.studio.filters import Filters
from runward.daemon.studio.pages import Entry, Pages
from runward.daemon.studio.rendering import PAGE, address, page
from runward.daemon.views.outcomes import outcomes_as_json
from runward.daemon.views.sessions import sessions_as_json

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
            older=part.last and address(request, after=f"{part.last[0]!r},{part.last[1]}"),
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

        found = await self.read(request, look)
        if found is None:
            raise HTTPException(404, f"There is no outcome {identifier}.")
        outcome, by = found
        assert isinstance(outcome, dict), "our own JSON"
        shown = card(outcome, by if isinstance(by, dict) else None)
        return page(request, "outcome.html", {"outcome": outcome}, card=shown)


def _wanted(given: Filters) -> Wanted:
    """What the filters in the address want. Raises `HTTPException`."""
    return Wanted(
        given.one("kind"),
        given.one("passed", _PASSED),
        given.one("session"),
        given.one("chain_run"),
        given.moment("since"),
        PAGE,
    )
