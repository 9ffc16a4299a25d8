"""What this host owes to its fleet is noted while the settings have one, and what the fleet has is owed no longer.

A program delivers it, as the daemon's child: it reads the store, and says what it delivered. Only it knows the database. So
whatever the database does, nothing in the daemon waits for it. All of this is loaded only if there is a fleet.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio

from runward.config.settings import FleetSettings, Settings, settings_to_json
from runward.daemon.configuration.extras import FLEET_FIX, NO_FLEET, has_fleet
from runward.daemon.engine.part import Slices
from runward.daemon.fleet.problems import OF_FLEET
from runward.daemon.log import Log
from runward.daemon.store.store import Store
from runward.daemon.store.tables import fleet_outbox
from runward.daemon.store.transaction import NOT_STORED
from runward.daemon.web.child_server import start_program, trim_log
from runward.daemon.world.clock import Clock

PROGRAM: Final = "runward.daemon.fleet.program"
_NAME: Final = "fleet"

MOST_WALKED: Final = 256
"""Sessions that are owed in one transaction where all are."""

RETRY_S: Final = 5.0
"""Seconds after which the store is asked again that refused, and a program that ended is started again."""

MOST_SAID: Final = 1 << 16
"""Bytes of a line that the program says."""

_PAUSE_S: Final = 0.5
"""Seconds from one look at what became owed to the next: commits may come by the hundred. The first of them is told at once."""


class FleetReports:
    """Notes what is owed, and runs the program."""

    def __init__(
        self,
        state: Path,
        settings: Callable[[], Settings],
        store: Store,
        clock: Clock,
        busy: Callable[[], bool],
        log: Log,
    ) -> None:
        self._settings = settings
        self._store = store
        self._log = log
        self._woken = anyio.Event()
        self._program = FleetProgram(state, settings, lambda: store.epoch, self._wake, log)
        self._slices = Slices(clock, busy, MOST_WALKED)
        self._noted_as: str | None = None
        """What is reported where, since it is noted; None while nothing is."""
        self._is_walking = False
        self._hinted = 0
        """The version of which the program was told."""
        self._trouble: str | None = None
        self._heard: frozenset[str] = frozenset()
        """The events that other hosts accept from this one, by name."""

    def is_heard(self, event: str) -> bool:
        """Whether another host accepts events of this name from this one."""
        return event in self._heard

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        own = [] if self._trouble is None else [f"{OF_FLEET}{self._trouble}"]
        return [*own, *self._program.degraded()]

    def hint(self) -> None:
        """Something is owed for which another host waits."""
        self._program.hint()

    def use_settings(self) -> None:
        """Other settings are in force."""
        self._program.use_settings()
        self._wake()

    async def begin(self) -> None:
        """Note what changes from now on. Raises what the store raises."""
        fleet = self._settings().fleet
        if self._noted_as is None:
            self._program.owed_again_since = await fleet_outbox.noted_since(self._store)
        wanted = None if fleet is None else _reported_as(fleet, self._program.owed_again_since)
        if wanted == self._noted_as:
            return
        self._program.heard = None
        if wanted is None:
            self._store.tell_commit = _nothing
            await fleet_outbox.switch_off(self._store)
            self._heard = frozenset()
        else:
            await fleet_outbox.switch_on(self._store, wanted)
            self._store.tell_commit = self._wake
            self._is_walking = True
            # Until the fleet says otherwise, what it said last: what happens while it is down is heard, too.
            self._heard = frozenset(await fleet_outbox.heard(self._store))
        self._noted_as = wanted

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._program.run)
            while True:
                self._woken = anyio.Event()
                next_at = anyio.current_time() + _PAUSE_S
                is_done = await self._work()
                with anyio.move_on_after(None if is_done else RETRY_S):
                    await self._woken.wait()
                await anyio.sleep_until(next_at)

    def _wake(self) -> None:
        self._woken.set()

    async def _work(self) -> bool:
        """Obey the settings, mark what was delivered, and tell the program what is owed; returns whether the store took it."""
        try:
            await self.begin()
            if self._noted_as is None:
                return True
            await self._walk()
            sent = [*self._program.delivered]
            if sent:
                await fleet_outbox.delivered(self._store, sent)
                # More may have come in the meantime.
                del self._program.delivered[: len(sent)]
            if self._program.heard is not None and self._heard != frozenset(self._program.heard):
                heard = frozenset(self._program.heard)
                await fleet_outbox.keep_heard(self._store, sorted(heard))
                self._heard = heard
            newest = await fleet_outbox.newest(self._store)
        except NOT_STORED as error:
            self._trouble = str(error)
            self._log.error("fleet.not_marked", why=str(error))
            return False
        self._trouble = None
        if newest > self._hinted:
            self._hinted = newest
            self._program.hint()
        return True

    async def _walk(self) -> None:
        """Owe what may have changed unnoticed."""
        while self._is_walking:
            await self._slices.begin()
            self._is_walking = await fleet_outbox.walk(self._store, self._slices.size)
            self._program.hint()
            await self._slices.end()


_WHAT: Final = "with outcomes and approvals"
"""What is reported of the record. If there is more, all of it is owed again."""


def _reported_as(fleet: FleetSettings, owed_again_since: str | None) -> str:
    told = [fleet.host, fleet.database, fleet.titles, _WHAT]
    return json.dumps(told if owed_again_since is None else [*told, owed_again_since])


def _nothing() -> None:
    """Without a fleet, commits concern nobody."""


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
        self.heard: list[str] | None = None
        """The events that other hosts accept from this one, once the program has said so. `wake` is called then, too."""
        self.owed_again_since: str | None = None
        """Since when the fleet's database is known to be older, so that everything is owed again. `wake` is called when it changes."""
        self._wake = wake
        self._stdin: asyncio.StreamWriter | None = None

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        return [] if self._trouble is None else [f"{OF_FLEET}{self._trouble}"]

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
        trim_log(self._state, _NAME)
        process = await start_program(
            self._state, _NAME, PROGRAM, stdout=subprocess.PIPE, longest_line=MOST_SAID, further=_fault()
        )
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

    async def _hear(self, process: asyncio.subprocess.Process, until: anyio.CancelScope) -> None:
        """What the program says, until it ends, or says something that it never would."""
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self._take(json.loads(line))
        except (ValueError, KeyError, TypeError):
            # A line that a kill has cut, or one that is too long.
            self._is_wrong("its program said what it never should; log/fleet.log may say why")
        else:
            self._is_wrong(f"its program ended with {await process.wait()}; log/fleet.log may say why")
        until.cancel()

    def _take(self, said: dict[str, Any]) -> None:
        if "delivered" in said:
            self.delivered += map(int, said["delivered"])
            self._wake()
        elif "heard" in said:
            self.heard = [str(name) for name in said["heard"]]
            self._wake()
        elif "owe_again" in said:
            self.owed_again_since = str(said["owe_again"])
            self._wake()
        elif said["trouble"] is None:
            self._trouble = None
        else:
            self._is_wrong(str(said["trouble"]))

    def _is_wrong(self, why: str, fix: str = "nothing is lost: what is owed is delivered later") -> None:
        if self._trouble != why:
            self._log.warning("fleet.not_reported", why=why, fix=fix)
        self._trouble = why


def _fault() -> dict[str, str]:
    """Where a test has the program die: what the daemon's own variable says is about the daemon."""
    asked = os.environ.get("RUNWARD_FLEET_FAULT")
    return {} if asked is None else {"RUNWARD_FAULT": asked}
