"""Those who are told outside of what happens: in some histories. One of them is away now and then, the other never answers.

They compare what they are told by its id, as a service does. What they hear is checked when they hear it, and at rest.
"""

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.broken import Broken

from runward.config.notification import WAITING
from runward.daemon.parts.notices import FIRST_PAUSE, HELD, LONGEST_PAUSE
from runward.daemon.parts.waiting import AGENT_WAITS_S
from runward.daemon.store.remembered_fields import WAITING_SINCE
from runward.daemon.store.tables.notices import PendingNotice

if TYPE_CHECKING:
    from tests.simulation.universe import Universe

KINDS: Final = frozenset(
    {"approval.asked", "chain.completed", "chain.failed", "chain.aborted", "session.failed", HELD, WAITING}
)
REACHED: Final = "reached"
NEVER_THERE: Final = "never there"
GIVEN_UP_AFTER: Final = 60.0
"""Seconds for which a notice is tried in a history, where a day would be too long."""

_MOMENT: Final = 1e-3
_LOOKED_AFTER: Final = 10.0

_WANTED: Final = (
    "select 'session.failed', payload ->> 'session_key' || '#' || (payload ->> 'attempt') from events"
    " where type = 'SessionFinished' and payload ->> 'origin' = 'live' and payload ->> 'status' = 'failed'"
    " union select 'chain.' || (payload ->> 'status'), payload ->> 'run' from events e join jobs j on j.event = e.seq"
    " where e.type = 'ChainRunFinished' and j.handler = 'chains/finished' and j.state = 'done'"
    " union select 'approval.asked', id from approvals"
)
_WAITS: Final = (
    "select session_key from cursors where phase = 'open' and activity = 'waiting'"
    f" and json_extract(state, '{WAITING_SINCE}') < ?"
)
_NOTICES: Final = "select id, kind, subject, recipient, state, settled_at from notices"
_TIMES_HELD: Final = (
    "select count(*) from events where type = 'JobRetryRequested' and 'job ' || (payload ->> 'job') = ?"
)


class _Refused(NamedTuple):
    """A try that failed: how many came before it, when it was (on the timeline and by the clock), how old the notice was
    then, and how often the clock had been set.
    """

    tries: int
    at: float
    clock: float
    age: float
    steps: int


class Recipients:
    """The messenger of a history's daemons."""

    def __init__(self, universe: "Universe") -> None:
        self._universe = universe
        self._dice = random.Random(f"{universe.seed}/recipients")
        self.are_told = self._dice.random() < 0.3
        self._names = (
            (REACHED, *([NEVER_THERE] if self._dice.random() < 0.5 else [])) if self.are_told else ()
        )
        self._ids: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self._accepted: dict[str, list[str]] = defaultdict(list)
        """The daemons from which each notice was accepted, once all faults are off."""
        self._taken: set[str] = set()
        self._refused: dict[str, _Refused] = {}

    def recipients(self, kind: str) -> tuple[str, ...]:
        return self._names if kind in KINDS else ()

    def patience(self) -> dict[str, float]:
        return {}

    def send(self, notice: PendingNotice) -> str | None:
        """Somebody is told, or can't be reached."""
        universe = self._universe
        try:
            self._check(notice)
        except Broken as broken:
            universe.timeline.fail(broken)
        self._ids[notice.kind, notice.subject, notice.recipient].add(notice.id)
        is_away = not universe.chaos.calm and self._dice.random() < 0.4
        if notice.recipient == NEVER_THERE or is_away:
            if self._is_in_office():  # what a daemon of the past is told is recorded nowhere
                now, steps = universe.clock.now(), len(universe.clock.offsets)
                self._refused[notice.id] = _Refused(
                    notice.tries, universe.timeline.time, now, now - notice.since, steps
                )
            return "nobody is there"
        if notice.id in self._taken:
            universe.tally.reached["a notice that was delivered twice under one id"] += 1
        self._taken.add(notice.id)
        if universe.chaos.calm:
            self._accepted[notice.id].append(universe.timeline.running.name)
        universe.tally.reached["a notice that was delivered at a later try"] += notice.tries > 0
        return None

    def _is_in_office(self) -> bool:
        """Whether the daemon that tells is the one that works."""
        current = self._universe.current
        return current is not None and current.process is self._universe.timeline.running

    def _check(self, notice: PendingNotice) -> None:
        universe = self._universe
        teller = universe.timeline.running
        if teller.name in self._accepted[notice.id]:
            raise Broken(f"{teller.name} tells {notice} again, which was accepted")
        known = universe.peek("select state from notices where id = ?", (notice.id,))
        if self._is_in_office() and known and known[0][0] != "pending":
            raise Broken(f"{notice} is told, and it is {known[0][0]}")
        last = self._refused.get(notice.id)
        if last is None or notice.tries != last.tries + 1 or last.steps != len(universe.clock.offsets):
            return  # what a daemon didn't get to record counts as not tried
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**last.tries)
        passed = universe.timeline.time - last.at
        if passed < pause - _MOMENT:
            raise Broken(f"{notice} is tried again after {passed} s, and its pause is {pause} s")

    def at_rest(self) -> None:
        """Everybody was told of everything, or it was given up after its time; each time under one id."""
        if not self.are_told:
            return
        peek = self._universe.peek
        told = set()
        for identifier, kind, subject, recipient, state, settled_at in peek(_NOTICES):
            told.add((kind, subject, recipient))
            said = f"{identifier} to {recipient}, {kind} of {subject}"
            if state == "pending":
                raise Broken(f"the notice {said} is still to be delivered")
            if state == "delivered" and identifier not in self._taken:
                raise Broken(f"the notice {said} is delivered, it is said, and nobody was told")
            last = self._refused.get(identifier)
            is_at_once = last is not None and 0.0 <= settled_at - last.clock <= 1.0
            if state == "dead" and last is not None and is_at_once and last.age < GIVEN_UP_AFTER - 1.0:
                raise Broken(f"the notice {said} was given up after {last.age} s")
            self._universe.tally.reached["a notice that was given up"] += state == "dead"
        wanted = {(kind, subject, name) for kind, subject in peek(_WANTED) for name in self.recipients(kind)}
        # Seen within the period in which troubles are looked for, and told a moment later.
        long = self._universe.clock.now() - AGENT_WAITS_S - _LOOKED_AFTER
        wanted |= {(WAITING, key, name) for (key,) in peek(_WAITS, (long,)) for name in self._names}
        if left := wanted - told:
            raise Broken(f"nobody is told of {sorted(left)}")
        for (kind, subject, recipient), ids in self._ids.items():
            if len(ids) > self._most_ids(kind, subject):
                raise Broken(f"{recipient} was told of {kind} of {subject} under the ids {sorted(ids)}")

    def _most_ids(self, kind: str, subject: str) -> float:
        """A job that is held again is told of again. After a restore, its number may be another job's.

        An agent is told of for each of its questions; what is lost with the power may be seen a second time.
        """
        if kind == WAITING:
            agent = self._universe.foreign_agents.by_key[subject]
            self._universe.tally.reached["an agent that waits, told of"] += 1
            return float("inf") if agent.cut or self._universe.lives.over else agent.asked
        if kind != HELD:
            return 1
        if self._universe.lives.over:
            return float("inf")
        ((count,),) = self._universe.peek(_TIMES_HELD, (subject,))
        return 1 + int(count)
