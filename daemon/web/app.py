"""The routes, and what applies to every answer."""

from collections.abc import Callable
from pathlib import Path

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from runward.config.settings import Settings
from runward.daemon.web.approvals import ApprovalPages
from runward.daemon.web.body import BodyReader
from runward.daemon.web.github import GithubWebhook
from runward.daemon.web.links import Links
from runward.daemon.web.mcp import McpGateway


class Web:
    """The application, and what keeps its parts from working."""

    def __init__(
        self,
        state: Path,
        settings: Callable[[], Settings],
        links: Links,
        log: structlog.typing.FilteringBoundLogger,
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
