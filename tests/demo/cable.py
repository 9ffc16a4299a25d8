"""A cable between this machine's port and a server. While it is pulled nothing passes, and nobody is told, as with a real one."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_PIECE: Final = 1 << 16


class Cable:
    """Listens on a port of its own while it is used."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._asks, self._answers = threading.Event(), threading.Event()
        self.plug_in()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def pull(self) -> None:
        """From now on nothing passes. What is sent is not lost: TCP sends it again."""
        self._asks.clear()
        self._answers.clear()

    def hold_answers(self) -> None:
        """From now on the server hears what it is asked, and nothing of what it answers passes."""
        self._answers.clear()

    def plug_in(self) -> None:
        """What was sent meanwhile passes."""
        self._asks.set()
        self._answers.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.plug_in()
        for end in (self._listening, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server))
                except OSError:
                    client.close()  # the server is down
                    continue
                self._ends += [client, server]
                for one, other, passes in ((client, server, self._asks), (server, client, self._answers)):
                    threading.Thread(target=_bring, args=(one, other, passes), daemon=True).start()


def _bring(one: socket.socket, other: socket.socket, passes: threading.Event) -> None:
    """Until one of them is closed, which the other one is told of, too."""
    with suppress(OSError):
        while piece := one.recv(_PIECE):
            passes.wait()
            other.sendall(piece)
    passes.wait()
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
