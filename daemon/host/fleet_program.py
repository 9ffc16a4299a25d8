"""The program that reports to the fleet, as the daemon's child: it reads the store, and says what it delivered.

Only the program knows the database. So whatever the database does, nothing in the daemon waits for it.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

from runward.config.settings import Settings, settings_to_json
from runward.daemon.configuration.extras import FLEET_FIX, NO_FLEET, has_fleet
from runward.daemon.log import Log
from runward.daemon.world.starting import environment

PROGRAM: Final = "runward.daemon.fleet.program"

RETRY_S: Final = 5.0
"""Seconds until a program that ended is started again."""

MOST_SAID: Final = 1 << 16
"""Bytes of a line that it says."""

MOST_LOG: Final = 1 << 20
"""Bytes of its log: one that is larger is emptied before the next start."""


class FleetProgram:
    """Runs the program while the settings have a fleet. Whatever goes wrong with it, the daemon continues."""

    def __init__(
        self,
        state: Path,
        settings: Callable[[], Settings],
        epoch: Callable[[], int],
        wake: Callable[[], None],
        log: Log,
    ) -> None:
        self._state = state
        self._settings = settings
        self._epoch = epoch
        self._log = log
        self._changed = anyio.Event()
        self._trouble: str | None = None
        self.delivered: list[int] = []
        """The versions that the fleet has, until the store knows. `wake` is called when there are more."""
        self._wake = wake
        self._stdin: asyncio.StreamWriter | None = None

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        return [] if self._trouble is None else [f"fleet: {self._trouble}"]

    def use_settings(self) -> None:
        """Other settings are in force."""
        self._changed.set()

    def hint(self) -> None:
        """There is more to deliver."""
        # One unread hint is as good as many: a program that is frozen must not have them pile up here.
        if self._stdin is not None and self._stdin.transport.get_write_buffer_size() == 0:
            self._stdin.write(b"\n")

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._changed, self._trouble = anyio.Event(), None
            served = self._settings()
            if served.fleet is None:
                await self._changed.wait()
                continue
            if not has_fleet():
                self._is_wrong(NO_FLEET, FLEET_FIX)
                await self._changed.wait()
                continue
            try:
                await self._serve(served)
            except OSError as error:
                self._is_wrong(f"its program can't be started: {error.strerror}")
            if self._settings() == served:
                with anyio.move_on_after(RETRY_S):
                    await self._changed.wait()

    async def _serve(self, settings: Settings) -> None:
        """Until other settings are in force, the program ends, or cancelled. Raises `OSError`."""
        process = await self._start()
        assert process.stdin is not None
        told = {"settings": settings_to_json(settings), "epoch": self._epoch()}
        process.stdin.write(json.dumps(told).encode() + b"\n")
        self._stdin = process.stdin
        self._log.info("fleet.started", pid=process.pid)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._hear, process, tasks.cancel_scope)
                while self._settings() == settings:
                    await self._changed.wait()
                    self._changed = anyio.Event()
                tasks.cancel_scope.cancel()
        finally:
            self._stdin = None
            with anyio.CancelScope(shield=True):
                # At once: what it delivered and didn't say is delivered again, which changes nothing.
                if process.returncode is None:
                    process.kill()
                await process.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        path = self._state / "log" / "fleet.log"
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(log).st_size > MOST_LOG:
                os.ftruncate(log, 0)
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", PROGRAM, str(self._state)),
                # It ends when this pipe ends, so also with a daemon that is killed.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                limit=MOST_SAID,
                cwd="/",
                env=environment(os.environ) | _fault(),
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def _hear(self, process: asyncio.subprocess.Process, until: anyio.CancelScope) -> None:
        """What the program says, until it ends."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            said = json.loads(line)
            if "delivered" in said:
                self.delivered += said["delivered"]
                self._wake()
            elif said["trouble"] is None:
                self._trouble = None
            else:
                self._is_wrong(str(said["trouble"]))
        self._is_wrong(f"its program ended with {await process.wait()}; log/fleet.log may say why")
        until.cancel()

    def _is_wrong(self, why: str, fix: str = "nothing is lost: what is owed is delivered later") -> None:
        if self._trouble != why:
            self._log.warning("fleet.not_reported", why=why, fix=fix)
        self._trouble = why


def _fault() -> dict[str, str]:
    """Where a test has the program die: what the daemon's own variable says is about the daemon."""
    asked = os.environ.get("RUNWARD_FLEET_FAULT")
    return {} if asked is None else {"RUNWARD_FAULT": asked}
