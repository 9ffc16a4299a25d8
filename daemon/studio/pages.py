"""What every group of pages does: read the store, say where else to go, and take what a person asks for.

A change is a form that posts to its own page. The request goes into the inbox, as that of a command does; the answer leads
back to the page, which says what came of it.
"""

import json
import sqlite3
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.inbox.spool import put
from runward.daemon.store.reading import reading
from runward.daemon.studio.rendering import ONCE, REQUEST, Around, Link, address, message_page, wants_json
from runward.daemon.studio.sharing import SharedPages
from runward.daemon.views.requests import request_result
from runward.daemon.web.requests import SMALL, BodyReader, BodyTooLong

if TYPE_CHECKING:
    from runward.handlers.model.events import Request as PersonsRequest

_MOST_FIELDS: Final = 32

Read = TypeVar("Read")


class Entry(NamedTuple):
    """A page in the menu. It is there once the store has its subject; `waiting` is how much there waits for a person."""

    name: str
    path: str
    is_there: Callable[[sqlite3.Connection, Settings], bool] = lambda _connection, _settings: True
    waiting: Callable[[sqlite3.Connection, Settings], int] = lambda _connection, _settings: 0


class Form:
    """What a person sent. `request` names the request: the same for the same form, however often it is sent."""

    def __init__(self, path: str, fields: Mapping[str, str]) -> None:
        self._fields = fields
        try:
            once = uuid.UUID(fields.get(ONCE, ""))
        except ValueError as error:
            raise HTTPException(
                400, f"The form lacks the field {ONCE}, a UUID. Open the page again."
            ) from error
        self._base = uuid.uuid5(once, json.dumps([path, *sorted(fields.items())]))
        self.request = str(self._base)
        self.now = time.time()

    def need(self, name: str) -> str:
        """The text of a field. Raises `HTTPException` if it is absent or empty."""
        text = self._fields.get(name, "")
        if not text:
            raise HTTPException(400, f"The form lacks the field {name}.")
        return text

    def text(self, name: str) -> str:
        """The text of a field that may be empty."""
        return self._fields.get(name, "")

    def request_about(self, subject: str) -> str:
        """The name of a further request of the same form."""
        return str(uuid.uuid5(self._base, subject))


Show: TypeAlias = Callable[[Request], Awaitable[Response]]
Act: TypeAlias = Callable[[sqlite3.Connection, Settings, Request, Form], "Sequence[PersonsRequest]"]
"""The requests that a form makes. It runs in a thread; it raises `HTTPException` for a form that can't make one."""


class Pages(ABC):
    """A group of pages. `settings` are those in force at any moment."""

    entry: ClassVar[Entry | None] = None
    """Its place in the menu, if it has one."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._bodies = BodyReader()

    @abstractmethod
    def routes(self) -> list[Route]:
        """Its addresses, each made by `route`."""

    def route(self, path: str, show: Show, actions: Mapping[str, Act] | None = None) -> Route:
        """A page at an address, and what its forms do, by the value of their field `action`."""

        async def answer(request: Request) -> Response:
            if request.method == "POST":
                return await self._change(request, actions or {})
            shared: SharedPages = request.app.state.shared
            return await shared.get(request, show)

        return Route(path, answer, methods=["GET", "POST"] if actions else ["GET"])

    async def read(self, request: Request, look: Callable[[sqlite3.Connection, Settings], Read]) -> Read:
        """What `look` finds in the store, in a thread; and what the page shows around it."""
        settings = self._settings()
        entries: Sequence[Entry] = request.app.state.menu
        name = request.query_params.get(REQUEST)

        def both() -> tuple[Read, Around | None]:
            with reading(settings.state_dir) as connection:
                found = look(connection, settings)
                if wants_json(request):
                    return found, None
                menu = [
                    Link(each.name, each.path, each.waiting(connection, settings))
                    for each in entries
                    if each.is_there(connection, settings)
                ]
                result = (
                    None
                    if name is None
                    else request_result(connection, Path(settings.state_dir), _uuid(name))
                )
                return found, Around(menu, result)

        found, request.state.around = await in_thread(both)
        return found

    async def _change(self, request: Request, actions: Mapping[str, Act]) -> Response:
        form = Form(request.url.path, await self._fields(request))
        act = actions.get(form.need("action"))
        if act is None:
            raise HTTPException(400, f"action can be: {', '.join(actions)}.")
        settings = self._settings()
        stored: list[str] = []

        def leave_in_inbox() -> None:
            from runward.daemon.inbox.request_file import (
                dump_request,  # the first page comes sooner without it
            )

            with reading(settings.state_dir) as connection:
                asked = act(connection, settings, request, form)
            for each in asked:
                put(Path(settings.state_dir), each.request, dump_request(each))
                stored.append(each.request)

        try:
            # Not abandoned when the client goes away: what it asked for is stored, or it is not.
            await anyio.to_thread.run_sync(leave_in_inbox)
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
            heading = "Only a part was stored" if stored else "Nothing was changed"
            return message_page(503, heading, f"The request can't be stored. {why}")
        return RedirectResponse(address(request, **{REQUEST: form.request}), 303)

    async def _fields(self, request: Request) -> dict[str, str]:
        try:
            body = await self._bodies.read(request, SMALL)
        except BodyTooLong as error:
            raise HTTPException(413, f"The form is longer than {SMALL >> 10} KiB.") from error
        try:
            return dict(
                parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
            )
        except ValueError as error:
            raise HTTPException(
                400, "The form can't be read. Open the page again, and send it from there."
            ) from error


def _uuid(name: str) -> str:
    """Only what can be the name of a request becomes part of a path. Raises `HTTPException`."""
    try:
        return str(uuid.UUID(name))
    except ValueError as error:
        raise HTTPException(400, f"{REQUEST} is {name!r}, which names no request.") from error
