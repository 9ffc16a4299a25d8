"""Work that must not delay verdicts: done in short slices, each begun while no verdict is in progress."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio

from runward.daemon.ports.clock import Clock

LONGEST: Final = 0.01
"""Seconds that a slice should take: a verdict that arrives meanwhile waits for its end."""

PATIENCE: Final = 30.0
"""Seconds of verdicts without a pause after which a slice is done alongside them."""

_LOOK: Final = 0.02
"""Seconds between two checks for pending verdicts."""


@dataclass(slots=True)
class Slices:
    """How much is done at once: `size` follows from the duration of the last slice, and is at most `most`."""

    clock: Clock
    busy: Callable[[], bool]
    """Whether verdicts, or their journals, are on their way."""
    most: int
    size: int = 4
    _since: float = 0.0

    async def begin(self) -> None:
        """Wait until no verdict is in progress, or until this work has waited too long."""
        give_up = self.clock.monotonic() + PATIENCE
        while self.busy() and self.clock.monotonic() < give_up:  # noqa: ASYNC110 # nobody tells that none is left
            await anyio.sleep(_LOOK)
        self._since = self.clock.monotonic()

    async def end(self) -> None:
        """The slice is done: adjust the size of the next one, and let others go first for a moment."""
        took = self.clock.monotonic() - self._since
        if took > LONGEST:
            self.size = max(1, self.size // 2)
        elif took < LONGEST / 2:
            self.size = min(self.most, self.size * 2)
        await anyio.sleep(took)
