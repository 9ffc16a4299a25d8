"""What goes wrong, and when: decided by the seed alone.

As with FoundationDB's BUGGIFY, each seed arms a part of the named points and of the kinds of
faults, so that some histories are stormy in one way and calm in all others.
"""

import errno
import os
import random
import sqlite3
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tests.simulation.tally import Tally
from tests.simulation.virtual_time import Killed, Timeline

Strike: TypeAlias = Literal["crash", "cut", "freeze", "zombie"]

ARMED: Final = 0.25
"""The share of points that a seed arms."""

RARE: Final = (
    "commit.hold.",
    "commit.take_back.",
    "commit.clock.",
    "commit.stop.",
    "commit.reopen.",
    "commit.unpack.",
    "commit.worktree.",
    "worktree.",
)
"""Points that few histories pass at all: every seed arms them, and the first time is nearly always the one."""

OF_STOP: Final = {"commit.stop.begin": 0.3, "commit.stop.before": 0.45}
"""How likely something strikes there. A history passes a stop once, and what strikes at one of its points keeps it from those
behind: so each of the three gets its share."""

SELDOM: Final = ("commit.start.", "commit.cancel.", "start.", "cancel.")
"""Points that a history passes once or twice: every other seed arms them."""


@dataclass(frozen=True, slots=True)
class Climate:
    """How likely each fault is in one history."""

    loss: float
    late: float
    twice: float
    errors: float
    uncertain: float
    hiccup: float
    strikes: tuple[Strike, ...]
    slow_threads: float
    slow_calls: float
    launcher_kills: float
    launcher_hangs: float
    lies: bool
    """Whether the disk says that it has what a power cut takes back."""


def climate(dice: random.Random) -> Climate:
    """The climate of a seed: each kind of fault is there or not."""

    def perhaps(rate: float, share: float = 0.5) -> float:
        return rate if dice.random() < share else 0.0

    strikes: list[Strike] = [
        each for each in ("crash", "cut", "freeze", "zombie") if dice.random() < 0.6
    ] or ["crash"]
    return Climate(
        loss=perhaps(dice.choice((0.05, 0.3, 1.0))),
        late=perhaps(0.2),
        twice=perhaps(0.3),
        errors=perhaps(0.005),
        uncertain=perhaps(0.06),
        hiccup=perhaps(0.01),
        strikes=tuple(strikes),
        slow_threads=perhaps(0.2),
        slow_calls=perhaps(0.02),
        launcher_kills=perhaps(0.15),
        launcher_hangs=perhaps(0.15),
        lies=dice.random() < 0.5,
    )


class Chaos:
    """The faults of one history. `strike` is what the universe does where one hits a named point."""

    def __init__(self, seed: str, timeline: Timeline, tally: Tally) -> None:
        self._seed = seed
        self._dice = random.Random(f"{seed}/chaos")
        self._timeline = timeline
        self._tally = tally
        self._armed: dict[str, bool] = {}
        self._passed: dict[str, int] = {}
        self._uncertain = False
        self.climate = climate(random.Random(f"{seed}/climate"))
        self.calm = False
        self.full = False
        """Whether the disk is full."""
        self.unread: set[str] = set()
        """The paths at which a call failed."""

    def hits(self, name: str) -> Strike | None:
        """Whether something strikes at the point `name` this time."""
        self._tally.passed[name] += 1
        passed = self._passed[name] = self._passed.get(name, 0) + 1
        if self.calm or not self._is_armed(name):
            return None
        rate = OF_STOP.get(name, 0.9 if name.startswith(RARE) else 0.4)
        if self._dice.random() >= max(0.01, rate / passed):
            return None
        self._tally.struck[name] += 1
        return self._dice.choice(self.climate.strikes)

    def _is_armed(self, name: str) -> bool:
        armed = self._armed.get(name)
        if armed is None:
            chance = 1.0 if name.startswith(RARE) else 0.5 if name.startswith(SELDOM) else ARMED
            armed = self._armed[name] = random.Random(f"{self._seed}/{name}").random() < chance
        return armed

    def no_watch(self) -> bool:
        """Whether the system refuses to watch at all, this time."""
        return not self.calm and self.climate.errors > 0.0 and self._dice.random() < 0.05

    def thread_delay(self) -> float:
        """How long a call in a thread takes (seconds)."""
        if self.calm or self._dice.random() >= self.climate.slow_threads:
            return 0.0
        return self._dice.choice((0.001, 0.02, 0.3))

    # What the kernel asks.

    def _alive(self) -> bool:
        """Whether it is a living process that asks, and not the world."""
        if self._timeline.happening:
            return False
        if self._timeline.running.killed:
            raise Killed
        return True

    def before(self, call: str, path: str) -> None:
        if not self._alive() or self.calm:
            return
        if self._dice.random() < self.climate.slow_calls:
            self._timeline.elapse(self._dice.choice((0.0, 0.001, 0.01)))
            if self._timeline.running.killed:
                raise Killed
        if self._dice.random() < self.climate.errors * (10 if "artifacts" in path else 1):
            self._tally.faults[f"EIO from {call}"] += 1
            self.unread.add(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def room(self, wanted: int) -> int:
        if not self._alive() or not self.full:
            return wanted
        self._tally.faults["a full disk"] += 1
        return self._dice.randrange(wanted) if self._dice.random() < 0.5 else 0

    # What the store's connection asks.

    def reading(self) -> None:
        self._hiccup("disk I/O error")

    def writing(self) -> None:
        self._hiccup("database is locked")

    def _hiccup(self, why: str) -> None:
        if self.calm:
            return
        if self._uncertain or self._dice.random() < self.climate.hiccup:
            self._uncertain = False
            self._tally.faults[f"store: {why}"] += 1
            raise sqlite3.OperationalError(why)

    def found_full(self) -> None:
        self._tally.reached["a full disk in the store"] += 1

    def committing(self) -> None:
        if not self.calm and self._dice.random() < self.climate.uncertain:
            self._tally.reached["an uncertain commit that didn't"] += 1
            raise sqlite3.OperationalError("database or disk is full")

    def committed(self) -> None:
        if not self.calm and self._dice.random() < self.climate.uncertain:
            self._tally.reached["an uncertain commit that happened"] += 1
            # Sometimes the question whether it happened fails as well.
            self._uncertain = self._dice.random() < 0.6
            raise sqlite3.OperationalError("disk I/O error")
