"""A stream's client must read: it is cut off when too much is left unread."""

import socket
from concurrent.futures import Future

import anyio
from anyio.from_thread import start_blocking_portal
from starlette.types import Receive, Scope, Send
from tests.daemon.in_process import SILENT
from tests.waiting import PATIENCE_S

from runward.daemon.web.server import STREAM, UNREAD, WebServer
from runward.daemon.web.sockets import Opened

PIECE = b"x" * (16 << 10)
MOST_IN_KERNELS = 8 << 20
"""More than the sockets of both ends hold."""


def test_a_client_that_does_not_read_its_stream_is_cut_off() -> None:
    said: Future[int] = Future()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["state"][STREAM]()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        total = 0

        async def say() -> None:
            nonlocal total
            while True:
                await send({"type": "http.response.body", "body": PIECE, "more_body": True})
                total += len(PIECE)
                await anyio.sleep(0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()
        said.set_result(total)

    with (
        socket.socket() as listening,
        start_blocking_portal() as portal,
        socket.socket() as client,
    ):
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        log = SILENT
        server = portal.call(lambda: WebServer(Opened((listening,), (), ()), endless, log))
        running, _ = portal.start_task(server.run)
        client.connect(listening.getsockname())
        client.sendall(b"GET /events HTTP/1.1\r\nhost: a\r\n\r\n")
        assert UNREAD < said.result(PATIENCE_S) < MOST_IN_KERNELS
        running.cancel()
