"""Work that no verdict may wait for: done in slices, each begun while none is on its way and soon over."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio

from runward.daemon.ports.clock import Clock

LONGEST: Final = 0.01
"""Seconds that a slice should take: a verdict that comes in the middle waits for its end."""

PATIENCE: Final = 30.0
"""Seconds of verdicts without a pause after which a slice is done beside them."""

_LOOK: Final = 0.02
"""Seconds between two looks whether verdicts are on their way."""


@dataclass(slots=True)
class Slices:
    """How much is done at once: `size`, which follows from how long the last slice took, and is at most `most`."""

    clock: Clock
    busy: Callable[[], bool]
    """Whether verdicts, or their journals, are on their way."""
    most: int
    size: int = 4
    _since: float = 0.0

    async def begin(self) -> None:
        """Wait until no verdict is on its way, or for so long that this has to go on in any case."""
        give_up = self.clock.monotonic() + PATIENCE
        while self.busy() and self.clock.monotonic() < give_up:  # noqa: ASYNC110 # nobody tells that none is left
            await anyio.sleep(_LOOK)
        self._since = self.clock.monotonic()

    async def end(self) -> None:
        """The slice is done: the next one is larger or smaller, and others come first for a moment."""
        took = self.clock.monotonic() - self._since
        if took > LONGEST:
            self.size = max(1, self.size // 2)
        elif took < LONGEST / 2:
            self.size = min(self.most, self.size * 2)
        await anyio.sleep(took)
