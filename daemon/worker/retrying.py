"""Retries: each refusal makes the next wait longer, and verdicts come first."""

from collections.abc import Callable
from typing import Final, NamedTuple

import anyio

LONGEST: Final = 30.0
"""The longest pause between two tries, in seconds."""

SHORTEST: Final = 1.0
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
    return Delayed(now + min(LONGEST, SHORTEST * 2 ** min(tries - 1, 6)), tries, why)


async def let_verdicts_pass(busy: Callable[[], bool]) -> None:
    """Wait while verdicts are in progress, but not forever."""
    for _ in range(_PATIENT):
        if not busy():
            return
        await anyio.sleep(_LOOK)
