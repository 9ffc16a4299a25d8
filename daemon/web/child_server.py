"""Programs of the daemon's own, each in a process: how one is started, and servers on a socket that the daemon holds."""

import asyncio
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread

from runward.config.listening import TcpAddress
from runward.config.settings import Settings
from runward.config.studio import StudioSettings
from runward.daemon.disk.credentials import STUDIO, KeyUnusable, own_name, studio_key
from runward.daemon.disk.durable import make_durably, write_durably
from runward.daemon.log import Log
from runward.daemon.web.sockets import CannotListen, StudioReport, open_tcp
from runward.daemon.world.starting import environment

RESTART_S: Final = 1.0
"""Seconds between two starts: one that ends at once is not started all the time."""

MOST_LOG: Final = 1 << 20
"""Bytes of its log: one that is larger is emptied."""


async def start_program(
    state: Path,
    name: str,
    module: str,
    *arguments: str,
    stdout: int = subprocess.DEVNULL,
    longest_line: int = 1 << 16,
    pass_fds: Sequence[int] = (),
    further: dict[str, str] | None = None,
) -> asyncio.subprocess.Process:
    """Start `python -m MODULE STATE ARGUMENTS`. Raises `OSError`.

    `name` is that of its log, next to the daemon's own: what it writes to stderr. `further` are variables of its environment.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    log = os.open(_log_path(state, name), flags, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", module, str(state), *arguments),
            # It ends when this pipe ends, so also with a daemon that is killed.
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=log,
            limit=longest_line,
            cwd="/",
            env=environment(os.environ) | (further or {}),
            pass_fds=pass_fds,
            start_new_session=True,
        )
    finally:
        os.close(log)


def trim_log(state: Path, name: str) -> None:
    """Empty a program's log if that is large. The program continues with the same file, because it only appends."""
    path = _log_path(state, name)
    with suppress(FileNotFoundError):
        if path.stat().st_size > MOST_LOG:
            os.truncate(path, 0)


def _log_path(state: Path, name: str) -> Path:
    return state / "log" / f"{name}.log"


class NoServer(Exception):
    """There is no server now; the message says why."""


class ChildServer:
    """Starts `python -m MODULE STATE DESCRIPTOR`, at most one at a time. `name` is that of its log and its events.

    What agents wrote is never rendered in the process that judges.
    """

    def __init__(self, state: Path, name: str, module: str, log: Log) -> None:
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
        # One that ends at once would otherwise be started without a pause.
        if time.monotonic() - self._started_at < RESTART_S:
            raise NoServer(
                f"the server ended at once; log/{self._name}.log in the state directory may say why"
            )
        self._started_at = time.monotonic()
        # The daemon keeps the socket, so the address stays while the program is not there.
        descriptor = listening.fileno()
        self._process = await start_program(
            self._state, self._name, self._module, str(descriptor), pass_fds=(descriptor,)
        )
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
        """Empty its log if that is large."""
        trim_log(self._state, self._name)


PROGRAM: Final = "runward.daemon.studio.program"
RETRY_S: Final = 10.0
"""Seconds until the address is tried again, or a program that ended with an error is started again."""

_PORT: Final = "port"
_LOOK_S: Final = 60.0
"""Seconds between two looks at the size of the program's log."""


class StudioSocket:
    """Serves the Studio as the settings say at any moment. Whatever goes wrong with it, the daemon continues."""

    def __init__(self, state: Path, settings: Callable[[], Settings], log: Log) -> None:
        self._state = state
        self._settings = settings
        self._log = log
        self._program = ChildServer(state, "studio", PROGRAM, log)
        self._changed = anyio.Event()
        self._served: StudioSettings | None = None
        self._port: int | None = None
        self._trouble: str | None = None

    def report(self) -> StudioReport | None:
        """Where it is served, for `status`."""
        if self._port is None:
            return None
        try:
            return StudioReport(f"http://{own_name(studio_key(self._state))}:{self._port}")
        except (KeyUnusable, OSError) as error:
            self._trouble = str(error)
            return None

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        return [] if self._trouble is None else [f"studio: {self._trouble}"]

    def use_settings(self) -> None:
        """Other settings are in force."""
        self._changed.set()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. It has started once the address is open, or can't be opened."""
        opened = await self._opened()
        task_status.started()
        while True:
            if opened is not None:
                with opened:
                    await self._serve(opened)
            else:
                with anyio.move_on_after(math.inf if self._trouble is None else RETRY_S):
                    await self._changed.wait()
            opened = await self._opened()

    async def _opened(self) -> socket.socket | None:
        """The socket that the settings want. None if they want none, or it can't be had."""
        self._changed, self._trouble = anyio.Event(), None
        self._served = self._settings().studio
        if self._served is None:
            return None
        try:
            return await anyio.to_thread.run_sync(self._open, self._served)
        except (CannotListen, KeyUnusable, OSError) as error:
            self._trouble = str(error)
            self._log.warning(
                "studio.not_served", why=self._trouble, fix=f"the daemon tries again every {RETRY_S:.0f} s"
            )
            return None

    def _open(self, wanted: StudioSettings) -> socket.socket:
        """Raises `CannotListen`, `KeyUnusable` and `OSError`."""
        name = own_name(studio_key(self._state))
        listening = open_studio(self._state, wanted.address)
        self._port = listening.getsockname()[1]
        self._log.info("studio.listening", address=f"http://{name}:{self._port}")
        return listening

    async def _serve(self, listening: socket.socket) -> None:
        """Until other settings are in force, or cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._start_for_each, listening)
                while self._settings().studio == self._served:
                    await self._changed.wait()
                    self._changed = anyio.Event()
                tasks.cancel_scope.cancel()
        finally:
            self._port = None
            with anyio.CancelScope(shield=True):
                # Shielded, because the program must end with its address, also when the daemon stops.
                await self._program.end()

    async def _start_for_each(self, listening: socket.socket) -> None:
        """Start the program whenever somebody connects and it isn't there."""
        while True:
            # A client waits in the socket's backlog. The daemon never accepts it: the program does.
            await anyio.wait_readable(listening)
            began = time.monotonic()
            try:
                await self._program.start(listening)
                code = await self._ended()
                self._trouble = (
                    None if code == 0 else f"its program ended with {code}; log/studio.log may say why"
                )
            except (NoServer, OSError) as error:
                self._trouble = f"its program can't be started: {error}"
            if self._trouble is not None:
                self._log.warning("studio.ended", why=self._trouble)
                await anyio.sleep(max(0.0, began + RETRY_S - time.monotonic()))

    async def _ended(self) -> int:
        """The program's exit code, once it has ended."""
        while True:
            with anyio.move_on_after(_LOOK_S):
                return await self._program.wait()
            await anyio.to_thread.run_sync(self._program.trim_log)


def open_studio(state: Path, address: TcpAddress) -> socket.socket:
    """Listen on this address. Port 0 is the last one that was used, if it is free. Raises `CannotListen` and `OSError`."""
    make_durably(state, STUDIO)
    if address.port == 0:
        with suppress(CannotListen, OSError, ValueError, OverflowError):
            # The same port as before keeps a page that is open in a browser working after a restart.
            last = int((state / STUDIO / _PORT).read_text())
            return open_tcp(address._replace(port=last), "studio.listen")
    listening = open_tcp(address, "studio.listen")
    if address.port == 0:
        write_durably(state / STUDIO, _PORT, str(listening.getsockname()[1]).encode())
    return listening
