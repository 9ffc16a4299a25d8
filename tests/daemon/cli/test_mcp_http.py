"""Agents' tools over HTTP, as the SDK's own client and bare requests use them, against a real daemon."""

import contextlib
import http.client
import json
import os
import select
import signal
import stat
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.daemon.cli.calling import Place, sockets_of
from tests.daemon.cli.test_mcp import ACTIONS, HELLO, READING, told
from tests.preloaded.forked import Forked
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.web.mcp import AT_ONCE

if TYPE_CHECKING:
    from mcp import Client

HTTP: Final = '\n[http]\nlisten = "127.0.0.1:0"\nmcp = true\n'


class Served:
    """A daemon that serves tools, with the principals `writer` and `reader` and a token of each."""

    def __init__(self, place: Place, daemon: Forked) -> None:
        self.place = place
        self.daemon = daemon
        for name in ("writer", "reader"):
            assert place.call("exchange", "principal", "create", name, "--scrip", "5").code == 0
        wait_for(lambda: len(place.call("exchange", "principal", "list", "--json").objects()) == 2, "both")
        self.tokens = {name: self.token(name) for name in ("writer", "reader")}
        where = place.call("status", "--json").object()["http"]
        assert isinstance(where, dict)
        self.url = str(where["address"])

    def token(self, principal: str) -> str:
        made = self.place.call("exchange", "token", "create", "--as", principal)
        assert (made.code, made.err) == (0, "")
        return made.out.strip()

    def post(self, body: bytes, method: str = "POST", **headers: str) -> tuple[int, bytes]:
        """The answer to a request with the writer's token; `headers` replace the usual ones, `_` stands for `-`."""
        usual = {
            "authorization": f"Bearer {self.tokens['writer']}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE_S)
        try:
            said = usual | {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, "/mcp", body, said)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @contextlib.asynccontextmanager
    async def client(self, principal: str, mode: str = "auto") -> AsyncIterator["Client"]:
        """The SDK's client with the token of a principal."""
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        headers = {"Authorization": f"Bearer {self.tokens[principal]}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as sending,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=sending), mode=mode) as client,
        ):
            yield client

    def server(self) -> int:
        """The server's pid."""
        (found,) = servers_of(self.daemon.pid)
        return found


def servers_of(daemon: int) -> list[int]:
    children = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    return [int(each) for each in children if b"over_http" in Path(f"/proc/{each}/cmdline").read_bytes()]


def furnish(directory: Path) -> Place:
    place = Place(directory)
    place.furnish()
    settings = directory / "runward.toml"
    settings.write_text(settings.read_text() + HTTP)
    return place


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = furnish(tmp_path_factory.mktemp("served"))
    with place.daemon() as daemon:
        yield Served(place, daemon)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_acts_as_the_principal_of_its_token(served: Served, mode: str) -> None:
    name = f"note-{mode}"
    async with served.client("writer", mode) as writer, served.client("reader", mode) as reader:
        assert {each.name for each in (await writer.list_tools()).tools} == ACTIONS | READING
        note = {"artifact_id": name, "content": "so it is", "reasoning": "to share"}
        written = await writer.call_tool("write_artifact", note)
        assert (written.is_error, told(written)["success"]) == (False, True)
        stolen = await reader.call_tool("delete_artifact", {"artifact_id": name, "reasoning": ""})
        assert (stolen.is_error, told(stolen)["error_code"]) == (True, "not_authorized")
        claimed = await reader.call_tool("delete_artifact", note | {"principal_id": "writer"})
        assert claimed.is_error
        assert told(await reader.call_tool("show_principal"))["id"] == "reader"
        assert "writer: wrote" in json.dumps(told(await reader.call_tool("why", {"id": f"artifact:{name}"})))
        assert told(await reader.call_tool("list_sessions")) == {"sessions": [], "more": False}
    logged = json.loads(served.place.call("exchange", "log", "--json").out)
    done = [each["principal_id"] for each in logged if each["intent"].get("artifact_id") == name]
    assert done == ["writer", "reader"]


HELLO_BODY: Final = json.dumps(HELLO).encode()


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {"authorization": ""}),
        (401, {"authorization": "Bearer nonsense"}),
        (401, {"authorization": f"Bearer runward_{'0' * 16}_{'0' * 64}"}),
        (401, {"authorization": "Bearer ", "x_runward_principal": "writer"}),
        (421, {"host": "evil.example"}),
        (421, {"host": ""}),
        (403, {"origin": "http://evil.example"}),
        (403, {"origin": "null"}),
        (200, {"origin": "OWN"}),
    ],
)
def test_a_request_counts_only_with_a_token_and_from_here(
    served: Served, status: int, headers: dict[str, str]
) -> None:
    said = {name: served.url if value == "OWN" else value for name, value in headers.items()}
    assert served.post(HELLO_BODY, **said)[0] == status


def test_a_wrong_secret_and_a_revoked_token_are_refused(served: Served) -> None:
    token = served.token("writer")
    assert served.post(HELLO_BODY, authorization=f"bearer {token}")[0] == 200
    forged = token[:-1] + ("0" if token[-1] != "0" else "1")
    assert served.post(HELLO_BODY, authorization=f"Bearer {forged}")[0] == 401
    identifier = token.split("_")[1]
    listed = served.place.call("exchange", "token", "list", "--json")
    assert {"id": identifier, "principal_id": "writer"}.items() <= listed.objects()[-1].items()
    file = served.place.state / "tokens" / f"{identifier}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = token.split("_")[2]
    assert secret not in listed.out + file.read_text()
    assert served.place.call("exchange", "token", "revoke", identifier).code == 0
    assert served.post(HELLO_BODY, authorization=f"Bearer {token}")[0] == 401
    assert served.place.call("exchange", "token", "revoke", identifier).code == 3
    assert served.place.call("exchange", "token", "revoke", "../lock").code == 3
    assert served.place.call("exchange", "token", "create", "--as", "nobody").code == 3


def test_a_token_file_that_others_may_write_is_refused(served: Served) -> None:
    token = served.token("writer")
    file = served.place.state / "tokens" / f"{token.split('_')[1]}.json"
    file.chmod(0o620)
    assert served.post(HELLO_BODY, authorization=f"Bearer {token}")[0] == 401


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("DELETE", 405)])
def test_there_is_no_stream_and_no_session_to_end(served: Served, method: str, status: int) -> None:
    assert served.post(b"", method)[0] == status


def test_a_large_body_is_refused_and_a_wrong_one_answered(served: Served) -> None:
    assert served.post(b" " * ((4 << 20) + 1))[0] == 413
    assert served.post(b"{")[0] == 400


@contextlib.contextmanager
def stopped(served: Served) -> Iterator[int]:
    """A handle of the server, which accepts requests and answers none."""
    wait_for(lambda: served.post(HELLO_BODY)[0] == 200, "a server")
    server = os.pidfd_open(served.server())
    signal.pidfd_send_signal(server, signal.SIGSTOP)
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(server, signal.SIGCONT)
        os.close(server)


def test_so_many_calls_are_in_progress_and_one_more_is_turned_away(served: Served) -> None:
    with ThreadPoolExecutor(AT_ONCE + 1) as clients:
        with stopped(served):
            asked = [clients.submit(served.post, HELLO_BODY) for _ in range(AT_ONCE + 1)]
            turned_away = next(as_completed(asked)).result()
        answered = sorted(each.result()[0] for each in asked)
    assert turned_away == (503, f"{AT_ONCE} calls are in progress: try again later\n".encode())
    assert answered == [*[200] * AT_ONCE, 503]


def test_a_client_learns_that_the_server_ended_before_it_answered(served: Served) -> None:
    def sockets() -> set[str]:
        return sockets_of(served.daemon.pid)

    with ThreadPoolExecutor(1) as clients, stopped(served) as server:
        before = sockets()
        asked = clients.submit(served.post, HELLO_BODY)
        wait_for(lambda: len(sockets() - before) == 2, "the daemon has a client and has reached the server")
        signal.pidfd_send_signal(server, signal.SIGKILL)
        status, said = asked.result()
    assert (status, b"may still be carried out" in said) == (502, True)
    wait_for(lambda: served.post(HELLO_BODY)[0] == 200, "a server again")


def test_a_server_that_was_killed_comes_back(served: Served) -> None:
    wait_for(lambda: served.post(HELLO_BODY)[0] == 200, "a server")
    killed = served.server()
    os.kill(killed, signal.SIGKILL)
    # Not at once, for one that keeps ending must not be started all the time.
    wait_for(lambda: served.post(HELLO_BODY)[0] == 200, "a server again")
    assert served.server() != killed
    # The daemon writes its report once a second.
    wait_for(
        lambda: "http.mcp" not in str(served.place.call("status", "--json").object()["degraded"]),
        "all is well",
    )


def test_settings_that_switch_it_off_end_the_server(served: Served) -> None:
    wait_for(lambda: served.post(HELLO_BODY)[0] == 200, "a server")
    settings = served.place.directory / "runward.toml"
    written = settings.read_text()
    try:
        settings.write_text(written.replace("mcp = true", "mcp = false"))
        assert served.place.call("daemon", "reload").code == 0
        wait_for(lambda: servers_of(served.daemon.pid) == [], "the end of the server")
        assert served.post(HELLO_BODY)[0] == 404
        assert servers_of(served.daemon.pid) == []
    finally:
        settings.write_text(written)
        assert served.place.call("daemon", "reload").code == 0
    wait_for(lambda: served.post(HELLO_BODY)[0] == 200, "a server again")


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.prove)])
def test_the_server_ends_with_the_daemon(tmp_path: Path, how: signal.Signals) -> None:
    place = furnish(tmp_path)
    with place.daemon() as daemon:
        served = Served(place, daemon)
        assert servers_of(daemon.pid) == [], "nobody has asked for it"
        assert served.post(HELLO_BODY)[0] == 200
        server = os.pidfd_open(served.server())
        daemon.send_signal(how)
        daemon.wait(PATIENCE_S)
        ready, _, _ = select.select([server], [], [], 1.0)
        os.close(server)
        assert ready, "it is alive a second after the daemon"
