"""What every request goes through: whether it is meant for us, its body within bounds of size and memory, and its refusal in the log."""

import ipaddress
import time
from typing import Final
from urllib.parse import urlsplit

import anyio
import structlog
from starlette.requests import Request

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
        if declared.isdigit() and int(declared[:20]) > 2 * most:
            raise BodyTooLong
        found, total, is_large = bytearray(), 0, False
        try:
            async for piece in request.stream():
                total += len(piece)
                if total > 2 * most:
                    raise BodyTooLong
                if total > SMALL and not is_large:
                    await self._large.acquire()
                    is_large = True
                if total <= most:
                    found += piece
        finally:
            if is_large:
                self._large.release()
        if total > most:
            raise BodyTooLong
        return bytes(found)


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

    def __init__(self, log: structlog.typing.FilteringBoundLogger, name: str) -> None:
        self._log = log
        self._name = name
        self._logged_at: float | None = None

    def say(self, **words: object) -> None:
        """Log one, unless another was logged within the last second."""
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= _BETWEEN_S:
            self._logged_at = now
            self._log.info(self._name, **words)
