"""The routes, and the pages of what goes wrong."""

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from runward.config.settings import Settings
from runward.config.studio import StudioSettings
from runward.daemon.disk.credentials import studio_key, use_code
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.log import Log
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.studio.attention_pages import AttentionPages
from runward.daemon.studio.cards import OutcomePages
from runward.daemon.studio.chain_pages import ChainPages
from runward.daemon.studio.chain_run_pages import ChainRunPages
from runward.daemon.studio.daemon_pages import DaemonPages
from runward.daemon.studio.events import Events, SharedPages
from runward.daemon.studio.exchange_pages import ExchangePages
from runward.daemon.studio.guard import Guard, cookie_header, host_in
from runward.daemon.studio.invocation_pages import InvocationPages
from runward.daemon.studio.pages import Pages
from runward.daemon.studio.rendering import message_page, static_file
from runward.daemon.studio.session_pages import SessionPages
from runward.daemon.studio.show_pages import ShowPages

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOREVER: Final = "public, max-age=31536000, immutable"
GROUPS: Final[tuple[type[Pages], ...]] = (
    AttentionPages,
    SessionPages,
    ChainPages,
    ChainRunPages,
    InvocationPages,
    OutcomePages,
    ShowPages,
    ExchangePages,
    DaemonPages,
)
"""In the order of the menu."""

_ADDRESSES: Final = {
    404: ("There is no page at this address.", "Open / for what needs you, or /sessions for what ran."),
    405: ("This page can't be changed that way, so nothing was changed.", "Open the page again."),
}
"""What a page says of an address that no group of pages knows; and what to do."""

_HEADINGS: Final = {404: "Not found", 405: "Not possible", 413: "Too large", 400: "Not understood"}


def studio_app(state: Path, settings: Callable[[], Settings], log: Log) -> ASGIApp:
    """The application, behind its guard. `settings` are those in force at any moment."""

    async def log_in(request: Request) -> Response:
        host = host_in(request.scope)
        code = request.query_params.get("code", "")
        if not host.may_log_in or not await in_thread(lambda: use_code(state, code)):
            message = "The link was used before, is older than five minutes, or is not complete."
            return message_page(403, "Not logged in", message, "Run `runward studio` again for another one.")
        answer = RedirectResponse("/", 303)
        answer.headers["set-cookie"] = cookie_header(studio_key(state), host)
        return answer

    async def failed(request: Request, error: Exception) -> Response:
        log.error("studio.failed", path=request.url.path, exc_info=error)
        message = f"{type(error).__name__}. This is a bug in Runward; log/studio.log in the state directory has more."
        return message_page(500, "This page can't be shown", message)

    groups = [group(settings) for group in GROUPS]
    events = Events(settings)
    pages = Starlette(
        routes=[
            Route("/login", log_in),
            Route("/healthz", _healthy),
            Route("/events", events.answer),
            Route("/static/{hash}/{name}", _static),
            *(route for group in groups for route in group.routes()),
        ],
        exception_handlers={
            HTTPException: _refused,
            StoreUnreadable: _unreadable,
            ClientDisconnect: _gone,
            Exception: failed,
        },
    )
    pages.state.shared = SharedPages(events)
    pages.state.menu = [group.entry for group in groups if group.entry is not None]
    # Around everything: also the page of a bug gets the headers of every answer.
    return Guard(pages, state, lambda: settings().studio or StudioSettings())


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    file = static_file(name)
    if file is None or file[0] != request.url.path:
        raise HTTPException(404, "There is no such file.")
    kind = _TYPES[Path(name).suffix]
    return Response(file[1], headers={"content-type": kind, "cache-control": _FOREVER})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    heading = _HEADINGS.get(error.status_code, "Not possible")
    is_ours = error.detail != HTTPStatus(error.status_code).phrase
    message, fix = (error.detail, "") if is_ours else _ADDRESSES.get(error.status_code, (error.detail, ""))
    answer = message_page(error.status_code, heading, message, fix)
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


async def _unreadable(request: Request, error: Exception) -> Response:
    return message_page(503, "The store can't be read", str(error))


async def _gone(request: Request, error: Exception) -> Response:
    """The client went away, or was too slow, in the middle of its request: nobody reads this."""
    return PlainTextResponse("", 408)
