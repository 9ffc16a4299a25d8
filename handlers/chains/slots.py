"""Slots: the right of one step to run. The others wait, in the order in which their runs were fired."""

from typing import NamedTuple

from runward.handlers.model.asking import Asking, ask
from runward.handlers.model.chains import SlotOffered, SlotsNow, StepsAtOnce, Waiter
from runward.handlers.model.effects import Effect, Emit


class Room(NamedTuple):
    """How many slots are free, and who waits for one, in order."""

    free: int
    waiters: tuple[Waiter, ...]

    def is_for(self, waiter: Waiter) -> bool:
        """Whether a slot is left for this step after those that come before it."""
        return sum(each < waiter for each in self.waiters) < self.free


def room(run: str, freed: int | None) -> Asking[Room]:
    """What is free for a run, or for others once it has released `freed` slots. It asks nothing after this."""
    limit = yield from ask(StepsAtOnce())
    slots = yield from ask(SlotsNow())
    others = tuple(each for each in slots.waiters if each.run != run)
    return Room(limit - len(slots.running) + (freed or 0), others)


def offer(room: Room, at: float, by: str) -> tuple[Effect, ...]:
    """Offer a free slot, if anybody waits.

    If several steps end at the same time, each offers its own slot: the first slot goes to the first waiter, and so on.
    """
    number = min(room.free, len(room.waiters))
    if number <= 0:
        return ()
    waiter = room.waiters[number - 1]
    return (Emit(SlotOffered(waiter.run, waiter.step, waiter.attempt, at, by)),)


def let_go(run: str, freed: int | None, at: float, by: str) -> Asking[tuple[Effect, ...]]:
    """Offer what a run releases (None: nothing) and does not take again. It asks nothing after this."""
    return () if freed is None else offer((yield from room(run, freed)), at, by)
