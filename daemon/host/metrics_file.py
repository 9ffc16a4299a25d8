"""The file for a collector of metrics (`[metrics] textfile`), which a process of its own replaces every 15 seconds.

Agents name models, and what agents wrote is never rendered in the process that judges. What the process says are lines: why
the file can't be written, or an empty one once it can. It ends with its stdin. If that was the end of the daemon, it writes
the file a last time, with `runward_up 0`.
"""

import asyncio
import errno
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from runward.config.settings import Settings
from runward.daemon.disk.durable import write_whole
from runward.daemon.log import Log
from runward.daemon.world.starting import environment

PERIOD_S: Final = 15.0
"""Seconds between two files, and between two starts of the process."""

MODE: Final = 0o644
"""Other users read it: the collector is one of them. It says how much ran and was used, and names models."""

_LAST_S: Final = 2.0
"""Seconds that a stop waits for the last file."""

_FORGET: Final = b"forget\n"
_MOST_SAID: Final = 1000


class MetricsFile:
    """Has the file written that the settings name at any moment. Whatever goes wrong with it, the daemon continues."""

    def __init__(self, state: Path, settings: Callable[[], Settings], log: Log) -> None:
        self._state = state
        self._settings = settings
        self._log = log
        self._changed = anyio.Event()
        self._trouble: str | None = None

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        return [] if self._trouble is None else [f"metrics.textfile: {self._trouble}"]

    def use_settings(self) -> None:
        """Other settings are in force."""
        self._changed.set()

    async def run(self) -> None:
        """Have it written until cancelled."""
        while True:
            self._changed, self._trouble = anyio.Event(), None
            path = self._settings().metrics.textfile
            if path is None:
                await self._changed.wait()
                continue
            try:
                await self._write(path)
            except OSError as error:
                self._is_wrong(f"its program can't be started: {error.strerror}")
            if self._settings().metrics.textfile == path:
                with anyio.move_on_after(PERIOD_S):
                    await self._changed.wait()

    async def _write(self, path: str) -> None:
        """Until other settings are in force, the process ends, or cancelled. Raises `OSError`."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__, str(self._state), path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            limit=_MOST_SAID,
            cwd="/",
            env=environment(os.environ),
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._hear, process, tasks.cancel_scope)
                while self._settings().metrics.textfile == path:
                    await self._changed.wait()
                    self._changed = anyio.Event()
                process.stdin.write(_FORGET)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                process.stdin.close()
                with anyio.move_on_after(_LAST_S):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def _hear(self, process: asyncio.subprocess.Process, until: anyio.CancelScope) -> None:
        """What the process says, until it ends."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            why = line.decode(errors="replace").strip()
            if why:
                self._is_wrong(why)
            else:
                self._trouble = None
        self._is_wrong(f"its program ended with {await process.wait()}")
        until.cancel()

    def _is_wrong(self, why: str) -> None:
        self._trouble = why
        fix = "make its directory writable for the daemon, or set another path; the daemon tries again"
        self._log.warning("metrics.not_written", why=why, fix=fix)


def main(state: Path, path: Path) -> None:
    """Write the file until stdin ends."""
    # Only the process needs these, not the daemon.
    from runward.config.settings import USUAL
    from runward.daemon.processes.giving_way import give_way
    from runward.daemon.store.ownership import holder
    from runward.daemon.store.reading import StoreUnreadable
    from runward.daemon.views.daemon_report import report_of, settings_in_report
    from runward.daemon.views.metrics import metrics

    give_way()
    daemon = os.getppid()
    settings = USUAL._replace(state_dir=str(state))
    said: str | None = None

    def written(is_ending: bool) -> str:
        """Why the file was not written; empty if it was."""
        nonlocal settings
        # Those that are in force now. They are the last ones known once the daemon has ended.
        settings = settings_in_report(report_of(str(state), holder(state))) or settings
        try:
            text = metrics(settings, time.time(), is_ending=is_ending)
            _replace(path, text.encode())
        except StoreUnreadable as error:
            return str(error)
        except OSError as error:
            return f"{path} can't be written: {error.strerror}"
        return ""

    while True:
        why = written(is_ending=False)
        if why != said:
            said = why
            # The daemon may be gone; then the next look at stdin shows it.
            with suppress(BrokenPipeError):
                os.write(1, why.replace("\n", " ").encode()[: _MOST_SAID // 2] + b"\n")
        if (told := _told()) is not None:
            break
    if told == _FORGET:
        path.unlink(missing_ok=True)
    elif holder(state) in (None, daemon):  # a successor writes its own
        written(is_ending=True)


def _told() -> bytes | None:
    """What the daemon says before the next file is due; None if nothing, and nothing more if it ended."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    return os.read(0, len(_FORGET)) if poll.poll(PERIOD_S * 1000) else None


def _replace(path: Path, content: bytes) -> None:
    """Raises `OSError`."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_whole(descriptor, path.name, content, mode=MODE)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
