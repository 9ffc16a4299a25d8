"""The Studio's own server over a place, and clients that hold its stream open."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from anyio.from_thread import start_blocking_portal
from tests.daemon.in_process import SILENT
from tests.daemon.studio.conftest import Studio
from tests.waiting import PATIENCE_S

from runward.daemon.disk.credentials import own_name, studio_key
from runward.daemon.studio.guard import COOKIE
from runward.daemon.studio.program import serve


class Message(NamedTuple):
    """A message of the stream."""

    id: int
    lanes: list[str]


class Stream:
    """An open stream."""

    def __init__(self, answer: http.client.HTTPResponse, connection: http.client.HTTPConnection) -> None:
        self.status = answer.status
        self._answer = answer
        self._connection = connection

    def line(self) -> str:
        """The next line; empty at the end."""
        return self._answer.readline().decode()

    def message(self) -> Message:
        """The next message."""
        fields: dict[str, str] = {}
        while True:
            line = self.line()
            assert line, "the stream ended"
            if line == "\n" and fields:
                break
            name, _, value = line.strip().partition(": ")
            if name.strip(":"):
                fields[name] = value
        assert fields["event"] == "changed"
        return Message(int(fields["id"]), json.loads(fields["data"])["lanes"])

    def close(self) -> None:
        self._connection.close()
        self._answer.close()


@dataclass
class Serving:
    """A server on a port of its own."""

    studio: Studio
    port: int
    running: "Future[None]"
    streams: list[Stream] = field(default_factory=list)

    def get(self, path: str, **headers: str) -> http.client.HTTPResponse:
        """An answer, of which the body was not read."""
        return self._ask(path, headers)[0]

    def stream(self, query: str = "", **headers: str) -> Stream:
        """The stream, which is closed at the end of the test."""
        self.streams.append(Stream(*self._ask(f"/events{query}", headers)))
        return self.streams[-1]

    def _ask(
        self, path: str, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        own = own_name(studio_key(self.studio.state))
        sent = {"host": f"{own}:{self.port}", "cookie": f"{COOKIE}={self.studio.cookie}"}
        connection.request(
            "GET", path, headers=sent | {name.replace("_", "-"): value for name, value in headers.items()}
        )
        return connection.getresponse(), connection


@contextmanager
def serving(studio: Studio, idle_s: float | None = None) -> Iterator[Serving]:
    """The program's server, until the end of the test."""
    with socket.socket() as listening, start_blocking_portal() as portal:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        log = SILENT
        running = portal.start_task_soon(serve, studio.state, studio.in_force, listening, log, idle_s)
        made = Serving(studio, listening.getsockname()[1], running)
        try:
            yield made
        finally:
            for each in made.streams:
                each.close()
            running.cancel()


def threads_that_watch() -> list[str]:
    """The threads that look for commits."""
    return [each.name for each in threading.enumerate() if each.name == "commits"]
