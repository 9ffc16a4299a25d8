"""One request to a server on a socket of Runward's, and its answer as it comes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

import h11

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
        said = [*headers, (b"host", b"localhost"), (b"content-length", length), (b"connection", b"close")]
        request = h11.Request(method="POST", target=target, headers=said)
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
