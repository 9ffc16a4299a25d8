"""How long timers wait in truth, whatever the wall clock does."""

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.broken import Broken

if TYPE_CHECKING:
    from tests.simulation.universe import Universe

_TIMERS: Final = (
    "select key, type, payload ->> 'due' - payload ->> 'at', hash from events"
    " where type in ('TimerSet', 'TimerRang') and not (payload ->> 'subject' glob 'schedule:*')"
)

FAULT: Final = 0.5
"""Seconds by which a timer may ring too early: a smaller step is no step."""


class _Set(NamedTuple):
    """A timer for `seconds` that was set after the look at `since` on the timeline, in that boot of the machine."""

    hash: str
    since: float
    seconds: float
    boot: int


class Timers:
    """Looks at the store again and again, and remembers on the timeline when each timer came."""

    def __init__(self, universe: "Universe") -> None:
        self._universe = universe
        self._looked_at = 0.0
        self._set: dict[str, _Set] = {}
        self._rang: set[str] = set()

    def check(self) -> None:
        """No timer rings before its time. Schedules go by the wall clock; after a reboot nothing else can be known."""
        universe = self._universe
        now, boot = universe.timeline.time, universe.table.boot
        found = {str(row[0]): row for row in universe.peek(_TIMERS)}
        for key, (_, kind, seconds, digest) in found.items():
            known = self._set.get(key)
            if kind == "TimerSet" and (known is None or known.hash != digest):
                self._set[key] = _Set(str(digest), self._looked_at, float(seconds), boot)
        for key, (_, kind, _, digest) in found.items():
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

    def looked(self) -> None:
        """Nothing is there that was not there before."""
        self._looked_at = self._universe.timeline.time
