"""A server in a process of its own, on a socket that the daemon opened: started when it is needed, ended when it isn't.

It ends when its stdin is closed, so also with a daemon that was killed.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from runward.daemon.world.starting import environment

RESTART_S: Final = 1.0
"""Seconds between two starts: one that ends at once is not started all the time."""

MOST_LOG: Final = 1 << 20
"""Bytes of its log: one that is larger is emptied."""


class NoServer(Exception):
    """There is no server now; the message says why."""


class ChildServer:
    """Starts `python -m MODULE STATE DESCRIPTOR`, at most one at a time. `name` is that of its log and its events.

    Its log is next to the daemon's own: what it writes to stderr.
    """

    def __init__(
        self, state: Path, name: str, module: str, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._state = state
        self._name = name
        self._module = module
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._started_at = -RESTART_S

    @property
    def runs(self) -> bool:
        """Whether it is there, as far as is known."""
        return self._process is not None and self._process.returncode is None

    async def start(self, listening: socket.socket) -> None:
        """Start it on this socket. Raises `NoServer` and `OSError`."""
        if time.monotonic() - self._started_at < RESTART_S:
            raise NoServer(
                f"the server ended at once; log/{self._name}.log in the state directory may say why"
            )
        self._started_at = time.monotonic()
        log = os.open(
            self._log_path(),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", self._module, str(self._state), str(listening.fileno()),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
                env=environment(os.environ),
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )  # fmt: skip  # the command on one line
        finally:
            os.close(log)
        self._log.info(f"{self._name}.started", pid=self._process.pid)

    async def wait(self) -> int:
        """Wait until it has ended; its exit code. It must have been started."""
        assert self._process is not None, "it was started"
        code = await self._process.wait()
        self._process = None
        return code

    async def end(self) -> int | None:
        """End it at once; its exit code, None if there was no server.

        Nothing is lost: what was sent is durable, and what was not sent never happened.
        """
        if self._process is None:
            return None
        with suppress(ProcessLookupError):
            self._process.kill()
        code = await self._process.wait()
        self._process = None
        return code

    def trim_log(self) -> None:
        """Empty its log if that is large. The server continues with the same file, because it only appends."""
        with suppress(FileNotFoundError):
            if self._log_path().stat().st_size > MOST_LOG:
                os.truncate(self._log_path(), 0)

    def _log_path(self) -> Path:
        return self._state / "log" / f"{self._name}.log"
