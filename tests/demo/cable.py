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
        self._is_in = threading.Event()
        self._is_in.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def pull(self) -> None:
        """From now on nothing passes. What is sent is not lost: TCP sends it again."""
        self._is_in.clear()

    def plug_in(self) -> None:
        """What was sent meanwhile passes."""
        self._is_in.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_in.set()
        for end in (self._listening, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                self._ends += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._bring, args=(one, other), daemon=True).start()

    def _bring(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):  # one of them is closed
            while piece := one.recv(_PIECE):
                self._is_in.wait()
                other.sendall(piece)
            self._is_in.wait()
            other.shutdown(socket.SHUT_WR)
