"""Reading the body of a request within bounds of size and memory."""

from typing import Final

import anyio
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
