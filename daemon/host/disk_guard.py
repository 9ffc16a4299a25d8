"""Free space on the state directory's disk: below a limit nothing new is accepted, until there is enough again.

What is already recorded and due is still carried out, so a little space must be left. Runs that are not looked at stay
on disk, so nothing is lost. The daemon waits out a completely full disk too (`daemon/worker/turn.py`), only less
cleanly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import structlog

from runward.daemon.disk.file_systems import Space, limit_of, rounded, space_of
from runward.daemon.disk.in_thread import in_thread

PERIOD: Final = 1.0
"""Seconds between two checks of the free space."""

_MORE: Final = 9 / 8
"""This many times the limit must be free before runs are looked at again: otherwise it would flap."""


@dataclass(slots=True)
class Room:
    """One task. It calls `tell` with the reason when nothing new may be accepted, and with None when it may."""

    state: Path
    limit: Callable[[], int]
    tell: Callable[[str | None], None]
    log: structlog.typing.FilteringBoundLogger
    space: Callable[[Path], Space] = space_of
    is_low: bool = False
    _unknown: bool = False

    async def run(self) -> None:
        """Keep checking until cancelled."""
        while True:
            await anyio.sleep(PERIOD)
            await self.look()

    async def look(self) -> None:
        """Check how much space there is now."""
        try:
            space = await in_thread(self.space, self.state)
        except OSError as error:
            if not self._unknown:
                self.log.warning("disk.unknown", directory=str(self.state), why=error.strerror)
            self._unknown = True
            return
        self._unknown = False
        limit = limit_of(space, self.limit())
        wanted = limit * _MORE if self.is_low else limit
        low = limit > 0 and (space.free < wanted or space.no_files)
        if low != self.is_low:
            self.is_low = low
            self._say(space, limit)
        if low:
            self.tell(_why(self.state, space, limit))

    def _say(self, space: Space, limit: int) -> None:
        if self.is_low:
            self.log.error(
                "disk.low",
                directory=str(self.state),
                free=space.free,
                limit=limit,
                fix="free space there; nothing is lost, and it continues by itself",
            )
        else:
            self.log.info("disk.recovered", directory=str(self.state), free=space.free)
            self.tell(None)


def _why(state: Path, space: Space, limit: int) -> str:
    """For `status`: in whole MB, so that the text doesn't change every second."""
    if space.no_files:
        return f"low disk: no more files can be created in {state} (no inodes left); no run is looked at until there are more"
    return f"low disk: less than {rounded(limit)} free in {state} (low_disk); no run is looked at until there is more"
