"""A part of the daemon: in a task of its own, alongside the worker, it processes what it finds in the store.

The supervisor knows its parts only through this class. A new part is one more entry in `Assembly.parts`. Parts let
verdicts go first: they wait longer after each refusal, and do long work in short slices.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

import anyio

from runward.config.settings import Settings
from runward.daemon.log import Log
from runward.daemon.store.batch import Job, JobResult
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import NOT_STORED
from runward.daemon.world.clock import Clock
from runward.handlers.model.effects import Effect


@dataclass(slots=True)
class Part(ABC):
    """Does what is due, then waits until it is woken, or for as long as `pause` says."""

    store: Store
    clock: Clock
    log: Log

    wakes_on: ClassVar[tuple[type[Effect], ...]] = ()
    """The kinds of effects that wake this part once they are durable."""
    is_owed: ClassVar[bool] = True
    """Whether `daemon --once` does this work before it ends."""
    concern: ClassVar[str] = ""
    """What its trouble concerns, for `status`."""
    trouble: str | None = field(default=None, kw_only=True)
    """Why some of its work can't be done now."""
    _wake: anyio.Event = field(default_factory=anyio.Event, kw_only=True)

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def use(self, settings: Settings) -> None:
        """Continue under other settings."""
        self.wake()

    def degraded(self) -> list[str]:
        """What keeps it from its work, for `status`."""
        return [] if self.trouble is None else [f"{self.concern}: {self.trouble}"]

    async def begin(self) -> None:
        """Load what the previous daemon left, before doing anything. Raises `sqlite3.Error`."""
        return

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            # Made anew before the work: a wake-up during it must be seen after it.
            self._wake = anyio.Event()
            await self.drain()
            with anyio.move_on_after(self.pause()):
                await self._wake.wait()

    async def drain(self) -> bool:
        """Do everything that is due now; returns whether there was anything."""
        did = False
        while await self.carry_out():
            did = True
        return did

    @abstractmethod
    async def carry_out(self) -> bool:
        """Do the next of what is due; returns whether there was anything."""

    @abstractmethod
    def pause(self) -> float | None:
        """Seconds until there may be something to do without a wake-up; None if there won't be anything."""


@dataclass(slots=True)
class InPasses(Part):
    """Goes through what is owed in passes: each reaches everything once, so what is refused holds up nothing behind it."""

    not_marked: ClassVar[str]
    """What the log says if the store does not mark what was done."""
    _reached: int = field(default=0, kw_only=True)
    """The last one that this pass reached."""

    async def carry_out(self) -> bool:
        """Do the next ones; returns whether there were any that this pass had not reached."""
        if self._reached == 0:
            self.trouble = None
        try:
            self._reached = await self.carry_on(self._reached)
        except NOT_STORED as error:
            self.trouble = str(error)
            self.log.error(self.not_marked, why=str(error))
            # What is not marked is done once more, which changes nothing.
            self._reached = 0
            return False
        return self._reached > 0

    @abstractmethod
    async def carry_on(self, after: int) -> int:
        """Do and mark the next ones behind this number; returns that of the last one, 0 if there were none."""


E = TypeVar("E")

Done: TypeAlias = Sequence[tuple[Job, E]]
"""Effects of one kind, each with the job that decided on it, in order."""


@dataclass(slots=True)
class Reactions:
    """Which part reacts to which effects."""

    _at_once: dict[type[Effect], list[Callable[[Done[Any]], None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _then: dict[type[Effect], list[Callable[[Done[Any]], Awaitable[None]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _parts: Callable[[], Iterable[Part]] = tuple

    def to(self, kind: type[E], react: Callable[[Done[E]], None]) -> None:
        """Call this with the effects of one kind that became durable together."""
        self._at_once[kind].append(react)  # type: ignore[index] # only effects are decided on

    def then(self, kind: type[E], react: Callable[[Done[E]], Awaitable[None]]) -> None:
        """Await this, after all parts that react at once."""
        self._then[kind].append(react)  # type: ignore[index] # likewise

    def wake(self, parts: Callable[[], Iterable[Part]]) -> None:
        """Wake each of these parts with the effects that it wakes on."""
        self._parts = parts

    async def react(self, results: Iterable[JobResult]) -> None:
        """Have the parts react to what these jobs decided."""
        done: dict[type[Effect], list[tuple[Job, Effect]]] = {}
        decided: set[type[Effect]] = set()
        for result in results:
            for effect in result.effects if result.state == "done" else ():
                kind = type(effect)
                decided.add(kind)
                if kind in self._at_once or kind in self._then:
                    done.setdefault(kind, []).append((result.job, effect))
        # Parts are woken before anybody is awaited, so one that takes long delays no other.
        for part in self._parts():
            if not decided.isdisjoint(part.wakes_on):
                part.wake()
        for kind, effects in done.items():
            for react in self._at_once.get(kind, ()):
                react(effects)
        for kind, effects in done.items():
            for follow in self._then.get(kind, ()):
                await follow(effects)


async def is_due_first(due: float | None, woken: anyio.Event, clock: Clock) -> bool:
    """Wait until this moment (Unix seconds; None for never), or until the event is set; returns whether the moment came first."""
    # The event loop sleeps by a clock that no step of the wall clock moves, and that stands still while the machine
    # is suspended. `Rounds` notices both and wakes the worker, which then measures again.
    with anyio.move_on_after(None if due is None else max(0.0, due - clock.now())):
        await woken.wait()
        return False
    return True


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
