"""The HTTP server in the daemon's loop, within bounds: whatever clients do, runs are still judged.

Every request is checked: whether it is meant for us, and its body by size and memory. A refusal goes to the log.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.abc
import h11
import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from runward.daemon.log import Log
from runward.daemon.web.sockets import BACKLOG, Opened

CONNECTIONS: Final = 64
"""Clients at the same time; further ones are refused. Streams are not counted."""

STREAMS: Final = 256
"""Connections at the same time that carry a stream."""

STREAM: Final = "runward.stream"
"""What the server adds to the state of a request's scope: `() -> bool` makes its connection one that carries a stream.

Such a connection has no time limit, but its client must read. False if there are too many already.
"""

UNREAD: Final = 256 << 10
"""Bytes of a stream that its client may leave unread; after that it is cut off."""

_IN_KERNEL: Final = 64 << 10
"""Bytes of a stream that the kernel holds beyond these: it would hold megabytes before we see that nobody reads."""

CONNECTION_S: Final = 30.0
"""Seconds that a connection may take as a whole: its one request and the answer."""

HEADERS: Final = 32 << 10
"""Bytes of a request's line and headers."""

PIECES: Final = 10_000
"""Pieces that a body may come in. Each costs time in the loop, however short it is."""

READ_AT_ONCE: Final = 16 << 10
"""Bytes that are read from a connection before others have their turn."""

GRACE_S: Final = 1
"""Seconds that requests may still take when the daemon is asked to stop."""


class _Pieces(h11.Connection):
    """A connection that counts the pieces that it receives."""

    pieces = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        self.pieces += 1
        if self.pieces > PIECES:
            raise h11.RemoteProtocolError("the body comes in too many pieces")
        return super().next_event()


class _Bounded(H11Protocol):
    """One connection, which carries one request. It is limited in time, or carries a stream."""

    is_stream = False
    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        if len(self.connections) - self._streams() >= CONNECTIONS:
            transport.abort()
            return
        # A body of many tiny pieces costs the loop time for each of them, however small the body is.
        self.conn = _Pieces(h11.SERVER, HEADERS)
        transport.max_size = READ_AT_ONCE  # type: ignore[attr-defined] # of asyncio's transports over selectors
        # Aborted, not closed: closing waits until the client has read what is left.
        self._end = self.loop.call_later(CONNECTION_S, transport.abort)
        # How the application asks that this connection may last.
        self.app_state = {STREAM: self._become_stream}
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end is None:
            return  # refused
        self._end.cancel()
        self.app_state = {}  # which refers to this
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # A client that doesn't read its stream must not make the daemon keep what it was sent.
        if self.is_stream:
            self.transport.abort()

    def _become_stream(self) -> bool:
        assert self._end is not None, "it was not refused"
        if self._streams() >= STREAMS:
            return False
        self.is_stream = True
        self._end.cancel()
        # The kernel's buffer is kept small, too: what waits there is not seen as unread.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _IN_KERNEL)
        self.transport.set_write_buffer_limits(high=UNREAD)
        return True

    def _streams(self) -> int:
        return sum(isinstance(each, _Bounded) and each.is_stream for each in self.connections)


class _Server(uvicorn.Server):
    """uvicorn's, which leaves signals to the daemon."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _ToLog(logging.Handler):
    """uvicorn's own messages in the daemon's log; clients' mistakes are not warnings there."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else None
            self._log.error("http.failed", why=record.getMessage().strip(), exc_info=error)
        else:
            self._log.debug("http.said", what=record.getMessage())


class WebServer:
    """Serves an application on open sockets until it is asked to stop."""

    def __init__(self, opened: Opened, app: ASGIApp, log: Log) -> None:
        self._opened = opened
        _have_it_logged(log)
        config = uvicorn.Config(
            app,
            http=_Bounded,
            loop="none",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("connection", "close")],
            backlog=BACKLOG,
            h11_max_incomplete_event_size=HEADERS,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _Server(config)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`, or cancelled."""
        task_status.started()
        try:
            await self._server.serve(list(self._opened.sockets))
        finally:
            # uvicorn waits for clients that don't read. A stop of the daemon doesn't.
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()

    @property
    def connections(self) -> int:
        """The clients that are connected now."""
        return len(self._server.server_state.connections)

    @property
    def requests(self) -> int:
        """The requests so far."""
        return self._server.server_state.total_requests

    def stop(self) -> None:
        """Accept no more clients, and end current requests soon."""
        self._server.should_exit = True


def _have_it_logged(log: Log) -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.handlers[:] = [_ToLog(log)]
    logger.setLevel(logging.INFO)
    logger.propagate = False


SMALL: Final = 64 << 10
"""Bytes that every client may have in memory."""

LARGE_AT_ONCE: Final = 8
"""Bodies beyond `SMALL` that are in memory at the same time; the others wait."""


class BodyTooLong(Exception):
    """The body has more bytes than it may have."""


class BodyReader:
    """Reads bodies; one for all requests, since they share the memory."""

    def __init__(self) -> None:
        self._large = anyio.Semaphore(LARGE_AT_ONCE)

    async def read(self, request: Request, most: int) -> bytes:
        """The whole body. Raises `BodyTooLong`.

        A body that is somewhat too long is still read to its end: a client that is still sending may not see an answer.
        """
        declared = request.headers.get("content-length", "")
        # Refused before it is read: the client says itself that it is far too long.
        if declared.isdigit() and int(declared[:20]) > 2 * most:
            raise BodyTooLong
        body, total, is_large = bytearray(), 0, False
        try:
            async for piece in request.stream():
                total += len(piece)
                if total > 2 * most:
                    raise BodyTooLong
                if total > SMALL and not is_large:
                    # Few large bodies are in memory at once, however many clients send one.
                    await self._large.acquire()
                    is_large = True
                # Read on but not kept: a client that is still sending may not see an answer.
                if total <= most:
                    body += piece
        finally:
            if is_large:
                self._large.release()
        if total > most:
            raise BodyTooLong
        return bytes(body)


# Such a page can have a browser send requests to us under a name of its own that leads here (DNS rebinding).
# The browser names that name in `Host`, and the page's site in `Origin`.
def is_own_host(host: str, url: str | None) -> bool:
    """Whether `Host` is an IP address, `localhost`, or the host of `url`: a name of somebody else is none of these."""
    name = _name(f"//{host}")
    if name is None:
        return False
    if name == "localhost" or (url is not None and name == _name(url)):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_own_origin(origin: str, host: str, url: str | None) -> bool:
    """Whether `Origin` is the site that the request goes to: the host that it names, or `url`."""
    given = origin.lower()
    own = [f"{scheme}://{host.lower()}" for scheme in ("http", "https")]
    if url is not None:
        parts = urlsplit(url.lower())
        own.append(f"{parts.scheme}://{parts.netloc}")
    return given in own


def _name(url: str) -> str | None:
    """The host of a URL without its port. None if it has none, or more than that."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.username is not None or not parts.hostname:
        return None
    return parts.hostname.rstrip(".")


_BETWEEN_S: Final = 1.0


class Refusals:
    """The refusals of one path, logged as the event `name`."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._name = name
        self._logged_at: float | None = None

    def say(self, **words: object) -> None:
        """Log one, unless another was logged within the last second."""
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= _BETWEEN_S:
            self._logged_at = now
            self._log.info(self._name, **words)
