"""The worktrees of steps, in some histories: launchers make them, daemons remove them, and git fails now and then."""

import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.simulation.broken import Broken

from runward.daemon.world.processes import NotRemoved

if TYPE_CHECKING:
    from tests.simulation.universe import Universe

WORDS: Final = "worktree: {repo: /srv/app, ref: main}"
"""What a step says that wants one: it is kept if the step fails."""

_ORDERED: Final = "select name, removed_at is not null from worktrees order by name"
_STEPS: Final = "select substr(session_key, length('native:runs/') + 1), status from chain_steps where session_key is not null"
_STUCK: Final = (
    "select 1 from jobs where handler = 'chains/advance' and lane = ? and state in ('held', 'discarded')"
)


class Worktrees:
    """Which worktrees stand. `are_there`: whether steps of this history want any."""

    def __init__(self, universe: "Universe") -> None:
        self._universe = universe
        self._dice = random.Random(f"{universe.seed}/worktrees")
        self.are_there = self._dice.random() < 0.4
        self._made: Counter[str] = Counter()
        self._standing: set[str] = set()

    def make(self, name: str, *, has_run: bool) -> None:
        """A launcher has git make one, for the run of this name. `has_run`: its command was let go before. Raises `OSError`."""
        if not self._universe.chaos.calm and self._dice.random() < 0.1:
            raise OSError(5, "git can't")
        if name in self._standing and not has_run:
            # An earlier launcher died before it let the command go, and the root with its directory was taken away since.
            self._universe.tally.reached["a worktree that was there"] += 1
            raise OSError(17, "it already exists")  # what git says
        self._made[name] += 1
        if self._made[name] > 1:
            raise Broken(f"the worktree of {name} is made twice")
        self._standing.add(name)

    def remove(self, name: str) -> NotRemoved | None:
        """A daemon removes one, which may be gone."""
        universe = self._universe
        if not universe.chaos.calm and self._dice.random() < 0.2:
            return NotRemoved("it is busy")
        if universe.launchers.runs(name) and not universe.lives.over:
            universe.timeline.fail(Broken(f"the worktree of {name} is removed while its command runs"))
        self._standing.discard(name)
        return None

    def at_rest(self) -> None:
        """What was ordered is removed, and all but the worktrees of failed steps was ordered to be."""
        peek, reached = self._universe.peek, self._universe.tally.reached
        reached["a worktree that was made"] += len(self._made)
        for name, is_removed in peek(_ORDERED):
            if not is_removed:
                raise Broken(f"the worktree of {name} is still to be removed")
            if name in self._standing:
                raise Broken(f"the worktree of {name} is removed, it is said, and it stands")
            reached["a worktree that was removed"] += 1
        steps = {str(name): str(status) for name, status in peek(_STEPS)}
        for name in sorted(self._standing):
            status = steps.get(name, "unknown")
            reached["a worktree that was kept"] += status in ("failed", "timed_out")
            run = name.rsplit("-", 2)[0]
            if status == "completed" and not self._universe.lives.over and not peek(_STUCK, (run,)):
                raise Broken(f"the worktree of {name} stands, and its step completed")
