"""Continuously checking that all configuration can be used, even what no run names yet; and telling what changed."""

from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread

from runward.daemon.configuration.declarations import Declarer
from runward.daemon.configuration.settings_files import Look, wait_until_quiet
from runward.daemon.log import Log

MOST_NAMED: Final = 20
"""Files that one line of the log names."""

PERIOD: Final = 10.0
"""Seconds between two looks: a file that was fixed may still be shown as wrong for so long."""


@dataclass(slots=True)
class DeclarationCheck:
    """Reads them repeatedly; what did not change is not parsed again."""

    declarer: Declarer
    log: Log

    async def run(self) -> None:
        """Look until cancelled."""
        logged: set[str] = set()
        look: Look | None = None
        while True:
            before, look = look, await anyio.to_thread.run_sync(self._look)
            self._log_changes(before, look)
            await anyio.to_thread.run_sync(self.declarer.check)
            complaints = set(self.declarer.degraded())
            for why in sorted(complaints - logged):
                self.log.warning("declaration.wrong", why=why)
            logged = complaints
            await anyio.sleep(PERIOD)

    def _look(self) -> Look:
        return wait_until_quiet(self.declarer.look)

    def _log_changes(self, before: Look | None, now: Look) -> None:
        """Log which files are in force that were not, or no longer are. Nothing else has to be done for that."""
        if before is None:
            return
        paths = sorted(before.keys() | now.keys())
        changed = [path for path in paths if before.get(path) != now.get(path) and "/." not in path]
        if changed:
            self.log.info("declaration.changed", count=len(changed), files=changed[:MOST_NAMED])
