"""When work is done: each refusal makes the next wait longer, verdicts come first, and long work is done in short slices between them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import anyio

from runward.daemon.world.clock import Clock

LONGEST_WAIT: Final = 30.0
"""The longest pause between two tries, in seconds."""

SHORTEST_WAIT: Final = 1.0
"""Seconds between the first and the second try; the pause then doubles each time."""

_PATIENT: Final = 100
_LOOK: Final = 0.005
"""How often, and at which interval in seconds, to check for pending verdicts before continuing anyway."""


class Delayed(NamedTuple):
    """Something that was refused and why; when to try again (monotonic seconds), and how often it was tried."""

    at: float
    tries: int
    why: str

    @property
    def is_worth_saying(self) -> bool:
        """Whether to log it: at the first refusal, and again when the trouble has lasted."""
        return self.tries in (1, 3)

    @property
    def lasts(self) -> bool:
        """Whether `status` should show it."""
        return self.tries > 2


def delayed(before: Delayed | None, now: float, why: str) -> Delayed:
    """The record after one more refusal at `now` (monotonic seconds)."""
    tries = 1 if before is None else before.tries + 1
    return Delayed(now + min(LONGEST_WAIT, SHORTEST_WAIT * 2 ** min(tries - 1, 6)), tries, why)


async def let_verdicts_pass(busy: Callable[[], bool]) -> None:
    """Wait while verdicts are in progress, but not forever."""
    for _ in range(_PATIENT):
        if not busy():
            return
        await anyio.sleep(_LOOK)


LONGEST_SLICE: Final = 0.01
"""Seconds that a slice should take: a verdict that arrives meanwhile waits for its end."""

PATIENCE: Final = 30.0
"""Seconds of verdicts without a pause after which a slice is done alongside them."""

_SLICE_LOOK: Final = 0.02
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
            await anyio.sleep(_SLICE_LOOK)
        self._since = self.clock.monotonic()

    async def end(self) -> None:
        """The slice is done: adjust the size of the next one, and let others go first for a moment."""
        took = self.clock.monotonic() - self._since
        if took > LONGEST_SLICE:
            self.size = max(1, self.size // 2)
        elif took < LONGEST_SLICE / 2:
            self.size = min(self.most, self.size * 2)
        await anyio.sleep(took)
