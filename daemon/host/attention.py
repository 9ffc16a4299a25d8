"""`<state>/attention`: in one line how much needs a person, for prompts and status bars. `attention.json` has the numbers.

They are those of "Needs you" on the first screen, from the same function.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from runward.config.settings import Settings
from runward.daemon.disk.durable import write_whole
from runward.daemon.log import Log
from runward.daemon.store import reading
from runward.daemon.store.store import Store
from runward.daemon.views.needs import attention
from runward.daemon.views.status import needs_in
from runward.daemon.views.text import json_text
from runward.daemon.world.clock import until_beat

NAME: Final = "attention"
NUMBERS: Final = f"{NAME}.json"

PERIOD: Final = 1.0
"""Seconds between two checks whether anything was committed."""

BEAT: Final = 60.0
"""Seconds after which it is looked again anyway: a failure no longer counts after a day, which no commit says."""

_REST: Final = 100.0
"""A look that took long is followed by a pause of so many times that: in a burst of runs, each second has commits."""

_MOST_BYTES: Final = 4096


@dataclass(slots=True)
class Attention:
    """One task. It only reads the store, in a transaction of its own, and delays no verdict."""

    state: Path
    settings: Callable[[], Settings]
    store: Store
    news: Callable[[], int]
    """How often what the daemon reports of itself has changed; 0 before its first report."""
    log: Log
    _seen: tuple[int, int] | None = None
    _looked_at: float = 0.0
    _trouble: str | None = None

    async def run(self) -> None:
        """Keep it current until cancelled."""
        while True:
            took = await self.step()
            await anyio.sleep(max(until_beat(PERIOD), took * _REST))

    async def step(self) -> float:
        """Look, if there may be something new; returns the seconds that this took."""
        began, seen = time.monotonic(), (self.store.commits, self.news())
        is_new = seen != self._seen or began - self._looked_at > BEAT
        if not is_new or not self.news():
            return 0.0
        try:
            # Waited for, also by a stop: a later daemon must not find an older one's line written over its own.
            await anyio.to_thread.run_sync(write_attention, self.state, self.settings())
            self._trouble = None
        except Exception as error:  # noqa: BLE001 # whatever is wrong with a convenience, verdicts go on
            why = (error.strerror if isinstance(error, OSError) else None) or repr(error)
            if why != self._trouble:
                self.log.warning("attention.not_written", why=why)
            self._trouble = why
        self._seen, self._looked_at = seen, began
        return time.monotonic() - began


def write_attention(state: Path, settings: Settings) -> None:
    """Replace the files whose content is no longer true. Raises `OSError` and `StoreUnreadable`."""
    with reading.reading(str(state)) as connection:
        # It looks at few rows, again and again: the usual cache would stay in the heap of its thread.
        connection.execute("pragma cache_size = -256")
        found = attention(needs_in(connection, settings, time.time()))
    directory = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name, text in ((NUMBERS, json_text(found.as_json())), (NAME, found.line)):
            content = f"{text}\n".encode() if text else b""
            # Compared with the file: a daemon that was frozen may have put an older one in its place.
            if _content(directory, name) != content:
                write_whole(directory, name, content)
    finally:
        os.close(directory)


def _content(directory: int, name: str) -> bytes | None:
    """What a file contains; None if there is none to read."""
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError:
        return None
    try:
        return os.read(descriptor, _MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
