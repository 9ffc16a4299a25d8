"""Sessions, and one session with what its contract expects."""

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading_chains import search_end
from runward.daemon.store.reading_sessions import EVERY, SessionRow, Wanted
from runward.daemon.studio.file_page import DOWNLOAD, Opened, file_page, opened_file
from runward.daemon.studio.filters import Filters, Older, older
from runward.daemon.studio.pages import Entry, Form, Pages
from runward.daemon.studio.rendering import PAGE, in_address, page
from runward.daemon.studio.session_page import ReadSession, read_session, session_page
from runward.daemon.views.session_files import (
    LOGS,
    PARTS,
    NoFile,
    RecordedFile,
    delivered_file,
    journal_file,
    log_file,
    outcome_file,
    part_file,
)
from runward.daemon.views.sessions import (
    FAILED,
    STATUSES,
    newest_sessions,
    session_with_key,
    sessions_as_json,
    verification_of,
)

if TYPE_CHECKING:
    from runward.handlers.model.requests import SessionCancelRequested, SessionSeenRequested

_FILTERS: Final = (
    *("status", "failed", "layout", "root", "playbook", "agent", "cwd", "since", "search", "after"),
)


_FILES: Final = ("file", "log", "part", "outcome", DOWNLOAD, "text", "after")
_JOURNAL: Final = "journal"
_RUNNING: Final = Wanted(("running",))


WantedFile: TypeAlias = Callable[[sqlite3.Connection, Settings, SessionRow], RecordedFile]


class SessionPages(Pages):
    """The list, and the page of a session."""

    entry = Entry("Sessions", "/sessions")

    def routes(self) -> list[Route]:
        """The list, and one session, which a person can mark as seen."""
        return [
            self.route("/sessions", self.listing),
            self.route("/sessions/{key:path}", self.one, {"seen": _seen, "cancel": _cancel}),
        ]

    async def listing(self, request: Request) -> Response:
        """The newest sessions that the filters in the address want."""
        wanted = _wanted(request)
        # What runs is found by its open directory, so that no search is needed.
        is_search = wanted._replace(since=None, after=None) not in (EVERY, _RUNNING)

        def look(
            connection: sqlite3.Connection, settings: Settings
        ) -> tuple[list[JsonValue], dict[str, list[str]], Older]:
            end = search_end(connection, "sessions", wanted.after and wanted.after[0]) if is_search else None
            until = max((each for each in (wanted.since, end) if each is not None), default=None)
            rows, is_cut = newest_sessions(connection, settings, wanted._replace(since=until), PAGE)
            lacking = {each.key: _missing_optional(each) for each in rows}
            last = (rows[-1].started_at, rows[-1].key) if is_cut else None
            behind = older(request, last, end, wanted.since)
            return sessions_as_json(connection, settings, rows), lacking, behind

        sessions, lacking, behind = await self.read(request, look)
        return page(
            request,
            "sessions.html",
            {"sessions": sessions},
            lacking=lacking,
            older=behind,
            chosen=dict(request.query_params),
            statuses=STATUSES,
        )

    async def one(self, request: Request) -> Response:
        """Everything about a session, or one of its files."""
        key = request.path_params["key"]
        wanted = _wanted_file(request)
        if wanted is not None:
            return await self._file(request, key, wanted)
        text, after = request.query_params.get("text"), request.query_params.get("after")
        if text:
            return await self._text(request, key, text)

        def look(connection: sqlite3.Connection, settings: Settings) -> ReadSession | None:
            row = session_with_key(connection, settings, key)
            return None if row is None else _read(connection, settings, row, after)

        found = await self.read(request, look)
        if found is None:
            raise _no_session(key)
        return session_page(request, found)

    async def _text(self, request: Request, key: str, name: str) -> Response:
        """A text of the timeline that is too long to stand among the others."""
        from runward.daemon.views.timeline import NotOurs, Timeline

        def look(connection: sqlite3.Connection, settings: Settings) -> dict[str, JsonValue] | None:
            row = session_with_key(connection, settings, key)
            if row is None:
                raise _no_session(key)
            try:
                return Timeline(connection, settings, row).text(name)
            except NotOurs as error:
                raise HTTPException(400, f"text is {name!r}, which no page links to.") from error

        found = await self.read(request, look)
        if found is None:
            raise HTTPException(404, "The text is no longer there.")
        return page(request, "text.html", {"entry": found}, back=f"/sessions/{in_address(key)}#timeline")

    async def _file(self, request: Request, key: str, wanted: WantedFile) -> Response:
        def look(connection: sqlite3.Connection, settings: Settings) -> Opened:
            row = session_with_key(connection, settings, key)
            if row is None:
                raise _no_session(key)
            try:
                return opened_file(request, wanted(connection, settings, row))
            except NoFile as error:
                raise HTTPException(404, str(error)) from error

        return file_page(request, await self.read(request, look), f"/sessions/{in_address(key)}#files")


def _read(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, after: str | None
) -> ReadSession:
    from runward.daemon.views.timeline import NotOurs

    try:
        return read_session(connection, settings, row, after or None)
    except NotOurs as error:
        raise HTTPException(
            400, f"after is {after!r}, which no page of this session links to. Open the session again."
        ) from error


def _missing_optional(row: SessionRow) -> list[str]:
    """The ids of the optional artifacts that a session did not deliver."""
    verification = verification_of(row)
    missing = verification["missing_optional"] if isinstance(verification, dict) else None
    return (
        [str(each["id"]) for each in missing if isinstance(each, dict)] if isinstance(missing, list) else []
    )


def _no_session(key: str) -> HTTPException:
    return HTTPException(404, f"There is no session {key}. It may have been pruned, or is not judged yet.")


def _wanted_file(request: Request) -> WantedFile | None:
    """The file that the address wants; None for the page of the session. Raises `HTTPException`."""
    given = Filters(request, _FILES)
    part = given.one("part", (_JOURNAL, *PARTS))
    log, path, outcome = given.one("log", tuple(LOGS)), given.one("file"), given.one("outcome")
    chosen: list[WantedFile] = []
    if path is not None:
        chosen.append(lambda connection, settings, row: delivered_file(connection, settings, row, path))
    if log is not None:
        chosen.append(lambda _, settings, row: log_file(settings, row, log))
    if part == _JOURNAL:
        chosen.append(lambda _, settings, row: journal_file(settings, row))
    elif part is not None:
        chosen.append(lambda connection, settings, row: part_file(connection, settings, row, part))
    if outcome is not None:
        chosen.append(lambda connection, settings, row: outcome_file(connection, settings, row, outcome))
    if len(chosen) > 1:
        raise HTTPException(400, "An address can name one file only.")
    return chosen[0] if chosen else None


def _attempt_seen(form: Form, row: SessionRow) -> int:
    """The attempt that a person saw."""
    given = form.text("attempt")
    if given and (not given.isdecimal() or len(given) > 9):
        raise HTTPException(400, f"attempt is {given!r}, which is not a number.")
    return int(given) if given else row.attempt


def _cancel(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[SessionCancelRequested]":
    from runward.handlers.model.requests import SessionCancelRequested

    row = _named(connection, settings, request)
    reason = form.text("reason")
    return [SessionCancelRequested(form.request, form.now, row.key, _attempt_seen(form, row), reason)]


def _seen(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[SessionSeenRequested]":
    from runward.handlers.model.requests import SessionSeenRequested

    row = _named(connection, settings, request)
    return [SessionSeenRequested(form.request, form.now, row.key, _attempt_seen(form, row))]


def _named(connection: sqlite3.Connection, settings: Settings, request: Request) -> SessionRow:
    row = session_with_key(connection, settings, request.path_params["key"])
    if row is None:
        raise _no_session(request.path_params["key"])
    return row


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
