"""Listening according to the settings: opened before the daemon is ready, closed when it stops."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from runward.config.listening import Http
from runward.config.settings import Settings
from runward.daemon.configuration.extras import why_not_over_http
from runward.daemon.configuration.secret_file import SecretUnusable, secret_of
from runward.daemon.log import Log
from runward.daemon.web.approvals import ApprovalPages, Links
from runward.daemon.web.github import GithubWebhook
from runward.daemon.web.mcp import McpGateway
from runward.daemon.web.server import BodyReader, WebServer
from runward.daemon.web.sockets import CannotListen, HttpReport, open_sockets


class Web:
    """The application, and what keeps its parts from working."""

    def __init__(
        self,
        state: Path,
        settings: Callable[[], Settings],
        links: Links,
        log: Log,
    ) -> None:
        bodies = BodyReader()
        self._github = GithubWebhook(state, lambda: settings().github_secret_file, bodies, log)
        approvals = ApprovalPages(state, links, bodies, log)
        self._mcp = McpGateway(state, lambda: settings().http, bodies, log)
        self.app = Starlette(
            routes=[
                Route("/webhooks/github", self._github.endpoint, methods=["POST"]),
                Route("/approvals/{approval}", approvals.show, methods=["GET"]),
                Route("/approvals/{approval}", approvals.decide, methods=["POST"]),
                Route("/mcp", self._mcp.endpoint, methods=["POST"]),
            ],
            exception_handlers={HTTPException: _refused, ClientDisconnect: _gone},
        )

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        return [*self._github.degraded(), *self._mcp.degraded()]

    async def use_settings(self) -> None:
        """Other settings are in force: end what they switch off."""
        await self._mcp.process.end_unwanted()

    async def end(self) -> None:
        """End what answers in a process of its own."""
        await self._mcp.process.end()


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    """The client went away, or was too slow, in the middle of its request: nobody reads this."""
    return PlainTextResponse("", 408)


class Listener:
    """What a daemon listens on, and what it answers there.

    `settings` are those in force at any moment; the addresses are from those at the start. Raises `CannotListen` and
    `OSError`.
    """

    def __init__(
        self,
        state: Path,
        http: Http,
        settings: Callable[[], Settings],
        log: Log,
    ) -> None:
        _check_secret(settings().github_secret_file)
        without_tools = why_not_over_http(http)
        if without_tools is not None:
            raise CannotListen(without_tools)
        self._settings = settings
        self.links = Links(state, self._base)
        self._opened = open_sockets(http.listen)
        self._web = Web(state, settings, self.links, log)
        self._server = WebServer(self._opened, self._web.app, log)
        log.info("listening", address=self._opened.url, socket=self._opened.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def report(self) -> HttpReport:
        """Where it listens, for `status`."""
        return HttpReport(self._opened.url, self._opened.path)

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        return self._web.degraded()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`, or cancelled."""
        try:
            await self._server.run(task_status=task_status)
        finally:
            with anyio.CancelScope(shield=True):
                await self._web.end()

    async def use_settings(self) -> None:
        """Other settings are in force."""
        await self._web.use_settings()

    def stop(self) -> None:
        """Accept no more clients."""
        self._server.stop()

    def _base(self) -> str | None:
        """What links begin with."""
        http = self._settings().http
        return (http.url if http is not None else None) or self._opened.url


def _check_secret(path: str | None) -> None:
    """Raises `CannotListen` if the secret can't be used."""
    if path is None:
        return
    try:
        secret_of(path)
    except SecretUnusable as error:
        raise CannotListen(f"webhooks.github.secret_file: {error}") from error
