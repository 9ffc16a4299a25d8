"""A listener in a loop of its own, and clients that say exactly what a test wants."""

import hashlib
import hmac
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from anyio.from_thread import start_blocking_portal
from tests.daemon.in_process import SILENT

from runward.config.listening import Github, Http, Webhooks
from runward.config.settings import Settings
from runward.daemon.web.listener import Listener

SECRET = "it's a secret"
PATIENCE_S = 30.0


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: str


class Served:
    """A listener that listens at `path`, a socket, over the state directory `state`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.path = str(directory / "http.sock")
        self.secret = directory / "github.secret"
        self.settings = Settings(
            str(self.state),
            http=Http((f"unix:{self.path}",)),
            webhooks=Webhooks(Github(str(self.secret))),
        )
        self.listener: Listener | None = None

    def connect(self) -> socket.socket:
        """A connection that nothing was said on yet."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(PATIENCE_S)
        made.connect(self.path)
        return made

    def call(self, said: bytes) -> Answer:
        """What is answered to these very bytes, or to as many of them as are wanted."""
        with self.connect() as connection:
            try:
                connection.sendall(said)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was answered already
            return answer_of(everything(connection))

    def deliver(
        self,
        payload: object,
        kind: str = "pull_request",
        delivery: str = "d-1",
        **headers: str | None,
    ) -> Answer:
        """A delivery as GitHub makes it; `headers` replace its own or leave them out, `_` stands for `-`."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        usual: dict[str, str | None] = {
            "x-hub-signature-256": signature(body),
            "x-github-event": kind,
            "x-github-delivery": delivery,
            "content-length": str(len(body)),
        }
        usual |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.call(request("POST", "/webhooks/github", usual) + body)

    def events(self) -> list[dict[str, object]]:
        """The events that wait in the inbox."""
        found = [json.loads(each.read_text()) for each in (self.state / "inbox").glob("*.json")]
        return [dict(each["payload"]) for each in found]


def signature(body: bytes, secret: str = SECRET) -> str:
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def request(method: str, target: str, headers: Mapping[str, str | None]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: runward"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends it."""
    found = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not piece:
            return found
        found += piece


def answer_of(said: bytes) -> Answer:
    head, _, body = said.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(status.split()[1]), headers, body.decode())


@contextmanager
def served(directory: Path) -> Iterator[Served]:
    """A listener with a secret, until the end."""
    made = Served(directory)
    made.state.mkdir(mode=0o700)
    made.secret.write_text(f"{SECRET}\n")
    made.secret.chmod(0o600)
    log = SILENT
    assert made.settings.http is not None
    with start_blocking_portal() as portal:
        http = made.settings.http
        listener = portal.call(lambda: Listener(made.state, http, lambda: made.settings, log))
        made.listener = listener
        with listener:
            running, _ = portal.start_task(listener.run)
            try:
                yield made
            finally:
                running.cancel()
