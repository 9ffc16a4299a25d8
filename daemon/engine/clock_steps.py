"""Steps of the wall clock: a timed wait keeps its length, whatever the wall clock does.

A wait is a row with a wall time. The store notes how far the wall clock is ahead of the machine's own clock, which no
step moves. If the two drift apart, the waiting rows are moved by the same amount, in the transaction that notes it. So
each step is compensated once, even across crashes and restarts.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import anyio

from runward.daemon.store.store import Store
from runward.daemon.store.tables import all as tables
from runward.daemon.store.transaction import Statement, as_float
from runward.daemon.world.clock import Clock

SHORTEST: Final = 0.25
"""Seconds by which the clocks must drift apart to count as a step. Slewing adds up to steps, too."""

AGAIN: Final = 60.0
"""Seconds between notes of the wall clock's time. After a reboot only the last note is known."""

_BRACKET: Final = 0.01
"""Seconds within which both clocks must be read, or they are read again: the reader may have been kept from running."""

_READINGS: Final = 5

_NOTED: Final = "select clock_boot_id, clock_ahead, clock_at from daemon where id = 1"
_NOTE: Final = "update daemon set clock_boot_id = ?, clock_ahead = ?, clock_at = ? where id = 1"


class Attempt(Protocol):
    """Runs a transaction; the last argument finds out whether an uncertain commit took place."""

    def __call__(
        self, statements: Sequence[Statement], name: str, happened: Callable[[], Awaitable[bool]]
    ) -> Awaitable[None]: ...


class ClockSteps:
    """How far the wall clock is ahead of the machine's own clock, as all waiting rows assume."""

    def __init__(self, store: Store, clock: Clock, attempt: Attempt) -> None:
        self._store = store
        self._clock = clock
        self._attempt = attempt
        self._noted_at: float | None = None
        self._one_at_a_time = anyio.Lock(fast_acquire=True)
        self.ahead = 0.0
        """Seconds by which the wall clock was ahead when that was noted last."""

    async def start(self) -> None:
        """Continue from what the previous daemon noted."""
        ((boot, ahead, at),) = await self._store.read(_NOTED)
        now, current = self._read()
        if ahead is None or at is None:
            self.ahead = current
        # The same boot: the machine's own clock ran on, so a difference is a step that nobody compensated
        # yet.
        elif boot == self._store.boot_id != "":
            self.ahead, self._noted_at = as_float(ahead), as_float(at)
        else:
            # Another boot: nobody knows how long the machine was off. A clock that shows less than it did was
            # set back by at least that much; any other is believed.
            self.ahead = current + max(0.0, as_float(at) - now)

    def steady(self) -> float:
        """The wall time (Unix seconds) that all waiting rows use, without steps that are not noted yet."""
        return self._clock.monotonic() + self.ahead

    @asynccontextmanager
    async def noted(self) -> AsyncIterator[float]:
        """The wall time, after every waiting row was moved by the clock's step. No other step moves them meanwhile."""
        # Held until the caller's rows are written: otherwise a second step could move rows that carry a time
        # from before it. A daemon that is frozen here may continue with an old time, but the rows are from then, too.
        async with self._one_at_a_time:
            now, ahead = self._read()
            if self._is_news(now, ahead):
                await self._note(now, ahead)
            yield now

    def _read(self) -> tuple[float, float]:
        """The wall time, and by how much it is ahead of the machine's own clock."""
        for _ in range(_READINGS):
            before = self._clock.monotonic()
            now = self._clock.now()
            # Two clocks can't be read at once. If the reader was kept from running in between, the difference
            # would look like a step.
            if self._clock.monotonic() - before < _BRACKET:
                break
        return now, now - before

    def _is_news(self, now: float, ahead: float) -> bool:
        return self._noted_at is None or self._is_step(ahead) or abs(now - self._noted_at) > AGAIN

    def _is_step(self, ahead: float) -> bool:
        return abs(ahead - self.ahead) > SHORTEST

    async def _note(self, now: float, ahead: float) -> None:
        """Move the waiting rows, and note by how much the clock is ahead now."""
        moved = [Statement(sql, [(ahead - self.ahead,)]) for sql in tables.MOVED_BY_STEPS]
        is_step = self._is_step(ahead)
        # A difference below a step is left standing: so slow slewing adds up until it is large enough to be
        # compensated.
        after = ahead if is_step else self.ahead
        noted = (self._store.boot_id, after, now)

        async def happened() -> bool:
            return await self._store.read(_NOTED) == [noted]

        note = Statement(_NOTE, [noted])
        # The rows move in the transaction that notes it, so a crash can't compensate a step twice or never.
        await self._attempt([*moved, note] if is_step else [note], "clock", happened)
        self.ahead, self._noted_at = after, now
