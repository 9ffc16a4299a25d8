"""The process that serves the Model Context Protocol for the daemon.

Its library takes a second and 60 MiB to load, which the daemon has no use for.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

from runward.daemon.configuration.mcp_library import NO_LIBRARY, has_library
from runward.daemon.web.child_server import ChildServer, NoServer
from runward.daemon.web.forwarding import Forwarding

PRINCIPAL: Final = "x-runward-principal"
"""The header in which it learns who acts. Only the daemon can connect to it."""

_MODULE: Final = "runward.daemon.cli.mcp.over_http"
_SOCKET: Final = "mcp.sock"
_BACKLOG: Final = 64

SWITCHED_OFF: Final = "tools are not served here: http.mcp of the settings is false"


class McpProcess:
    """Starts the server when somebody wants it, and starts another one when it has ended."""

    def __init__(
        self, state: Path, is_wanted: Callable[[], bool], log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._state = state
        self._is_wanted = is_wanted
        self._log = log
        self._server = ChildServer(state, "mcp", _MODULE, log)
        self._starting = anyio.Lock()
        self._trouble: str | None = None
        self._is_over = False

    def degraded(self) -> list[str]:
        """What keeps it from serving, for `status`."""
        return [] if self._trouble is None else [f"http.mcp: {self._trouble}"]

    async def connect(self) -> Forwarding:
        """A connection to it. Raises `NoServer`."""
        async with self._starting:
            try:
                await anyio.to_thread.run_sync(self._server.trim_log)
                if not self._server.runs:
                    await self._start()
                try:
                    return await self._reach()
                except ConnectionRefusedError:
                    await self._start()
                    return await self._reach()
            except OSError as error:
                self._trouble = f"the server can't be reached: {error.strerror}"
                raise NoServer(self._trouble) from error
            except NoServer as error:
                self._trouble = str(error)
                raise

    def answered(self) -> None:
        """It answers: what kept it from that is over."""
        self._trouble = None

    async def end_unwanted(self) -> None:
        """End it if the settings no longer want it."""
        if not self._is_wanted():
            await self._end()

    async def end(self) -> None:
        """End it, for good."""
        self._is_over = True
        await self._end()

    async def _end(self) -> None:
        async with self._starting:
            self._trouble = None
            if await self._server.end() is not None:
                self._path().unlink(missing_ok=True)

    def _path(self) -> Path:
        return self._state / _SOCKET

    async def _start(self) -> None:
        """Raises `NoServer` and `OSError`."""
        if self._is_over:
            raise NoServer("the daemon stops")
        if not self._is_wanted():
            raise NoServer(SWITCHED_OFF)
        if not await anyio.to_thread.run_sync(has_library):
            raise NoServer(NO_LIBRARY)
        # Nothing accepts connections now, so the last one is about to end, or has ended.
        code = await self._server.end()
        if code is not None:
            self._log.warning("mcp.ended", code=code)
        with self._listen() as listening:
            await self._server.start(listening)

    def _listen(self) -> socket.socket:
        """A socket for the server alone: once it has ended, nobody listens on it."""
        self._path().unlink(missing_ok=True)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(made.fileno(), 0o600)
            with _short(self._state) as directory:
                made.bind(f"{directory}/{_SOCKET}")
            made.listen(_BACKLOG)
        except OSError:
            made.close()
            raise
        return made

    async def _reach(self) -> Forwarding:
        with _short(self._state) as directory:
            return Forwarding(*await asyncio.open_unix_connection(f"{directory}/{_SOCKET}"))


@contextmanager
def _short(directory: Path) -> Iterator[str]:
    """A short path of a directory: that of a socket has at most 107 bytes."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
