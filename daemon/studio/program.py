"""The Studio's own process, which the daemon starts: `program STATE DESCRIPTOR`.

DESCRIPTOR is the socket that the daemon listens on. The process ends when nobody has been connected for a while, and with
the daemon.
"""

import json
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from runward.config.settings import Settings
from runward.daemon.log import Log, log_into
from runward.daemon.processes.client_gone import end_with_client
from runward.daemon.processes.giving_way import give_way

if TYPE_CHECKING:
    from runward.daemon.web.server import WebServer

IDLE_S: Final = 600.0
"""Seconds without a client after which the process ends."""

_LOOK_S: Final = 5.0


def main(state: str, descriptor: int) -> None:
    """Serve until nobody looks, or the daemon has ended."""
    end_with_client()  # before the libraries are imported, which takes longer than a stop may
    give_way()
    log = log_to_stderr()
    settings = _Reported(Path(state))
    with socket.socket(fileno=descriptor) as listening:
        anyio.run(partial(serve, Path(state), settings, listening, log, idle_s=IDLE_S))


def log_to_stderr() -> Log:
    """Warnings and errors, a line each."""
    return log_into(
        _write,
        "warning",
        structlog.processors.TimeStamper("iso"),
        structlog.processors.format_exc_info,
    )


def _write(event: dict[str, object]) -> None:
    print(json.dumps(event, default=repr), file=sys.stderr, flush=True)  # noqa: T201  # it is its log


async def serve(
    state: Path,
    settings: Callable[[], Settings],
    listening: socket.socket,
    log: Log,
    idle_s: float | None,
) -> None:
    """Serve on this socket until cancelled; with `idle_s`, until nobody has been connected for so many seconds."""
    from runward.daemon.studio.app import studio_app
    from runward.daemon.web.server import WebServer
    from runward.daemon.web.sockets import Opened

    server = WebServer(Opened((listening,), (), ()), studio_app(state, settings, log), log)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        if idle_s is not None:
            await _until_idle(server, idle_s)
            server.stop()


async def _until_idle(server: "WebServer", idle_s: float) -> None:
    requests, busy_at = server.requests, time.monotonic()
    while time.monotonic() - busy_at < idle_s:
        await anyio.sleep(min(_LOOK_S, idle_s))
        if server.connections or server.requests != requests:
            requests, busy_at = server.requests, time.monotonic()


class _Reported:
    """The settings that the daemon uses now, as it reports them; the last ones known while it is not there."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._last: Settings | None = None

    def __call__(self) -> Settings:
        from runward.daemon.store.ownership import holder
        from runward.daemon.store.reading import StoreUnreadable
        from runward.daemon.views.daemon_report import report_of, settings_in_report

        reported = settings_in_report(report_of(str(self._state), holder(self._state)))
        self._last = reported or self._last
        if self._last is None:
            raise StoreUnreadable("the daemon is starting: try again in a moment")
        return self._last


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
