"""What happens in a history: two hundred deeds of agents, people and the machine, from the seed alone."""

import random
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.simulation.backups import Backups
from tests.simulation.economy import Economy
from tests.simulation.machine_faults import MachineFaults
from tests.simulation.people import People
from tests.simulation.places import Places
from tests.simulation.ports import AGENTS
from tests.simulation.runs import Run, Scene
from tests.simulation.universe import ROOTS, Universe

DEEDS: Final = 200
LENGTH: Final = 150.0
"""Seconds over which the runs of a history start."""

LEGS: Final = {"one": "reviewer", "legs/two": "critic"}
OTHER_LEGS: Final = {"solo": "critic", "quiet": "silent"}

Deed = Callable[[], None]


class Story:
    """The deeds of a history, and what a plain model expects of them."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.dice = random.Random(f"{universe.seed}/story")
        self.first_seen: float | None = None
        self.places = Places(universe.kernel, universe.table, self._first_seen)
        self.scene = Scene(universe, self.places, self.dice)
        universe.launchers.places = self.places
        self.people = People(self.scene, self._later)
        self.machine_faults = MachineFaults(self.scene, self._later)
        self.backups = Backups(universe, self._do)
        self.left = DEEDS
        self.last = 0.0
        self._runs = 0
        universe.rebooted = self._rebooted

    def _first_seen(self, root: str) -> float:
        """When the root that only records history was first seen; the other one has no history."""
        return self.first_seen or 0.0 if root == ROOTS[1] else 0.0

    def _rebooted(self) -> None:
        for place in self.places.by_key.values():
            place.reopened += 1
            place.died = True

    def plan(self) -> None:
        """Order every deed. What was there before the daemon ever started is done at once."""
        self.universe.foreign_agents.plan()
        self.backups.plan()
        for _ in range(3):
            run = self._new_run(ROOTS[1])
            run.place.before = True
            for deed in (run.make, run.begin, run.end):
                deed()
        for _ in range(self.universe.pruning.choice((0, 6))):
            at = self.universe.pruning.uniform(20.0, LENGTH + 20.0)
            self.universe.timeline.after(at, lambda: self._do(self.people.ask_to_prune))
        for at in self.universe.chains.moments(LENGTH):
            self.universe.timeline.after(
                at, lambda: self._do(partial(self.universe.chains.happen, self.people))
            )
        while self.left > 0:
            start = self.dice.uniform(0.0, LENGTH)
            if self.dice.random() < 0.5:
                self._order(start, self._happening())
            else:
                for delay, deed in self._plot():
                    start += delay
                    self._order(start, deed)

    def trade(self) -> None:
        """Have some trade beside all that."""
        Economy(self.universe, self.places, self.people, self._do).plan()

    def _order(self, at: float, deed: Deed) -> None:
        if self.left <= 0:
            return
        self.left -= 1
        self.last = max(self.last, at)
        self.universe.timeline.after(at, lambda: self._do(deed))

    def _do(self, deed: Deed) -> None:
        method = deed.func if isinstance(deed, partial) else deed
        name = getattr(method, "__qualname__", repr(method))
        owner = getattr(method, "__self__", None)
        if isinstance(owner, Run) and owner.is_cancelled:
            return  # nobody is left to do it
        where = f" in {owner.place.key}" if isinstance(owner, Run) else ""
        try:
            deed()
        except OSError as error:
            self.universe.say(f"{name}{where} can't: {error}")
        else:
            self.universe.say(f"{name}{where}")

    def _new_run(self, root: str | None = None) -> Run:
        self._runs += 1
        return Run(self.scene, root or self.dice.choice(ROOTS), f"run-{self._runs:03d}")

    def _later(self, deed: Deed) -> None:
        self.universe.timeline.after(self.dice.uniform(0.01, 20.0), lambda: self._do(deed))

    def _plot(self) -> list[tuple[float, Deed]]:
        run, dice = self._new_run(), self.dice
        deeds: list[Deed] = [run.make]
        kind = dice.choice(
            ("plain",) * 8
            + (
                "killed",
                "killed",
                "late",
                "endless",
                "removed",
                "remade",
                "moved",
                "back",
                "resumed",
                "resumed",
                "badly",
                "by hand",
                "touched",
                "twice",
                "spoilt",
                "reworked",
                "reworked",
                "reworked",
                "withdrawn",
                "withdrawn",
                "flow",
                "flow",
                "late flow",
                "covered flow",
                "covered flow",
                "covered flow",
                "flow twice",
                "flow after",
                "unknown flow",
            )
        )
        run.kind = dice.choice(("agent", "flow")) if "flow" in kind else "agent"
        if kind in ("reworked", "withdrawn"):
            run.playbook, run.good = dice.choice(("report", "two")), True
        deeds += self._middle(run, kind)
        ending: dict[str, list[Deed]] = {
            "plain": [run.end, run.die],
            "killed": [run.die],
            "late": [run.die, run.end],
            "endless": [],
            "removed": [run.remove],
            "remade": [run.remove, run.make, run.begin, run.note_work, run.end],
            "moved": [run.move, run.end],
            "back": [run.move, run.come_back, run.end],
            "resumed": [run.end, run.die, run.resume, run.note_work, run.end],
            "badly": [run.end_badly, run.end],
            "by hand": [run.end],
            "touched": [run.begin, run.end, run.begin],
            "twice": [run.end, run.end],
            "spoilt": [run.end],
            "reworked": [run.end, *[partial(run.rework, path) for path, _ in run.expected() or ()] * 2],
            "withdrawn": [run.end, *(partial(run.withdraw, path) for path, _ in run.expected() or ())],
            "flow": [run.end, run.die],
            "late flow": [run.end, run.die],
            "covered flow": [run.end, run.die],
            "flow twice": [run.end, run.die],
            "flow after": [run.end, partial(run.plan, LEGS), run.die],
            "unknown flow": [run.end],
        }
        deeds += ending[kind]
        if dice.random() < 0.1:
            middle = deeds[1:]
            dice.shuffle(middle)
            deeds[1:] = middle
        quick = dice.random() < 0.3
        return [(0.0 if quick else self._pause(), deed) for deed in deeds]

    def _pause(self) -> float:
        return self.dice.choice((0.0, 0.003, 0.1, 0.5, 2.0, 2.0, 8.0, 20.0)) * self.dice.uniform(0.5, 1.5)

    def _middle(self, run: Run, kind: str) -> list[Deed]:
        dice = self.dice
        begin: list[Deed] = [run.begin]
        if kind == "badly":
            begin = [run.begin_badly, run.begin]
        elif kind == "by hand":
            begin = [lambda: run.begin(by_hand=True)]
        elif kind == "spoilt":
            begin = [run.spoil_journal, run.begin]
        work: list[Deed] = [run.note_work] * dice.randrange(3) + [run.talk] * dice.randrange(2)
        for path, _ in run.expected() or ():
            if run.good or dice.random() < 0.5:
                work.append(lambda path=path: run.deliver(path))  # type: ignore[misc] # a default binds it
        dice.shuffle(work)
        if dice.random() < 0.6:
            work.insert(0, run.name_process)
        return begin + self._flow(run, kind) + work

    def _flow(self, run: Run, kind: str) -> list[Deed]:
        """A plan and its legs' work, in the order that the kind of flow says."""
        legs = self.dice.choice((LEGS, OTHER_LEGS))
        owed = [
            (leg, path)
            for leg, agent in legs.items()
            for path in ([each.path for each in AGENTS[agent] or ()] or ["own.txt"])
            if run.good or self.dice.random() < 0.5
        ]
        plan: list[Deed] = [partial(run.plan, legs)]
        work: list[Deed] = [partial(run.work_leg, leg, path) for leg, path in owed]
        covered: list[Deed] = [run.name_process, partial(run.cover, owed[0][0])] if owed else []
        orders: dict[str, list[Deed]] = {
            "flow": plan + work,
            "late flow": work[:1] + plan + work[1:],
            "covered flow": work[:1] + covered + plan + work,
            "flow twice": [*plan, *work, partial(run.plan, {"more": "reviewer", **legs})],
            "flow after": work,
            "unknown flow": [partial(run.plan, {**legs, "x": "nobody"}), *work],
        }
        return orders.get(kind, [])

    def _happening(self) -> Deed:
        return self.dice.choice(
            (
                self.machine_faults.step_clock,
                self.machine_faults.fill_disk,
                self.machine_faults.hide_root,
                self.machine_faults.empty_root,
                self.machine_faults.lock_root,
                self.machine_faults.kill_daemon,
                self.machine_faults.kill_daemon,
                self.machine_faults.stop_daemon,
                self.machine_faults.stop_daemon,
                self.machine_faults.stop_daemon,
                self.machine_faults.freeze_daemon,
                self.machine_faults.reboot,
                self.machine_faults.reboot,
                self.machine_faults.meddle,
                self.machine_faults.meddle,
                self.people.break_handler,
                self.people.break_handler,
                self.people.poison_handler,
                self.people.break_repairs,
                self.people.break_repairs,
                self.people.mend_handlers,
                self.people.retry_held,
                self.people.retry_held,
                self.people.discard_held,
                self.people.ask_for_scan,
                self.people.ask_twice,
                self.people.ask_to_play,
                self.people.ask_to_play,
                self.people.ask_to_play,
                self.people.cancel,
                self.people.cancel,
                self.people.cancel,
                self.people.cancel,
                self.people.ask_nonsense,
                self.people.reload,
                self.machine_faults.run_newer_version,
            )
        )
