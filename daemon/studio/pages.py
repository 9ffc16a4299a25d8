"""What every group of pages does: read the store, say where else to go, and take what a person asks for.

A change is a form that posts to its own page. The request goes into the inbox, as that of a command does; the answer leads
back to the page, which says what came of it.
"""

import codecs
import json
import os
import re
import sqlite3
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote

import anyio.to_thread
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.inbox.spool import leave_request
from runward.daemon.store.reading import reading
from runward.daemon.studio.events import SharedPages
from runward.daemon.studio.rendering import (
    ONCE,
    REQUEST,
    Around,
    Link,
    address,
    message_page,
    page,
    wants_json,
)
from runward.daemon.views.requests import request_result
from runward.daemon.views.session_files import SHOWN, Ends, RecordedFile
from runward.daemon.views.text import visible
from runward.daemon.web.server import SMALL, BodyReader, BodyTooLong

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
        # From all that it says, so that a form that is sent twice is one request, and a changed one another.
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
                content = look(connection, settings)
                if wants_json(request):
                    return content, None
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
                return content, Around(menu, result)

        content, request.state.around = await in_thread(both)
        return content

    async def _change(self, request: Request, actions: Mapping[str, Act]) -> Response:
        form = Form(request.url.path, await self._fields(request))
        act = actions.get(form.need("action"))
        if act is None:
            raise HTTPException(400, f"action can be: {', '.join(actions)}.")
        settings = self._settings()
        stored: list[str] = []

        def leave_in_inbox() -> None:
            with reading(settings.state_dir) as connection:
                asked = act(connection, settings, request, form)
            for each in asked:
                stored.append(leave_request(Path(settings.state_dir), each))

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


DOWNLOAD: Final = "download"

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]")


class Opened(NamedTuple):
    """A file as its page needs it; for a download `pieces` instead of its `ends`."""

    name: str
    ends: Ends | None
    pieces: StreamingResponse | None = None


def opened_file(request: Request, file: RecordedFile) -> Opened:
    """What the address wants of a file. Raises `NoFile`."""
    if request.query_params.get(DOWNLOAD) != "1":
        return Opened(file.name, file.ends())
    pieces = StreamingResponse(file.open(), media_type="application/octet-stream")
    # A run chose the name: nothing in it may end the header, or the name in it.
    name = file.name.rpartition("/")[2]
    quoted = quote(os.fsencode(name) if name.isprintable() else name.encode(errors="replace"), safe="")
    plain = _PLAIN.sub("_", name)
    pieces.headers["content-disposition"] = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quoted}"
    return Opened(file.name, None, pieces)


def file_page(request: Request, file: Opened, back: str) -> Response:
    """The page, or the download. `back` is the address of what the file belongs to."""
    if file.pieces is not None:
        return file.pieces
    assert file.ends is not None, "one of both is there"
    size = file.ends.size
    start = text_in(file.ends.start, is_cut_after=file.ends.end is not None)
    end = None if file.ends.end is None else text_in(file.ends.end, is_cut_before=True)
    is_text = start is not None and (file.ends.end is None or end is not None)
    data: dict[str, JsonValue] = {
        "name": file.name,
        "size": size,
        "is_text": is_text,
        "text": start if is_text else None,
        "end": end if is_text else None,
    }
    return page(
        request,
        "file.html",
        {"file": data},
        back=back,
        download=address(request, **{DOWNLOAD: "1"}),
        start=as_it_is(start or ""),
        end=None if end is None else as_it_is(end),
        left_out=None if size is None or end is None else size - 2 * SHOWN,
    )


def text_in(content: bytes, *, is_cut_before: bool = False, is_cut_after: bool = False) -> str | None:
    """The content as UTF-8; None if it is not text. A character that was cut through is left out."""
    if is_cut_before:
        whole = next((at for at in range(min(4, len(content))) if content[at] & 0xC0 != 0x80), 0)
        content = content[whole:]
    if b"\0" in content:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(content, final=not is_cut_after)
    except UnicodeDecodeError:
        return None


def as_it_is(text: str) -> Markup:
    """A file's text: escaped, with tabs and line ends as they are, and everything else that is invisible escaped."""
    parts = text.replace("\r\n", "\n").split("\t")
    return Markup("\t").join(escape(visible(each)) for each in parts)
