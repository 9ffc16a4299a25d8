"""`codex app-server`, which hosts several threads: one JSON-RPC message a line."""

import itertools
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Final

from tests.agents.homes import Home
from tests.agents.replies import JsonObject
from tests.agents.scripted_model import prompt
from tests.waiting import PATIENCE_S

from runward.config.json_value import JsonValue

_CLIENT: Final[JsonObject] = {"name": "test", "title": "Test", "version": "1"}


class AppServer:
    """A running server, and what it said. One thread uses it."""

    def __init__(self, process: "subprocess.Popen[bytes]", given: IO[bytes], said: IO[bytes]) -> None:
        self.process = process
        self._given = given
        self._numbers = itertools.count(1)
        self._said: queue.Queue[JsonObject] = queue.Queue()
        threading.Thread(target=self._read, args=(said,), daemon=True).start()

    def ask(self, method: str, **params: JsonValue) -> JsonObject:
        """Call a method, and wait for its result."""
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params})
        result = self._next(lambda message: message.get("id") == number and "method" not in message)["result"]
        assert isinstance(result, dict)
        return result

    def begin(self, work: str) -> str:
        """A new thread; its id."""
        return self._id(self.ask("thread/start", cwd=work), "thread")

    def turn(self, thread: str, script: str) -> str:
        """Begin a turn; its id."""
        text: JsonObject = {"type": "text", "text": prompt(script)}
        return self._id(self.ask("turn/start", threadId=thread, input=[text]), "turn")

    def wait_completed(self) -> None:
        """Until a turn is over."""
        self._next(lambda message: message.get("method") == "turn/completed")

    def close(self) -> None:
        """The client goes, and the server with it."""
        self._given.close()
        self.process.wait(PATIENCE_S)

    def initialize(self) -> None:
        self.ask("initialize", clientInfo=_CLIENT)
        self._send({"method": "initialized"})

    def _id(self, result: JsonObject, of: str) -> str:
        what = result[of]
        assert isinstance(what, dict)
        return str(what["id"])

    def _send(self, message: JsonObject) -> None:
        self._given.write(json.dumps(message).encode() + b"\n")
        self._given.flush()

    def _next(self, is_it: Callable[[JsonObject], bool]) -> JsonObject:
        while True:
            message = self._said.get(timeout=PATIENCE_S)
            assert "error" not in message, message
            if is_it(message):
                return message

    def _read(self, said: IO[bytes]) -> None:
        for line in said:
            self._said.put(json.loads(line))


@contextmanager
def app_server(home: Home, *program: str) -> Iterator[AppServer]:
    """A server in this home; it is ended afterwards."""
    with subprocess.Popen(
        [*program, "app-server"],
        cwd=home.work,
        env=home.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            server = AppServer(process, process.stdin, process.stdout)
            server.initialize()
            yield server
        finally:
            process.kill()
