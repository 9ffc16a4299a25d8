"""How long timers wait in truth, whatever the wall clock does."""

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.broken import Broken

if TYPE_CHECKING:
    from tests.simulation.universe import Universe

_TIMERS: Final = (
    "select key, type, payload ->> 'due' - payload ->> 'at', hash, payload ->> 'at' from events"
    " where type in ('TimerSet', 'TimerRang') and not (payload ->> 'subject' glob 'schedule:*')"
)

FROZEN: Final = 120.0
"""Seconds on the timeline for which a daemon may be frozen after it decided, and before that is in the store."""

FAULT: Final = 0.5
"""Seconds by which a timer may ring too early: a smaller step is no step."""


class _Set(NamedTuple):
    """A timer for `seconds` that was set after `since` on the timeline, in that boot; None if that is not known."""

    hash: str
    since: float
    seconds: float
    boot: int | None


class Timers:
    """Looks at the store again and again, and remembers on the timeline when each timer came."""

    def __init__(self, universe: "Universe") -> None:
        self._universe = universe
        self._looked_at = 0.0
        self._boot = universe.table.boot
        """That of the last look."""
        self._set: dict[str, _Set] = {}
        self._rang: set[str] = set()

    def check(self) -> None:
        """No timer rings before its time. Schedules go by the wall clock; after a reboot nothing else can be known."""
        universe = self._universe
        now, boot = universe.timeline.time, universe.table.boot
        # What is new was set since the last look: perhaps before a power cut, and then the next daemon can't know of a step.
        set_in = boot if boot == self._boot else None
        found = {str(row[0]): row for row in universe.peek(_TIMERS)}
        for key, (_, kind, seconds, digest, at) in found.items():
            known = self._set.get(key)
            if kind == "TimerSet" and (known is None or known.hash != digest):
                self._set[key] = _Set(str(digest), self._decided_at(float(at)), float(seconds), set_in)
        for key, (_, kind, _, digest, _) in found.items():
            if kind != "TimerRang" or str(digest) in self._rang:
                continue
            self._rang.add(str(digest))
            timer = self._set.get(key.removesuffix("/rang"))
            if timer is None or timer.boot != boot:
                continue
            if universe.clock.stepped:
                universe.tally.reached["a timer that rang on a clock that was stepped"] += 1
            if now - timer.since < timer.seconds - FAULT:
                raise Broken(
                    f"{key} after {now - timer.since:.1f} s at most, and it was set for {timer.seconds:g} s"
                )
        self.looked()

    def _decided_at(self, at: float) -> float:
        """When that was on the timeline at the earliest, by any clock that there was; not after the last look."""
        times = [at - offset for offset in self._universe.clock.offsets]
        before = self._looked_at
        return min([before, *(each for each in times if before - FROZEN < each)])

    def looked(self) -> None:
        """Nothing is there that was not there before."""
        self._looked_at = self._universe.timeline.time
        self._boot = self._universe.table.boot
