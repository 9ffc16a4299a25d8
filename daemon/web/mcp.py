"""`POST /mcp`: agents' tools over HTTP. Who acts depends on the token alone; the server is a process of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import anyio
import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from runward.config.listening import Http
from runward.daemon.disk.credentials import principal_of_token
from runward.daemon.web.body import BodyReader, BodyTooLong
from runward.daemon.web.child_server import NoServer
from runward.daemon.web.forwarding import Forwarding, Headers, NoAnswer
from runward.daemon.web.mcp_process import PRINCIPAL, SWITCHED_OFF, McpProcess
from runward.daemon.web.own_address import is_own_host, is_own_origin
from runward.daemon.web.refusals import Refusals

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
        log: structlog.typing.FilteringBoundLogger,
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
