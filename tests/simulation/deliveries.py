"""How changes of files become notifications: late, twice, in another order, or never."""

import random
from typing import Final

from tests.simulation.chaos import Chaos
from tests.simulation.kernel import Kernel, Node
from tests.simulation.ports import Watch
from tests.simulation.tally import Tally
from tests.simulation.virtual_time import Process, Timeline

DEBOUNCE: Final = 0.006
"""Seconds in which changes are gathered into one notification."""


class Deliveries:
    """The watches that stand, and what each of them is told."""

    def __init__(self, seed: str, timeline: Timeline, chaos: Chaos, tally: Tally) -> None:
        self._timeline = timeline
        self._chaos = chaos
        self._tally = tally
        self._dice = random.Random(f"{seed}/deliveries")
        self.watches: list[Watch] = []

    def end(self, process: Process) -> None:
        """The process is over, and its watches with it."""
        self.watches[:] = [watch for watch in self.watches if watch.process is not process]

    def changed(self, kernel: Kernel, path: str) -> None:
        """Something changed at `path`."""

        def node_at(path: str) -> Node | None:
            return kernel.node(path) if kernel.exists(path) else None

        for watch in self.watches:
            if not watch.process.over and watch.sees(path, node_at):
                self._deliver(watch, path)

    def _deliver(self, watch: Watch, path: str) -> None:
        weather, dice = self._chaos.climate, self._dice
        if not self._chaos.calm:
            if dice.random() < weather.loss:
                self._tally.faults["a lost notification"] += 1
                return
            if dice.random() < weather.twice:
                self._tally.faults["a doubled notification"] += 1
                self._late(watch, path, dice.uniform(0.0, 2.0))
            if dice.random() < weather.late:
                self._tally.faults["a late notification"] += 1
                self._late(watch, path, dice.uniform(0.1, 15.0))
                return
        if not watch.soon:
            self._timeline.after(DEBOUNCE, lambda: self._flush(watch))
        watch.soon.append(path)

    def _late(self, watch: Watch, path: str, delay: float) -> None:
        self._timeline.after(delay, lambda: self._tell(watch, [path]))

    def _flush(self, watch: Watch) -> None:
        paths, watch.soon = watch.soon, []
        self._tell(watch, paths)

    def _tell(self, watch: Watch, paths: list[str]) -> None:
        if watch in self.watches:
            watch.process.call(lambda: watch.tell(paths))
