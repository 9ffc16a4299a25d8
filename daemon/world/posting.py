"""Posting to a service by HTTP. Only notices to services need it, so it is imported with the first one."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Final

PATIENCE_S: Final = 10.0
"""Seconds that a service may be silent."""


class NotPosted(Exception):
    """The service did not take it; the message names no address."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the data is for the service that was named."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def post(address: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Post the body. Raises `NotPosted`."""
    try:
        request = urllib.request.Request(address, body, dict(headers), method="POST")  # noqa: S310 # it begins with http
        with _OPENER.open(request, timeout=PATIENCE_S):
            pass
    except urllib.error.HTTPError as error:
        with error:
            raise NotPosted(f"the service answered {error.code}") from error
    except urllib.error.URLError as error:
        raise NotPosted(f"the service can't be reached: {_plain(error.reason)}") from error
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise NotPosted(f"the service can't be reached: {_plain(error)}") from error


def _plain(error: object) -> str:
    """What went wrong, without the data that was sent."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
