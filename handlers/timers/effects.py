"""What can be ordered for timers."""

from typing import NamedTuple, TypeAlias


class RingNow(NamedTuple):
    """Have what waits in a lane of timers checked now: the thing it waits for is over."""

    lane: str


TimerEffect: TypeAlias = RingNow
