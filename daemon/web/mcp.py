"""`POST /mcp`: agents' tools over HTTP. Who acts depends on the token alone; the server is a process of its own."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import anyio
import anyio.to_thread
import h11
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from runward.config.listening import Http
from runward.daemon.configuration.extras import NO_LIBRARY, has_library
from runward.daemon.disk.credentials import principal_of_token
from runward.daemon.log import Log
from runward.daemon.web.child_server import ChildServer, NoServer
from runward.daemon.web.server import BodyReader, BodyTooLong, Refusals, is_own_host, is_own_origin
from runward.daemon.web.sockets import listen_at

_PIECE: Final = 64 << 10

Headers = Sequence[tuple[bytes, bytes]]


class NoAnswer(Exception):
    """The server went away before it answered."""


class Answered(NamedTuple):
    """The beginning of an answer; `body` gives the rest, and raises `NoAnswer`."""

    status: int
    headers: Headers
    body: AsyncIterator[bytes]


class Forwarding:
    """A connection that carries one request. Close it in any case."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)

    def close(self) -> None:
        """Hang up: a server that is still at it stops."""
        self._writer.close()

    async def ask(self, target: str, headers: Headers, body: bytes) -> Answered:
        """Post a body. Raises `NoAnswer`."""
        length = str(len(body)).encode()
        sent = [*headers, (b"host", b"localhost"), (b"content-length", length), (b"connection", b"close")]
        request = h11.Request(method="POST", target=target, headers=sent)
        events = (request, h11.Data(data=body), h11.EndOfMessage())
        try:
            self._writer.writelines([self._http.send(each) or b"" for each in events])
            await self._writer.drain()
        except OSError as error:
            raise NoAnswer(error.strerror) from error
        begun = await self._next()
        if not isinstance(begun, h11.Response):
            raise NoAnswer("it hung up")
        return Answered(begun.status_code, list(begun.headers), self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            while isinstance(event := await self._next(), h11.Data):
                yield bytes(event.data)
        finally:
            self.close()

    async def _next(self) -> h11.Event | type[h11.PAUSED]:
        try:
            while True:
                event = self._http.next_event()
                if not isinstance(event, type) or event is h11.PAUSED:
                    return event
                self._http.receive_data(await self._reader.read(_PIECE))
        except (OSError, h11.RemoteProtocolError) as error:
            raise NoAnswer(str(error)) from error


PRINCIPAL: Final = "x-runward-principal"
"""The header in which it learns who acts. Only the daemon can connect to it."""

_MODULE: Final = "runward.daemon.cli.mcp.over_http"
_SOCKET: Final = "mcp.sock"

SWITCHED_OFF: Final = "tools are not served here: http.mcp of the settings is false"


# Its library takes a second and 60 MiB to load, which the daemon has no use for.
class McpProcess:
    """Starts the server when somebody wants it, and starts another one when it has ended."""

    def __init__(self, state: Path, is_wanted: Callable[[], bool], log: Log) -> None:
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
        with _short(self._state) as directory:
            return listen_at(f"{directory}/{_SOCKET}")

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


MOST: Final = 4 << 20
"""Bytes of a request's body."""

AT_ONCE: Final = 16
"""Calls at the same time; others are refused, so that deliveries and links still have connections."""

_BEARER: Final = "bearer "
_PASSED_ON: Final = (b"accept", b"content-type", b"mcp-")
"""What the headers that are passed on begin with."""

_PASSED_BACK: Final = (b"content-type", b"cache-control", b"mcp-")


class McpGateway:
    """Checks where a request comes from and who acts, and passes it on."""

    def __init__(
        self,
        state: Path,
        http: Callable[[], Http | None],
        bodies: BodyReader,
        log: Log,
    ) -> None:
        self._state = state
        self._http = http
        self._bodies = bodies
        self._refusals = Refusals(log, "mcp.refused")
        self._threads = anyio.CapacityLimiter(2)
        self._calls = 0
        self.process = McpProcess(state, self._is_wanted, log)

    def degraded(self) -> list[str]:
        """What keeps it from serving, for `status`."""
        return self.process.degraded()

    def _is_wanted(self) -> bool:
        http = self._http()
        return http is not None and http.mcp

    async def endpoint(self, request: Request) -> Response:
        """Answer a message of a client."""
        answer = await self._answer(request)
        if isinstance(answer, PlainTextResponse):
            self._refusals.say(status=answer.status_code, what=bytes(answer.body).decode().strip())
        return answer

    async def _answer(self, request: Request) -> Response:
        http = self._http()
        if http is None or not http.mcp:
            return _refusal(404, SWITCHED_OFF)
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not is_own_host(host, http.url):
            return _refusal(421, "Host must be an IP address, localhost or the host of http.url")
        if origin is not None and not is_own_origin(origin, host, http.url):
            return _refusal(403, "Origin must be the site that the request goes to")
        # After host and origin: a page of another site learns nothing about tokens.
        principal = await self._principal(request.headers.get("authorization", ""))
        if principal is None:
            refusal = _refusal(401, "the token is missing or not valid: runward exchange token create")
            refusal.headers["www-authenticate"] = "Bearer"
            return refusal
        if self._calls >= AT_ONCE:
            return _refusal(503, f"{AT_ONCE} calls are in progress: try again later")
        self._calls += 1
        try:
            return await self._pass_on(request, principal)
        finally:
            self._calls -= 1

    async def _principal(self, authorization: str) -> str | None:
        if not authorization.lower().startswith(_BEARER):
            return None
        token = authorization[len(_BEARER) :].strip()
        return await anyio.to_thread.run_sync(principal_of_token, self._state, token, limiter=self._threads)

    async def _pass_on(self, request: Request, principal: str) -> Response:
        try:
            body = await self._bodies.read(request, MOST)
        except BodyTooLong:
            return _refusal(413, f"the body has more than {MOST} bytes")
        # Only what is named passes. A client that sends PRINCIPAL itself must not become somebody else.
        headers = [each for each in request.headers.raw if each[0].startswith(_PASSED_ON)]
        try:
            forwarding = await self.process.connect()
        except NoServer as error:
            return _refusal(503, str(error))
        try:
            return await self._forwarded(
                forwarding, [*headers, (PRINCIPAL.encode(), quote(principal).encode())], body
            )
        except NoAnswer:
            forwarding.close()
            return _refusal(502, "the server ended before it answered: the request may still be carried out")
        except BaseException:
            forwarding.close()
            raise

    async def _forwarded(self, forwarding: Forwarding, headers: Headers, body: bytes) -> Response:
        answered = await forwarding.ask("/mcp", headers, body)
        self.process.answered()
        response = StreamingResponse(answered.body, answered.status)
        for name, value in answered.headers:
            if name.startswith(_PASSED_BACK):
                response.headers[name.decode()] = value.decode("latin-1")
        return response


def _refusal(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", status)
