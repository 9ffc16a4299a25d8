"""What a plain model expects of each run directory, from what agents did there and what lies there now.

It shares nothing with the daemon: each document that an agent writes is registered with its
meaning, and what a run should have come to is read off the disk at the end. Where it depends on
what the daemon could see (it was down, the directory went away), all fair outcomes are allowed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.kernel import Kernel
from tests.simulation.ports import HOST, PLAYBOOKS, ProcessTable

from runward.handlers.model.processes import RecordedProcess

Pairs = tuple[tuple[str, bool], ...]
"""What a contract expects: paths, and whether they are required."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The meaning of a good `run.json`. `expected` are (path, required), None without a contract."""

    expected: Pairs | None
    launcher: RecordedProcess | None = None
    host: str | None = None
    is_unusable: bool = False
    """Its playbook can't be used: there will be no contract."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A `flow.json` as it was written.

    `added` is what its legs are to leave, None where that can't be folded. `early` says that a leg had worked before,
    `timely` that nothing is against the plan: its run was open, and no leg had worked at all.
    """

    added: Pairs | None
    declares: bool
    early: bool
    timely: bool
    stamp: int


@dataclass(frozen=True, slots=True)
class Over:
    """The meaning of a good `exit.json`: what it amounts to before the contract is looked at."""

    status: str
    reason: str
    finished_at: float


@dataclass(frozen=True, slots=True)
class Named:
    """The meaning of a good `process.json`."""

    process: RecordedProcess


Meaning = Begun | Over | Named
Verdict = tuple[str, str]

RUNNING: Final = ("running", "run.started.ok")
RESUMED: Final = ("running", "run.started.resumed")
GONE: Final = ("aborted", "run.aborted.process_gone")
CANCELLED: Final = ("cancelled", "run.cancelled.user")
VANISHED: Final = ("aborted", "run.aborted.vanished")
INSIDE: Final = (("failed", "run.failed.api_error"), ("aborted", "run.aborted.user"))
"""How agents' turns may end but for well."""

MISSING: Final = ("failed", "run.failed.missing_artifact")


def contract_of(playbook: str | None) -> Pairs | None:
    """What a playbook of this name expects."""
    if playbook is None or playbook not in PLAYBOOKS:
        return None
    return tuple((each.path, each.required) for each in PLAYBOOKS[playbook])


@dataclass(slots=True)
class Place:
    """A directory's name in a root, and what befell it.

    `begun` and `exits` are all meanings that stood there, `exits` since the last new beginning.
    `reopened` counts what may have opened a further attempt, `shaken` says that the directory may
    have been away while its run was judged, `free` that a person gave one of its jobs up.
    """

    root: str
    name: str
    begun: list[Begun] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    worked: set[str] = field(default_factory=set)
    """The directories of legs that worked, whatever is left of it."""
    exits: list[Over] = field(default_factory=list)
    reopened: int = 0
    shaken: bool = False
    free: bool = False
    before: bool = False
    died: bool = False
    late: bool = False
    """An artifact came, or another one in its place, when the run was over."""
    arrived_late: int = 0
    """How many required artifacts came when the run was over and had said that it ended well: each may correct a verdict
    that lacked it."""
    covered: bool = False
    """What a leg had left was taken away, perhaps before anybody saw it."""
    withdrawn: bool = False
    """An artifact was taken away, perhaps after the verdict."""
    hidden: bool = False
    """Its root was away for a while."""
    locked: bool = False
    """Nobody could read its root for a while."""
    backwards: bool = False
    """A leg's file looks older than the plan though it came after it: a clock was stepped."""
    cancelled: bool = False
    """Its launcher ended it because a person ordered that, and said so."""
    called: set[str] = field(default_factory=set)
    """The calls in its trace that were made before its end."""
    odd: bool = False
    """Which process counts depends on what was seen: one was named after another had died, or is of before."""

    @property
    def path(self) -> str:
        return f"{self.root}/{self.name}"

    @property
    def key(self) -> str:
        return f"native:{self.root.rpartition('/')[2]}/{self.name}"


@dataclass(slots=True)
class Expected:
    """What is fair of one place: the last verdicts, whether there must be a session, how many attempts.

    A command that ended well hasn't where the session of an agent that was started in it hasn't (`inside`).
    """

    verdicts: set[Verdict]
    session: bool
    most_attempts: int

    @property
    def inside(self) -> set[Verdict]:
        """What it may be instead, if agents of other tools worked in it."""
        ended_well = any(each[0] == "completed" or each == MISSING for each in self.verdicts)
        return {GONE, VANISHED, CANCELLED, *INSIDE} if ended_well else set()


class Places:
    """All run directories of a history, and what their documents mean."""

    def __init__(self, kernel: Kernel, table: ProcessTable, first_seen: Callable[[str], float]) -> None:
        self._kernel = kernel
        self._table = table
        self._first_seen = first_seen
        self.meanings: dict[bytes, Meaning] = {}
        self.by_key: dict[str, Place] = {}
        self.delivered: set[bytes] = set()
        """Everything that was ever written into an artifact."""

    def place(self, root: str, name: str) -> Place:
        """The place of this name, new if need be."""
        place = Place(root, name)
        return self.by_key.setdefault(place.key, place)

    def stands(self, place: Place, name: str) -> Meaning | None:
        """The meaning of a document that lies there now."""
        path = f"{place.path}/{name}"
        if not self._kernel.exists(path):
            return None
        return self.meanings.get(self._kernel.content(path))

    def note(self, place: Place) -> None:
        """Take in what lies there after something was written."""
        begun, over = self.stands(place, "run.json"), self.stands(place, "exit.json")
        if isinstance(begun, Begun) and begun not in place.begun:
            place.begun.append(begun)
        if isinstance(over, Over) and place.begun and over not in place.exits:
            place.exits.append(over)

    def expected(self, place: Place, in_force: Pairs | None = None, gone: Verdict = GONE) -> Expected:
        """What is fair to find in the store when all is quiet, of a flow under the contract that is `in_force`.

        `gone` is the verdict on a run that went without a word.
        """
        begun, over = self.stands(place, "run.json"), self.stands(place, "exit.json")
        there = isinstance(begun, Begun)
        verdicts: set[Verdict] = set()
        for each in place.exits:
            for contract in [in_force] if place.plans else [begun.expected for begun in place.begun]:
                verdicts |= self._verdicts(place, each, contract)
        if not there:
            verdicts |= {VANISHED, gone}
            if self._kernel.exists(place.path):
                verdicts |= {RUNNING, RESUMED}
        elif not isinstance(over, Over):
            verdicts |= {gone} if self._all_gone(place) else {RUNNING, RESUMED}
            verdicts |= {gone, RUNNING, RESUMED} if place.odd else set()
        elif place.cancelled:
            verdicts = {CANCELLED}
        return Expected(verdicts, there and not place.free, 1 + place.reopened + place.arrived_late)

    def _all_gone(self, place: Place) -> bool:
        begun, named = self.stands(place, "run.json"), self.stands(place, "process.json")
        assert isinstance(begun, Begun)
        recorded = [begun.launcher, named.process if isinstance(named, Named) else None]
        known = [each for each in recorded if each is not None]
        if not known or begun.host not in (None, HOST):
            return False
        return all(self._table.state(each) == "gone" for each in known)

    def contracts(self, place: Place) -> set[tuple[Pairs | None, bool]]:
        """The contracts that are fair of one place, each with whether the legs of a flow are folded into it."""
        fair: set[tuple[Pairs | None, bool]] = set()
        undisturbed = not (place.free or place.shaken or place.hidden or place.odd or place.backwards)
        for begun in place.begun:
            timely = undisturbed and not begun.is_unusable and bool(place.plans)
            timely = timely and all(
                plan.timely for plan in place.plans
            )  # only the last one may have been seen
            if self._first_seen(place.root):
                fair |= {(begun.expected, False), (None, False)}
            elif not timely:
                fair.add((begun.expected, False))
            if not begun.is_unusable:
                fair |= {
                    ((begun.expected or ()) + plan.added if plan.declares else begun.expected, True)
                    for plan in place.plans
                    if plan.added is not None and (not plan.early or place.shaken or place.covered)
                }
        return fair

    def _verdicts(self, place: Place, over: Over, contract: Pairs | None) -> set[Verdict]:
        fair: set[Verdict] = set()
        lacking = contract is not None and self._lacks(place, contract)
        history = over.finished_at < self._first_seen(place.root)
        judged = over.status == "completed" and contract is not None
        if judged and (lacking or place.shaken or place.late or place.withdrawn):
            fair.add(MISSING)
        if not (judged and lacking) or place.shaken or place.withdrawn or history:
            fair.add((over.status, over.reason))
        return fair

    def _lacks(self, place: Place, expected: Pairs) -> bool:
        base = f"{place.path}/artifacts"
        if not self._kernel.exists(base):
            return True
        for path, required in expected:
            whole = f"{base}/{path}"
            if required and not (self._kernel.exists(whole) and self._kernel.content(whole)):
                return True
        return False
