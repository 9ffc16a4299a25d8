"""Sessions, and one session with what its contract expects."""

import shlex
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading_failures import is_seen
from runward.daemon.store.reading_sessions import SessionRow, Wanted
from runward.daemon.studio.cards import card
from runward.daemon.studio.filters import Filters
from runward.daemon.studio.pages import Entry, Form, Pages
from runward.daemon.studio.rendering import PAGE, address, page
from runward.daemon.views.expected_artifacts import disagreement, expected_artifacts, not_delivered
from runward.daemon.views.sessions import (
    FAILED,
    STATUSES,
    newest_sessions,
    session_as_json,
    session_with_key,
    sessions_as_json,
)

if TYPE_CHECKING:
    from runward.handlers.events import SessionSeenRequested

_FILTERS: Final = (
    *("status", "failed", "layout", "root", "playbook", "agent", "cwd", "since", "search", "after"),
)


class SessionPages(Pages):
    """The list, and the page of a session."""

    entry = Entry("Sessions", "/sessions")

    def routes(self) -> list[Route]:
        """The list, and one session, which a person can mark as seen."""
        return [
            self.route("/sessions", self.listing),
            self.route("/sessions/{key:path}", self.one, {"seen": _seen}),
        ]

    async def listing(self, request: Request) -> Response:
        """The newest sessions that the filters in the address want."""
        wanted = _wanted(request)

        def look(
            connection: sqlite3.Connection, settings: Settings
        ) -> tuple[list[JsonValue], SessionRow | None]:
            rows, is_cut = newest_sessions(connection, settings, wanted, PAGE)
            return sessions_as_json(connection, settings, rows), rows[-1] if is_cut else None

        sessions, last = await self.read(request, look)
        return page(
            request,
            "sessions.html",
            {"sessions": sessions},
            older=None if last is None else _older(request, last),
            chosen=dict(request.query_params),
            statuses=STATUSES,
        )

    async def one(self, request: Request) -> Response:
        """Everything about a session."""
        key = request.path_params["key"]

        def look(connection: sqlite3.Connection, settings: Settings) -> "_Read | None":
            row = session_with_key(connection, settings, key)
            if row is None:
                return None
            is_unseen = row.status in FAILED and not is_seen(connection, row.key, row.attempt)
            shown = session_as_json(connection, settings, row, lambda _: None)
            return _Read(shown, not_delivered(connection, row.key), is_unseen)

        found = await self.read(request, look)
        if found is None:
            raise _no_session(key)
        session = found.session
        reason = session["reason"]
        assert isinstance(reason, dict), "our own JSON"
        return page(
            request,
            "session.html",
            {"session": session},
            facts=_facts(session),
            is_unseen=found.is_unseen,
            cards=[card(each, session) for each in _objects(session["artifacts"])],
            expected=expected_artifacts(session["contract"], session["verification"], found.not_delivered),
            disagreement=disagreement(str(session["status"]), str(reason["code"]), session["verification"]),
        )


class _Read(NamedTuple):
    session: dict[str, JsonValue]
    not_delivered: dict[str, str]
    is_unseen: bool


def _no_session(key: str) -> HTTPException:
    return HTTPException(404, f"There is no session {key}. It may have been pruned, or is not judged yet.")


def _seen(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[SessionSeenRequested]":
    from runward.handlers.events import SessionSeenRequested

    row = session_with_key(connection, settings, request.path_params["key"])
    if row is None:
        raise _no_session(request.path_params["key"])
    return [SessionSeenRequested(form.request, form.now, row.key, row.attempt)]


def _wanted(request: Request) -> Wanted:
    """What the filters in the address want. Raises `HTTPException`."""
    given = Filters(request, _FILTERS)
    failed = FAILED if given.one("failed") else ()
    return Wanted(
        (*given.all("status", STATUSES), *failed),
        given.all("layout"),
        given.all("root"),
        given.all("playbook"),
        given.all("agent"),
        given.moment("since"),
        given.one("search"),
        given.one("cwd"),
        given.after("after"),
    )


def _older(request: Request, last: SessionRow) -> str:
    """The address of the page after the one that ends with this session."""
    return address(request, after=f"{last.started_at!r},{last.key}")


def _facts(session: dict[str, JsonValue]) -> list[tuple[str, str]]:
    """What is known of a session, in words, by name; without what is not known."""
    usage, command = session["usage"], session["command"]
    tokens = None
    if isinstance(usage, dict):
        tokens = f"{usage['input_tokens']} in, {usage['output_tokens']} out"
    values = {
        "Playbook": session["playbook"],
        "Agent": session["agent"],
        "Model": session["model"],
        "Started": session["started_at"],
        "Finished": session["finished_at"],
        "Attempt": session["attempt"],
        "Delivery": session["delivery"],
        "Evidence of the end": session["ended_by"],
        "Contract": session["contract_basis"],
        "Containment": session["containment"],
        "Tokens": tokens,
        "Command": shlex.join(map(str, command)) if isinstance(command, list) else None,
        "Directory": session["cwd"],
        "Path": session["path"],
    }
    return [(name, str(value)) for name, value in values.items() if value is not None]


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
