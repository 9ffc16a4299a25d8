"""Outcomes: what sessions found out, as cards."""

import sqlite3
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading_artifacts import Wanted, artifacts, artifacts_called
from runward.daemon.store.reading_sessions import session
from runward.daemon.studio.cards import card
from runward.daemon.studio.filters import Filters
from runward.daemon.studio.pages import Entry, Pages
from runward.daemon.studio.rendering import PAGE, page
from runward.daemon.views.outcomes import outcomes_as_json
from runward.daemon.views.sessions import sessions_as_json

_FILTERS: Final = ("kind", "passed", "session", "chain_run", "since")
_PASSED: Final = ("true", "false", "null")


class OutcomePages(Pages):
    """The list, and the page of an outcome."""

    entry = Entry("Outcomes", "/outcomes", lambda connection, _: bool(artifacts(connection, Wanted(limit=1))))

    def routes(self) -> list[Route]:
        """The list, and one outcome."""
        return [self.route("/outcomes", self.listing), self.route("/outcomes/{identifier}", self.one)]

    async def listing(self, request: Request) -> Response:
        """The newest outcomes that the filters in the address want."""
        wanted = _wanted(request)

        def look(connection: sqlite3.Connection, settings: Settings) -> list[JsonValue]:
            return outcomes_as_json(settings, artifacts(connection, wanted))

        outcomes = await self.read(request, look)
        return page(
            request,
            "outcomes.html",
            {"outcomes": outcomes[:PAGE]},
            is_cut=len(outcomes) > PAGE,
            chosen=dict(request.query_params),
        )

    async def one(self, request: Request) -> Response:
        """An outcome as a card, and the session that produced it."""
        identifier = request.path_params["identifier"]

        def look(connection: sqlite3.Connection, settings: Settings) -> tuple[JsonValue, JsonValue] | None:
            row = next(
                (each for each in artifacts_called(connection, identifier) if each.id == identifier), None
            )
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


def _wanted(request: Request) -> Wanted:
    """What the filters in the address want. Raises `HTTPException`."""
    given = Filters(request, _FILTERS)
    return Wanted(
        given.one("kind"),
        given.one("passed", _PASSED),
        given.one("session"),
        given.one("chain_run"),
        given.moment("since"),
        PAGE + 1,
    )
