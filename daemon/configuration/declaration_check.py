"""Continuously checking that all playbooks and agent profiles can be used, even those that no run names yet."""

from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread
import structlog

from runward.daemon.configuration.declarations import Declarer

PERIOD: Final = 10.0
"""Seconds between two looks: a file that was fixed may still be shown as wrong for so long."""


@dataclass(slots=True)
class DeclarationCheck:
    """Reads them repeatedly; what did not change is not parsed again."""

    declarer: Declarer
    log: structlog.typing.FilteringBoundLogger

    async def run(self) -> None:
        """Look until cancelled."""
        known: set[str] = set()
        while True:
            await anyio.to_thread.run_sync(self.declarer.check)
            now = set(self.declarer.degraded())
            for why in sorted(now - known):
                self.log.warning("declaration.wrong", why=why)
            known = now
            await anyio.sleep(PERIOD)
