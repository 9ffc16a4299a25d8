"""The one stream: `GET /events` says that the store changed, and in which lanes. Pages then read themselves again.

A thread notices commits and reads what is new, once for all streams, while a stream is open. Commits that belong to no
event and no job, such as a delivered notice, concern lanes that are not known.
"""

import asyncio
import json
import math
import os
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Final

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.store.reading import STORE, StoreUnreadable, open_to_read, reading
from runward.daemon.store.tables.events import lanes_after, newest_event
from runward.daemon.store.tables.jobs import jobs_soon
from runward.daemon.studio.filters import Filters
from runward.daemon.studio.guard import is_still_let_through
from runward.daemon.studio.rendering import Page
from runward.daemon.web.server import STREAM

LOOK_S: Final = 0.05
"""Seconds between two looks for a commit. A look takes some microseconds."""

APART_S: Final = 0.25
"""Seconds between two messages of a stream: what happens meanwhile is said together."""

UNKNOWN_APART_S: Final = 10.0
"""Seconds between two messages of a stream for one subject, if it is not known whether the change concerns it."""

COMMENT_S: Final = 15.0
"""Seconds without a message after which a comment keeps the connection open."""

CHECK_S: Final = 60.0
"""Seconds after which a stream of a browser that was logged out ends."""

MOST_LANES: Final = 100
"""Lanes that a message names. If there are more, it names none, which means any."""

_RETRY_S: Final = 1.0
"""Seconds until a store that can't be read is opened again."""


class Events:
    """Streams, and the thread that tells them what changed. Use it in the event loop only."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._streams: set[_Stream] = set()
        self._watch: _Watch | None = None
        self._has_looked = anyio.Event()
        self.newest = 0
        self.changes: int | None = None
        """How many changes the thread noticed; None if it doesn't watch."""

    async def answer(self, request: Request) -> Response:
        """The stream that the address asks for. Raises `HTTPException` and `StoreUnreadable`."""
        given = Filters(request, ("after", "lane"))
        text = request.headers.get("last-event-id") or given.one("after")
        if text is not None and not text.isdecimal() and "last-event-id" not in request.headers:
            raise HTTPException(400, f"after is {text!r}. It is the number of an event.")
        position = int(text) if text is not None and text.isdecimal() and len(text) < 19 else None
        become_stream = request.scope.get("state", {}).get(STREAM)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if become_stream is not None and not become_stream():
            raise HTTPException(503, "Too many pages are open: this one is not updated by itself.")
        return _Stream(self, given.one("lane"), position)

    async def missed(self, position: int | None) -> frozenset[str] | None:
        """The lanes of what happened since a position; None if it is not known. The stream must be open."""
        await self._has_looked.wait()  # so that what happens after this reading is noticed
        if position is None:
            return None
        state = self._settings().state_dir

        def read() -> tuple[int, frozenset[str] | None]:
            with reading(state) as connection:
                return newest_event(connection), lanes_after(connection, position)

        try:
            newest, lanes = await in_thread(read)
        except StoreUnreadable:
            return None
        self.newest = max(self.newest, newest)
        return lanes

    def opened(self, stream: "_Stream") -> None:
        """A stream is open."""
        self._streams.add(stream)
        if self._watch is None:
            self._has_looked = anyio.Event()
            loop = asyncio.get_running_loop()
            path = os.path.join(self._settings().state_dir, STORE)
            self._watch = _Watch(path, lambda *changes: loop.call_soon_threadsafe(self._changed, *changes))
            self._watch.start()

    def closed(self, stream: "_Stream") -> None:
        """A stream is closed."""
        self._streams.discard(stream)
        if not self._streams and self._watch is not None:
            # Nobody listens any more, so nobody looks: an idle Studio costs nothing.
            self._watch.stop()
            self._watch, self.changes = None, None

    def _changed(self, watch: "_Watch", newest: int, lanes: frozenset[str] | None) -> None:
        if watch is not self._watch:
            return  # it said so just before it was stopped
        self.newest = newest
        self.changes = (self.changes or 0) + 1
        self._has_looked.set()
        for each in self._streams:
            each.tell(lanes)


class _Stream(Response):
    """One stream; of one subject, if it has a lane."""

    media_type = "text/event-stream"

    def __init__(self, events: Events, lane: str | None, position: int | None) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._lane = lane
        self._concerned = None if lane is None else lanes_of(lane)
        self._position = position
        self._lanes: set[str] | None = set()
        self._due = math.inf
        self._said_at = -math.inf
        self._changed = anyio.Event()

    def tell(self, lanes: frozenset[str] | None) -> None:
        """These lanes changed; None if it is not known which."""
        if lanes is not None and self._concerned is not None:
            lanes = frozenset(each for each in lanes if self._concerned.search(each))
        # It doesn't concern this page.
        if lanes is not None and not lanes:
            return
        # If it isn't known what changed, every page would ask anew at once.
        apart = UNKNOWN_APART_S if lanes is None and self._lane is not None else APART_S
        self._lanes = None if lanes is None or self._lanes is None else self._lanes | lanes
        self._due = min(self._due, self._said_at + apart)
        self._changed.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Until the client goes away, or is logged out."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_gone, receive, tasks.cancel_scope)
            self._events.opened(self)
            try:
                self.tell(await self._events.missed(self._position))
                # Only now: whatever happens after the client got this is noticed.
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await self._say(scope, send)
            finally:
                self._events.closed(self)
            await send({"type": "http.response.body", "body": b""})
            tasks.cancel_scope.cancel()

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _say(self, scope: Scope, send: Send) -> None:
        quiet_at = checked_at = time.monotonic()
        while True:
            now = time.monotonic()
            if now - checked_at >= CHECK_S:
                # A stream lasts for hours. A browser that was logged out meanwhile must not see more.
                if not await in_thread(is_still_let_through, scope):
                    return
                checked_at = now
            if now >= self._due:
                await send({"type": "http.response.body", "body": self._message(), "more_body": True})
                self._said_at = quiet_at = now
            # A comment keeps a quiet connection open.
            elif now - quiet_at >= COMMENT_S:
                await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
                quiet_at = now
            with anyio.move_on_after(min(self._due, quiet_at + COMMENT_S) - time.monotonic()):
                await self._changed.wait()
                self._changed = anyio.Event()

    def _message(self) -> bytes:
        named = [] if self._lanes is None or len(self._lanes) > MOST_LANES else sorted(self._lanes)
        self._lanes, self._due = set(), math.inf
        data = json.dumps({"lanes": named})
        return f"id: {self._events.newest}\nevent: changed\ndata: {data}\n\n".encode()


def lanes_of(subject: str) -> re.Pattern[str]:
    """Matches the lanes of a subject and of work for it: `KEY`, `files:bundle:KEY#1`, `timer:KEY`."""
    return re.compile(f"(?:^|:){re.escape(subject)}(?:$|[#/])")


class _Watch(threading.Thread):
    """Notices commits in the store at `path`, and says which event is the newest, and which lanes changed."""

    def __init__(self, path: str, tell: Callable[["_Watch", int, frozenset[str] | None], object]) -> None:
        super().__init__(name="commits", daemon=True)
        self._path = path
        self._tell = tell
        self._is_over = threading.Event()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._version = -1
        self._newest = 0
        self._jobs: dict[int, tuple[str, str, int]] | None = None

    def stop(self) -> None:
        """End it soon."""
        self._is_over.set()

    def run(self) -> None:
        """Until it is stopped. The first look says where it begins, the others what changed."""
        nothing: frozenset[str] = frozenset()
        lanes: frozenset[str] | None
        apart, is_first = 0.0, True
        while not self._is_over.wait(apart):
            try:
                lanes, apart = self._look(), LOOK_S
            except (StoreUnreadable, sqlite3.Error, OSError):
                self._close()  # pages say why
                lanes, apart = nothing, _RETRY_S
            if is_first or lanes != nothing:
                with suppress(RuntimeError):  # the loop has ended
                    self._tell(self, self._newest, nothing if is_first else lanes)
            is_first = False
        self._close()

    def _look(self) -> frozenset[str] | None:
        """The lanes that changed since the last look; None if it is not known which.

        Raises `StoreUnreadable`, `sqlite3.Error` and `OSError`.
        """
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._close()  # no daemon has run yet
            return frozenset()
        # A restored store is another file under the same name.
        if self._connection is None or self._file != (status.st_dev, status.st_ino):
            self._close()
            self._connection, self._file = open_to_read(self._path), (status.st_dev, status.st_ino)
        # This changes with each commit of another connection, and costs almost nothing to ask.
        (version,) = self._connection.execute("pragma data_version").fetchone()
        if version == self._version:
            return frozenset()
        self._version = version
        return self._read(self._connection) or None

    def _read(self, connection: sqlite3.Connection) -> frozenset[str] | None:
        newest, jobs = self._newest, self._jobs
        # One transaction, so that the events and the jobs are of the same moment.
        connection.execute("begin")
        try:
            self._newest, self._jobs = newest_event(connection), jobs_soon(connection, time.time())
            lanes = lanes_after(connection, newest)
        finally:
            connection.execute("rollback")
        if lanes is None or jobs is None or self._jobs is None:
            return None
        # A job that was open and has moved since: what it did may be without an event of its own.
        moved = dict(jobs.items() ^ self._jobs.items())
        return lanes | {lane for lane, _, _ in moved.values()}

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._file, self._version, self._jobs = None, None, -1, None


KEPT_S: Final = 1.0
"""Seconds that a page is kept: it may show what is not in the store, such as the output of a run, or the age of a thing."""

MOST_SHARED: Final = 64
"""Pages that are kept."""


class SharedPages:
    """The pages of the last second, as long as nothing changed. Only while streams are open: then changes are noticed."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._pages: dict[Hashable, asyncio.Future[Page | None]] = {}

    async def get(self, request: Request, show: Callable[[Request], Awaitable[Response]]) -> Response:
        """What `show` answers, or what it answered to another request for the same."""
        changes = self._events.changes
        if changes is None:
            return await show(request)
        scope = request.scope
        # Whatever a page depends on beyond the store: who asks is the same for all, since there is one user.
        key = (
            changes,
            scope["raw_path"],
            scope["query_string"],
            scope["runward.host"],
            scope["runward.studio"],
        )
        # Shielded: the browser that asked first may go away, and the others still wait for the page.
        if key in self._pages:
            return await asyncio.shield(self._pages[key]) or await show(request)
        if len(self._pages) >= MOST_SHARED:
            return await show(request)
        loop = asyncio.get_running_loop()
        made: asyncio.Future[Page | None] = loop.create_future()
        self._pages[key] = made
        shown = None
        try:
            answer = await show(request)
            shown = answer if isinstance(answer, Page) else None
        finally:
            made.set_result(shown)  # without one, each makes its own, and gets its own error
            loop.call_later(KEPT_S if shown else 0.0, self._pages.pop, key)
        return answer
