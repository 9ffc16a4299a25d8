"""The process that serves tools over HTTP, when it ends at once or has much to say."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from runward.daemon.log import log_into
from runward.daemon.web import child_server, mcp
from runward.daemon.web.child_server import MOST_LOG, NoServer
from runward.daemon.web.mcp import McpProcess, NoAnswer


class Server:
    """A process that ends at once, at a time that the test sets."""

    def __init__(self, state: Path) -> None:
        (state / "log").mkdir()
        self.now = 100.0
        self.errors = state / "log" / "mcp.log"
        self.logged: list[dict[str, object]] = []
        self.process = McpProcess(state, lambda: True, log_into(self.logged.append))

    @property
    def starts(self) -> int:
        return sum(line["event"] == "mcp.started" for line in self.logged)

    async def is_asked(self) -> str | None:
        """Why there is no server to ask; None if there was one, which may have ended meanwhile."""
        try:
            connection = await self.process.connect()
        except NoServer as error:
            return str(error)
        with pytest.raises(NoAnswer):
            await connection.ask("/mcp", (), b"")
        connection.close()
        return None


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(mcp, "_MODULE", "runward.no_such_module")
    made = Server(tmp_path)
    monkeypatch.setattr(child_server, "time", SimpleNamespace(monotonic=lambda: made.now))
    yield made
    await made.process.end()


async def test_one_that_ends_at_once_is_started_once_a_second(server: Server) -> None:
    for second in range(1, 4):
        await server.is_asked()
        assert server.starts == second
        for _ in range(3):
            server.now += 0.25
            why = await server.is_asked()
            assert why == "the server ended at once; log/mcp.log in the state directory may say why"
            assert server.starts == second
        assert server.process.degraded() == [f"http.mcp: {why}"]
        server.now += 0.25
    assert "no_such_module" in server.errors.read_text()


async def test_its_log_is_emptied_when_it_is_large(server: Server) -> None:
    server.errors.write_bytes(b"x" * MOST_LOG)
    await server.is_asked()
    assert server.errors.stat().st_size >= MOST_LOG
    with server.errors.open("ab") as file:
        file.write(b"x")
    await server.is_asked()
    assert server.errors.stat().st_size < MOST_LOG
