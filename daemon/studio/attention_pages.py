"""Attention: what needs a person, and below it what runs."""

import math
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.changes import Changes
from runward.daemon.store.tables.events import event_recorded, newest_event
from runward.daemon.store.tables.session_lists import Wanted, unseen_failures
from runward.daemon.store.tables.sessions import SessionRow, session
from runward.daemon.studio.daemon_pages import retry, whole_number
from runward.daemon.studio.filters import Filters
from runward.daemon.studio.pages import Entry, Form, Pages
from runward.daemon.studio.rendering import PAGE, in_address, page
from runward.daemon.views.needs import Kind, Need, how_to_start, needs, table, tables
from runward.daemon.views.sessions import newest_sessions, sessions_as_json
from runward.daemon.views.status import status_in

if TYPE_CHECKING:
    from runward.handlers.model.requests import SessionSeenRequested

_HEADINGS: Final[Mapping[Kind, str]] = {
    "daemon": "Daemon",
    "approval": "Waiting for you",
    "agent": "Waiting for you",
    "failure": "Failed, and not seen yet",
    "queue": "Queue",
    "request": "Queue",
    "settings": "Settings",
    "root": "Roots",
    "degraded": "Degraded",
    "file": "Wrong files",
    "notice": "Notices",
}
_PLACES: Final[Mapping[Kind, str]] = {
    "queue": "/daemon#queue",
    "request": "/daemon#queue",
    "root": "/daemon#roots",
    "degraded": "/daemon#health",
    "notice": "/daemon#notices",
}
_MOST_AGE_S: Final = 1.0
"""Seconds for which a number of needs counts, because not all of them come from the store."""


class Item(NamedTuple):
    """A need, the page that has more (or ""), and what the status says of its subject."""

    need: Need
    href: str
    about: Mapping[str, JsonValue]


class Group(NamedTuple):
    """Needs under one heading."""

    heading: str
    items: list[Item]


class _Counted:
    """The number of needs, for the menu of every page. It is counted again once the store has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: str | None = None
        self._changes: Changes | None = None
        self._commits = 0
        self._last: tuple[float, int] | None = None

    def __call__(self, connection: sqlite3.Connection, settings: Settings) -> int:
        now = time.monotonic()
        with self._lock:
            if self._has_changed(settings.state_dir):
                self._commits, self._last = self._commits + 1, None
            commits, last = self._commits, self._last
        if last is not None and now - last[0] < _MOST_AGE_S:
            return last[1]
        status = status_in(connection, settings, time.time()).json
        number = _number(list(needs(status, settings.state_dir)))
        with self._lock:
            if commits == self._commits:
                self._last = now, number
        return number

    def _has_changed(self, state: str) -> bool:
        if self._changes is None or state != self._state:
            if self._changes is not None:
                self._changes.close()
            self._state, self._changes = state, Changes(state)
        return self._changes.has_changed()


class AttentionPages(Pages):
    """The first page."""

    entry = Entry("Attention", "/", waiting=_Counted())

    def routes(self) -> list[Route]:
        """The first page, where a person can mark failures as seen and have held jobs tried again."""
        return [self.route("/", self.all, {"seen": _seen, "seen-all": _seen_all, "retry": retry})]

    async def all(self, request: Request) -> Response:
        """Everything that needs a person."""
        Filters(request, ())

        def look(
            connection: sqlite3.Connection, settings: Settings
        ) -> tuple[dict[str, JsonValue], list[JsonValue], str, int]:
            status = status_in(connection, settings, time.time()).json
            rows, _ = newest_sessions(connection, settings, Wanted(("running",)), PAGE)
            running = sessions_as_json(connection, settings, rows)
            return status, running, settings.state_dir, newest_event(connection)

        status, running, state, newest = await self.read(request, look)
        every = list(needs(status, state))
        return page(
            request,
            "attention.html",
            {"status": status, "sessions": running},
            groups=_groups(every, status),
            number=_number(every),
            newest=newest,
            how_to_start=how_to_start(state),
        )


def _number(shown: Sequence[Need]) -> int:
    return sum(each.number for each in shown)


def _groups(shown: Sequence[Need], status: Mapping[str, JsonValue]) -> list[Group]:
    known = {
        str(each[key]): each
        for each, key in (
            *((each, "chain_run_id") for each in tables(status["waiting_approvals"])),
            *((each, "key") for each in tables(table(status["waiting_agents"])["oldest"])),
            *((each, "key") for each in tables(table(status["failures"])["newest"])),
        )
    }
    return [
        Group(heading, [Item(each, _page_of(each), known.get(each.subject or "", {})) for each in group])
        for heading, group in groupby(shown, key=lambda each: _HEADINGS[each.kind])
    ]


def _page_of(need: Need) -> str:
    if need.kind == "approval":
        return "/chains" if need.subject is None else f"/chain-runs/{in_address(need.subject)}"
    if need.kind == "agent":
        return "/sessions?status=running" if need.subject is None else f"/sessions/{in_address(need.subject)}"
    if need.kind == "failure":
        return "/sessions?failed=true" if need.subject is None else f"/sessions/{in_address(need.subject)}"
    return _PLACES.get(need.kind, "")


def _seen(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[SessionSeenRequested]":
    from runward.handlers.model.requests import SessionSeenRequested  # the first page comes sooner without it

    key = form.need("session")
    if session(connection, key) is None:
        raise HTTPException(404, f"There is no session {key}.")
    row = next((each for each in _unseen(connection) if each.key == key), None)
    # One that somebody has seen meanwhile needs no request; the page says that it had been done before.
    return [] if row is None else [SessionSeenRequested(form.request, form.now, row.key, row.attempt)]


def _seen_all(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[SessionSeenRequested]":
    """All whose verdict was there when the page was made, which is as of event `until`: a later one was not on it."""
    from runward.handlers.model.requests import SessionSeenRequested  # the first page comes sooner without it

    until = whole_number(form, "until")
    rows = [row for row in _unseen(connection) if _verdict_event(connection, row) <= until]
    # The first request has the form's own name: by that one, the page says what came of it.
    names = [form.request, *(form.request_about(row.key) for row in rows[1:])]
    return [
        SessionSeenRequested(name, form.now, row.key, row.attempt)
        for name, row in zip(names, rows, strict=False)
    ]


def _verdict_event(connection: sqlite3.Connection, row: SessionRow) -> float:
    """The number of the event that was recorded with the verdict of this session's last attempt."""
    return event_recorded(connection, f"{row.key}#{row.attempt}/finished") or math.inf


def _unseen(connection: sqlite3.Connection) -> list[SessionRow]:
    return unseen_failures(connection, time.time()).newest
