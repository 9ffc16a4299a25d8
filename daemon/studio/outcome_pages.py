"""Outcomes: what sessions found out, as cards."""

from collections.abc import Callable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.store.reading import reading
from runward.daemon.store.reading_artifacts import Wanted, artifacts, artifacts_called
from runward.daemon.store.reading_sessions import session
from runward.daemon.studio.cards import card
from runward.daemon.studio.filters import Filters
from runward.daemon.studio.rendering import PAGE, page
from runward.daemon.views.outcomes import outcomes_as_json
from runward.daemon.views.sessions import sessions_as_json

_FILTERS: Final = ("kind", "passed", "session", "chain_run", "since")
_PASSED: Final = ("true", "false", "null")


class OutcomePages:
    """The list, and the page of an outcome. `settings` are those in force at any moment."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    async def listing(self, request: Request) -> Response:
        """The newest outcomes that the filters in the address want."""
        wanted, settings = _wanted(request), self._settings()

        def read() -> list[JsonValue]:
            with reading(settings.state_dir) as connection:
                return outcomes_as_json(settings, artifacts(connection, wanted))

        outcomes = await in_thread(read)
        return page(
            request,
            "outcomes.html",
            {"outcomes": outcomes[:PAGE]},
            is_cut=len(outcomes) > PAGE,
            chosen=dict(request.query_params),
        )

    async def one(self, request: Request) -> Response:
        """An outcome as a card, and the session that produced it."""
        identifier, settings = request.path_params["identifier"], self._settings()

        def read() -> tuple[JsonValue, JsonValue] | None:
            with reading(settings.state_dir) as connection:
                row = next(
                    (each for each in artifacts_called(connection, identifier) if each.id == identifier), None
                )
                if row is None:
                    return None
                by = session(connection, row.session_key)
                told = [] if by is None else sessions_as_json(connection, settings, [by])
                return outcomes_as_json(settings, [row])[0], next(iter(told), None)

        found = await in_thread(read)
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
