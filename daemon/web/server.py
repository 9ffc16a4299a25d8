"""The HTTP server in the daemon's loop, within bounds: whatever clients do, runs are still judged."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Final

import anyio
import anyio.abc
import h11
import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

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
        self.conn = _Pieces(h11.SERVER, HEADERS)
        transport.max_size = READ_AT_ONCE  # type: ignore[attr-defined] # of asyncio's transports over selectors
        # Aborted, not closed: closing waits until the client has read what is left.
        self._end = self.loop.call_later(CONNECTION_S, transport.abort)
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
        if self.is_stream:
            self.transport.abort()

    def _become_stream(self) -> bool:
        assert self._end is not None, "it was not refused"
        if self._streams() >= STREAMS:
            return False
        self.is_stream = True
        self._end.cancel()
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

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            self._log.error("http.failed", why=record.getMessage().strip(), exc_info=record.exc_info)
        else:
            self._log.debug("http.said", what=record.getMessage())


class WebServer:
    """Serves an application on open sockets until it is asked to stop."""

    def __init__(self, opened: Opened, app: ASGIApp, log: structlog.typing.FilteringBoundLogger) -> None:
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


def _have_it_logged(log: structlog.typing.FilteringBoundLogger) -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.handlers[:] = [_ToLog(log)]
    logger.setLevel(logging.INFO)
    logger.propagate = False
