"""The process that serves the Model Context Protocol for the daemon: started when it is needed, ended when it isn't.

Its library takes a second and 60 MiB to load, which the daemon has no use for.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

from runward.daemon.configuration.mcp_library import NO_LIBRARY, has_library
from runward.daemon.web.forwarding import Forwarding
from runward.daemon.world.starting import environment

PRINCIPAL: Final = "x-runward-principal"
"""The header in which it learns who acts. Only the daemon can connect to it."""

LOG: Final = "mcp.log"
"""Next to the daemon's own log: the server's errors."""

MOST_LOG: Final = 1 << 20
"""Bytes of this log: one that is larger is emptied before the next request is passed on."""

_MODULE: Final = "runward.daemon.cli.mcp.over_http"
_SOCKET: Final = "mcp.sock"
_BACKLOG: Final = 64
_RESTART_S: Final = 1.0
"""Seconds between two starts: one that ends at once is not started all the time."""


SWITCHED_OFF: Final = "tools are not served here: http.mcp of the settings is false"


class NoServer(Exception):
    """There is no server now; the message says why."""


class McpProcess:
    """Starts the server when somebody wants it, and starts another one when it has ended."""

    def __init__(
        self, state: Path, is_wanted: Callable[[], bool], log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._state = state
        self._is_wanted = is_wanted
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._started_at = -_RESTART_S
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
                await anyio.to_thread.run_sync(_empty_if_large, self._log_path())
                if self._process is None or self._process.returncode is not None:
                    await self._start()
                try:
                    return await self._reach()
                except ConnectionRefusedError:
                    await self._note_end()
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
        """End it at once. Nothing is lost: what was sent is durable, and what was not sent never happened."""
        async with self._starting:
            self._trouble = None
            if self._process is not None:
                with suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
                self._process = None
                self._path().unlink(missing_ok=True)

    def _path(self) -> Path:
        return self._state / _SOCKET

    def _log_path(self) -> Path:
        return self._state / "log" / LOG

    async def _note_end(self) -> None:
        """Nothing accepts connections now, so it is about to end, or has ended."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            code = await self._process.wait()
            self._log.warning("mcp.ended", code=code)
            self._process = None

    async def _start(self) -> None:
        """Raises `NoServer` and `OSError`."""
        if self._is_over:
            raise NoServer("the daemon stops")
        if not self._is_wanted():
            raise NoServer(SWITCHED_OFF)
        if not await anyio.to_thread.run_sync(has_library):
            raise NoServer(NO_LIBRARY)
        if self._process is not None:
            await self._note_end()
        if time.monotonic() - self._started_at < _RESTART_S:
            raise NoServer(f"the server ended at once; log/{LOG} in the state directory may say why")
        self._started_at = time.monotonic()
        log = os.open(
            self._log_path(),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        try:
            with self._listen() as listening:
                # It ends when its stdin is closed, so also with a daemon that was killed.
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", _MODULE, str(self._state), str(listening.fileno()),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    cwd="/",
                    env=environment(os.environ),
                    pass_fds=[listening.fileno()],
                    start_new_session=True,
                )  # fmt: skip  # the command on one line
        finally:
            os.close(log)
        self._log.info("mcp.started", pid=self._process.pid)

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


def _empty_if_large(log: Path) -> None:
    """The server continues with the same file: it only appends."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > MOST_LOG:
            os.truncate(log, 0)


@contextmanager
def _short(directory: Path) -> Iterator[str]:
    """A short path of a directory: that of a socket has at most 107 bytes."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
