"""What applies to every request and every answer: who may come in, from where, and what a browser may do with a page."""

import hmac
import time
from collections.abc import Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runward.config.studio import StudioSettings
from runward.daemon.disk.credentials import (
    COOKIE_S,
    KeyUnusable,
    is_valid_cookie,
    new_cookie,
    own_name,
    studio_key,
)
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.studio.rendering import message_page
from runward.daemon.web.server import is_own_origin

COOKIE: Final = "runward_studio"
NO_LOGIN: Final = ("/login", "/healthz", "/metrics")
STATIC: Final = "/static/"

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_STILL: Final = "runward.still"
_READING: Final = ("GET", "HEAD")
_LOG_IN: Final = "Run `runward studio` on this machine: it opens a page that is logged in."


class Host(NamedTuple):
    """The site that a request names: its host, and whether it may have a cookie."""

    name: str
    may_log_in: bool
    is_https: bool


class Guard:
    """Lets requests through to the pages, and adds the headers of every answer."""

    def __init__(self, app: ASGIApp, state: Path, studio: Callable[[], StudioSettings]) -> None:
        self._app = app
        self._state = state
        self._studio = studio

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    # Set on every answer, also on refusals and on the page of a bug.
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        request = Request(scope, receive)
        try:
            # Read for each request: a key that was removed logs every browser out at once.
            studio, key = self._studio(), studio_key(self._state)
        except (KeyUnusable, StoreUnreadable, OSError) as error:
            await message_page(503, "Not ready", str(error))(scope, receive, with_headers)
            return
        host = host_of(request.headers.get("host", ""), own_name(key), studio.url)
        scope["runward.studio"] = studio
        scope[_STILL] = lambda: self._still(request, studio)
        answer: ASGIApp | None = self._refusal(request, studio, key, host)
        await (answer or self._app)(scope, receive, with_headers)

    def _still(self, request: Request, studio: StudioSettings) -> bool:
        """Only the key is read again: with other settings, the program is another one."""
        try:
            key = studio_key(self._state)
        except (KeyUnusable, OSError):
            return False
        host = host_of(request.headers.get("host", ""), own_name(key), studio.url)
        return self._refusal(request, studio, key, host) is None

    def _refusal(
        self, request: Request, studio: StudioSettings, key: bytes, host: Host | None
    ) -> ASGIApp | None:
        """Why this request gets no answer; None if it does."""
        if host is None:
            message = "This address is not the Studio's."
            return message_page(421, "Unknown host", message, fix=_LOG_IN)
        request.scope["runward.host"] = host
        # Before the cookie is looked at: a page of another site sends the browser's cookie along (CSRF).
        if request.method not in _READING and not is_from_here(request.headers, studio.url):
            message = "The form was not sent by a page of the Studio, so nothing was changed."
            return message_page(
                403, "Nothing was changed", message, fix="Open the page again, and send it from there."
            )
        path = request.url.path
        if path in NO_LOGIN or path.startswith(STATIC):
            return None
        cookie = cookie_of(request.headers)
        # Only our own name may log in: it keeps the cookie from programs that listen on other ports of
        # `localhost`.
        if not host.may_log_in or cookie is None or not is_valid_cookie(key, host.name, cookie, time.time()):
            return message_page(401, "Not logged in", "This browser is not logged in.", fix=_LOG_IN)
        if request.method not in _READING and studio.read_only:
            message = "The Studio only shows here: studio.read_only of the settings is true."
            return message_page(
                403, "Nothing was changed", message, fix="Use the command, or change the setting."
            )
        return None


def host_of(header: str, own: str, url: str | None) -> Host | None:
    """The site that `Host` names: our own name, a loopback address, `localhost`, or the host of `url`. Else None."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    # A page can lead a name of its own to this address (DNS rebinding). Only names that can't be somebody
    # else's count.
    if not parts.hostname or parts.username is not None or parts.path:
        return None
    name = parts.hostname.rstrip(".")
    if url is not None and name == urlsplit(url).hostname:
        return Host(name, True, url.startswith("https://"))
    if hmac.compare_digest(name.encode(errors="replace"), own.encode()):
        return Host(name, True, False)
    if name == "localhost":
        return Host(name, False, False)
    try:
        return Host(name, False, False) if ip_address(name).is_loopback else None
    except ValueError:
        return None


def is_from_here(headers: Headers, url: str | None) -> bool:
    """Whether a page of the Studio sent a change: browsers say so, and pages of other sites can't fake it."""
    # Browsers set it themselves, and no page can change it. Older ones send only the origin.
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and is_own_origin(origin, headers.get("host", ""), url)


def cookie_of(headers: Headers) -> str | None:
    """The value of our cookie."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


def cookie_header(key: bytes, host: Host) -> str:
    """The `Set-Cookie` of a browser that is logged in."""
    secure = "; Secure" if host.is_https else ""
    value = new_cookie(key, host.name, time.time())
    return f"{COOKIE}={value}; HttpOnly; SameSite=Lax; Path=/; Max-Age={COOKIE_S:.0f}{secure}"


def is_still_let_through(scope: MutableMapping[str, Any]) -> bool:
    """Whether a request that the guard let through would be let through now."""
    return bool(scope[_STILL]())


def host_in(scope: MutableMapping[str, Any]) -> Host:
    """The site of a request that the guard let through."""
    host = scope["runward.host"]
    assert isinstance(host, Host)
    return host
