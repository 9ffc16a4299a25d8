"""A model on the loopback whose replies are written down beforehand: no network, no account, the same every time.

It speaks as much of three interfaces as the agents need: Anthropic's Messages, and OpenAI's Responses and Chat
Completions. A prompt names its script ("script NAME"); of that script the reply is given that comes after as many
results of tools as there are since the prompt, and the last one again and again. `messages_wire`, `responses_wire` and
`chat_wire` know the words of the interfaces; this module only serves.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self

from tests.agents.chat_wire import CHAT
from tests.agents.messages_wire import MESSAGES
from tests.agents.replies import Asked, JsonObject, Refuses, Reply, Says, Stalls, Wire
from tests.agents.responses_wire import RESPONSES

from runward.config.json_value import JsonValue

Scripts = Mapping[str, Sequence[Reply]]
WIRES: Final[Mapping[str, Wire]] = {
    "/v1/messages": MESSAGES,
    "/v1/responses": RESPONSES,
    "/v1/chat/completions": CHAT,
}
_NAMED: Final = re.compile(r"\bscript (\w+)")
_ASIDE: Final = Says("An aside.")
"""What a request without tools is answered with: the programs ask for titles and summaries in between."""


def prompt(script: str) -> str:
    """A prompt that is answered by the replies of this script."""
    return f"Please follow the script {script}."


class Model:
    """The model, listening from `with` to the end of it. It answers in threads of its own.

    `given` counts the replies that each script gave.
    """

    def __init__(self, scripts: Scripts) -> None:
        self.given: Counter[str] = Counter()
        self._scripts = scripts
        self._stalled = threading.Semaphore(0)
        self._over = threading.Event()
        self._server = _Server(self)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def wait_until_stalled(self, within: float) -> bool:
        """Whether a request came, within so many seconds, that is left without an answer."""
        return self._stalled.acquire(timeout=within)

    def reply_to(self, asked: Asked) -> Reply:
        """What the script says to it; what is not a turn of an agent gets an aside."""
        name, results = "", 0
        for text in asked.heard:
            if text is None:
                results += 1
            elif named := _NAMED.search(text):
                name, results = named[1], 0
        if not name or not asked.tools:
            return _ASIDE
        self.given[name] += 1
        script = self._scripts[name]
        return script[min(results, len(script) - 1)]

    def stall(self) -> None:
        """Leave a request without an answer for as long as the model is there."""
        self._stalled.release()
        self._over.wait()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, model: Model) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Answers)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed leaves a broken pipe: that is what the tests are about."""


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in the library
        """Say nothing of each request."""

    def do_HEAD(self) -> None:
        self._send(200, "application/json", b"")

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        body: JsonObject = json.loads(self.rfile.read(int(self.headers["content-length"])))
        wire = WIRES.get(self.path.partition("?")[0])
        if wire is None:
            self._json(404, {"error": {"type": "not_found_error", "message": self.path}})
        else:
            self._answer(wire, body)

    def _answer(self, wire: "Wire", body: JsonObject) -> None:
        asked = wire.asked(body)
        reply = self.server.model.reply_to(asked)
        if isinstance(reply, Stalls):
            self.server.model.stall()
            self.close_connection = True
        elif isinstance(reply, Refuses):
            self._json(reply.status, wire.refusal(reply))
        else:
            events = wire.stream(reply, asked)
            said = "".join(map(_framed, events)) + wire.end
            self._send(200, "text/event-stream", said.encode())

    def _json(self, status: int, value: JsonValue) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _framed(event: JsonObject) -> str:
    named = f"event: {event['type']}\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n"
