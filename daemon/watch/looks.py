"""A batch of looks at native run directories and foreign sessions. Findings are noted once they are recorded."""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.inbox.launches import launch_in, launch_of
from runward.daemon.inbox.spool import first_batch
from runward.daemon.log import Log
from runward.daemon.store.batch import Job
from runward.daemon.store.store import Store
from runward.daemon.store.tables import cursors, places, sessions, starts
from runward.daemon.store.transaction import Reader
from runward.daemon.watch.following import FEWER_BYTES, MOST_BYTES, Follower
from runward.daemon.watch.hints import Coverage, Hint, Hints, Target, Why
from runward.daemon.watch.look import NOTHING_LACKS, Looked, Looker
from runward.daemon.watch.places import known_places
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.handlers.layouts import native
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import (
    EndAttempt,
    HookSpoke,
    Launch,
    LinkedSessions,
    LinkedSessionsOf,
    NoteHook,
)
from runward.handlers.secrets import secrets_with
from runward.handlers.sessions.late import FIRST_LOOK, Lacking
from runward.handlers.sessions.observe import dump_watched, forgotten


@dataclass(slots=True)
class AgentsInRuns:
    """What is known of agents that were started in launched runs. `roots` is by name."""

    store: Store
    roots: Mapping[str, WatchedRoot]
    known: bool = False
    """Whether any agent's session is known to have been started in a launcher's run."""
    inbox_is_long: bool = False
    """Whether there was more in the inbox than could be taken up at once, so a hook's note may be there."""

    async def begin(self) -> None:
        """Find out whether an earlier daemon knew of any."""
        self.known = await places.has_links(self.store)

    async def linked(
        self, store: Reader, questions: Sequence[LinkedSessionsOf], jobs: Sequence[Job]
    ) -> dict[LinkedSessionsOf, LinkedSessions]:
        """The agents' sessions in these runs, including those that only a hook reported, even in this very batch."""
        spoke = [job.event for job in jobs if isinstance(job.event, HookSpoke)]
        self.known = self.known or any(each.launcher_session is not None for each in spoke)
        # Most daemons never see an agent inside a launched run, so the store is not asked.
        if not (self.known or self.inbox_is_long):
            return dict.fromkeys(questions, LinkedSessions())
        names = {asked: asked.launcher.rpartition("/")[2] for asked in questions}
        linked = await places.linked_sessions(store, {asked.launcher for asked in questions})
        announced = await places.announced_sessions(store, set(names.values()))
        # A hook's note in this very batch is not in the store yet.
        announced += [(each.launcher_session or "", each.session_key) for each in spoke]
        known = {each.key for sessions in linked.values() for each in sessions.sessions}
        awaited = [(name, key) for name, key in announced if key not in known and self._may_come(key)]
        return {
            asked: linked.get(asked.launcher, LinkedSessions())._replace(
                announced=tuple(key for name, key in awaited if name == names[asked]),
                may_be_more=self.inbox_is_long,
            )
            for asked in questions
        }

    def _may_come(self, key: str) -> bool:
        """Whether any root could hold this session."""
        return any(root.may_hold(key.partition(":")[0]) for root in self.roots.values())


ALONE_AFTER: Final = 10.0
"""Seconds without a look at a native run after which transcripts are read in large pieces."""

_OF_NATIVE: Final = f"{native.LAYOUT}:"


class Found(NamedTuple):
    """What a batch of looks found, and whether there is something in the inbox."""

    looked: list[Looked]
    inbox_waits: bool = False


class _OfNative(NamedTuple):
    """The looks at native runs. `is_long`: the inbox held more than is taken at once."""

    looked: list[Looked]
    is_long: bool
    inbox_waits: bool


def _load_what_runs_need() -> None:
    # Otherwise the first row or line that needs them loads them, in the event loop.
    import pydantic_core  # noqa: F401

    secrets_with()


@dataclass(slots=True)
class Looks:
    """Looks at places, in threads. `roots` is by name."""

    files: Files
    clock: Clock
    store: Store
    looker: Looker
    follower: Follower
    agents: AgentsInRuns
    hints: Hints
    coverage: Coverage
    log: Log
    roots: dict[str, WatchedRoot]
    doubt: Callable[[Iterable[str]], None] = lambda names: None
    """Called with roots that may contain the files of a session that are missing elsewhere."""
    opened: Callable[[Target, tuple[RecordedProcess, ...]], None] = lambda target, processes: None
    """Called with a running session and its processes."""
    closed: Callable[[Target], None] = lambda target: None
    """Called with a session that has stopped running."""
    beginning: Container[str] = frozenset()
    """The session keys of runs that the daemon has ordered and whose launchers may still announce them."""
    announced: Mapping[str, Launch] = field(default_factory=dict)
    """What launchers announced over their channels, by session key."""
    _native_at: float = -math.inf
    _is_ready: bool = False

    async def at(self, hints: Sequence[Hint], most_requests: int) -> Found:
        """Look at these places. The worker takes `most_requests` from the inbox at once."""
        if hints and not self._is_ready:
            await in_thread(_load_what_runs_need)
            self._is_ready = True
        of_native = [each for each in hints if (root := self.roots.get(each[0][0])) and root.shape is None]
        # Its launch is not known yet, so it would be opened as a run that somebody wrote by hand. Whatever comes of
        # the start, a look follows.
        of_native = [each for each in of_native if native.session_key(*each[0]) not in self.beginning]
        native_looks = await self._native(of_native, most_requests) if of_native else Found([])
        foreign = [each for each in hints if (root := self.roots.get(each[0][0])) and root.shape is not None]
        if foreign:
            native_looks.looked.extend(await self._follow(foreign))
        return native_looks

    async def _native(self, hints: Sequence[Hint], most_requests: int) -> Found:
        self._native_at = self.clock.monotonic()
        names = [f"{root}/{name}" for (root, name), _ in hints]
        keys = [f"{_OF_NATIVE}{name}" for name in names]
        over = [f"{_OF_NATIVE}{root}/{name}" for (root, name), why in hints if why & Why.AGAIN]
        # Most runs of chains are among these, so the store is not asked about their launches.
        announced = {key: launch for key in keys if (launch := self.announced.get(key)) is not None}
        others = [key for key in keys if key not in announced]

        async def ask(
            store: Reader,
        ) -> tuple[Mapping[str, str], Mapping[str, Launch], Mapping[str, Lacking]]:
            remembered = await cursors.remembered(store, names)
            recorded = await starts.last_launches(store, others) if others else {}
            lacking = await sessions.lacking_of(store, over) if over else NOTHING_LACKS
            return remembered, recorded | announced, lacking

        remembered, launched, late = await self.store.consult(ask)
        look = partial(self._look_at, hints, remembered, launched, most_requests, lacking=late)
        looked, is_long, waits = await in_thread(look)
        # A cursor that can't be read must not end the run or hide it: the look begins again, from what the
        # store has recorded.
        if any(look.is_forgotten for look in looked):
            looked, waits_now = await self._look_anew(looked, hints, remembered, launched, most_requests)
            waits = waits or waits_now
        if is_long:  # an unread request may be a launch, so runs without one can't be judged yet
            left = [each for each in looked if f"{_OF_NATIVE}{each.root.name}/{each.place}" not in launched]
            self.hints.add_to_backlog([(each.root.name, each.place) for each in left], Why.AGAIN)
            looked = [each for each in looked if each not in left]
        return Found(looked, waits)

    async def _look_anew(
        self,
        looked: Sequence[Looked],
        hints: Sequence[Hint],
        remembered: Mapping[str, str],
        launches: Mapping[str, Launch],
        most_requests: int,
    ) -> Found:
        """The looks. If what is remembered of a run can't be read, its look starts again from the record."""
        lost = {(look.root.name, look.place) for look in looked if look.is_forgotten}
        keys = {native.session_key(*target): "/".join(target) for target in lost}
        self.log.error(
            "cursors.unreadable", runs=sorted(keys.values()), fix="nothing: they are looked at again"
        )
        known = await sessions.known(self.store, keys)
        anew = {
            cursor: dump_watched(forgotten(known[key].attempt if key in known else 0))
            for key, cursor in keys.items()
        }
        again = [each for each in hints if each[0] in lost]
        looks = await in_thread(self._look_at, again, {**remembered, **anew}, launches, most_requests)
        return Found([look for look in looked if not look.is_forgotten] + looks.looked, looks.inbox_waits)

    def _look_at(
        self,
        hints: Sequence[Hint],
        remembered: Mapping[str, str],
        launches: Mapping[str, Launch],
        most_requests: int,
        lacking: Mapping[str, Lacking] = NOTHING_LACKS,
    ) -> _OfNative:
        is_long = inbox_waits = False

        def known() -> Mapping[str, Launch]:
            nonlocal is_long, inbox_waits
            # A launcher's note may still be in the inbox: it counts as if it were recorded, or its run would
            # be judged as one without a launcher.
            waiting = self.files.inbox()
            inbox_waits = inbox_waits or bool(waiting)
            is_long = is_long or len(waiting) > len(first_batch(waiting, most_requests))
            asked = [event for file in waiting if (event := launch_in(file)) is not None]
            # Likewise what was announced over a channel: its command may run as soon as it is recorded, which may
            # have been after `launches` were read.
            announced = dict(self.announced)
            return {**launches, **announced, **{event.session_key: launch_of(event) for event in asked}}

        looked = self._judged(self.looker.look(hints, self.roots, remembered, known, lacking))
        return _OfNative(looked, is_long, inbox_waits)

    def _judged(self, looked: Sequence[Looked]) -> list[Looked]:
        """The looks at places whose roots are still the same. The others are repeated when their roots are back."""
        # Checked after the look: a mount that vanished in the middle makes everything in it look gone.
        away = {path for path in {look.root.path for look in looked} if self.files.away(path) is not None}
        return [look for look in looked if look.root.path not in away]

    async def _follow(self, hints: Sequence[Hint]) -> list[Looked]:
        """Looks at foreign sessions; those that were not reached are queued again."""
        roots = dict(self.roots)  # the settings may change meanwhile
        known = await known_places(self.store, self.files, [target for target, _ in hints], roots)
        alone = self.clock.monotonic() - self._native_at > ALONE_AFTER
        # Verdicts of native runs wait as long as a transcript is read, so the pieces are small while such
        # runs come and go.
        most = MOST_BYTES if alone else FEWER_BYTES
        looks = await in_thread(self.follower.look, hints, roots, known, most)
        looks = looks._replace(looked=await in_thread(self._judged, looks.looked))
        self.hints.add_to_backlog([target for target, _ in looks.left], Why.AGAIN)
        lost = {look.lost.partition(":")[0] for look in looks.looked if look.lost is not None}
        # Its files may have been moved to another root. Only a scan that begins now can show that they are
        # nowhere.
        self.doubt([root.name for root in self.roots.values() if any(root.may_hold(each) for each in lost)])
        gone = [f"{look.root.name}/{look.place}" for look in looks.looked if look.mark is None]
        if gone:  # if a copy of a session exists, the session continues there
            self.hints.add(await places.places_beside(self.store, gone), Why.AGAIN)
        return looks.looked

    async def begin(self) -> None:
        """Look at the runs that the previous daemon judged last: a file that they lacked may have arrived."""
        self._look_again(await sessions.judged_lately(self.store), 0.0)

    def judged(self, verdicts: Iterable[EndAttempt]) -> None:
        """Look at these runs again soon, if they lack a file that may still arrive."""
        lacking = [effect.key for effect in verdicts if effect.reason.code == "run.failed.missing_artifact"]
        self._look_again(lacking, FIRST_LOOK)

    def _look_again(self, keys: Iterable[str], seconds: float) -> None:
        at = self.clock.monotonic() + seconds
        for key in keys:
            name, place = native.place_of(key)
            root = self.roots.get(name)
            if key.startswith(_OF_NATIVE) and root is not None and root.shape is None:
                root.due[place] = at

    def note(self, looked: Sequence[Looked]) -> None:
        """Remember, after the commit, what was seen and which attempts are open."""
        for look in looked:
            root, name = look.root, look.place
            # After the commit, never before: a crash or a refused commit must leave the place to be looked at
            # again.
            if look.mark is None:
                root.seen.pop(name, None)
            else:
                root.seen[name] = look.mark
            if look.phase == "open":
                root.open[name] = look.processes
                if look.documents is None:
                    root.documents.pop(name, None)
                else:
                    root.documents[name] = look.documents
                self.opened(
                    (root.name, name), look.processes[:1]
                )  # a launcher usually ends together with its command
                if look.alive_at is not None:
                    root.alive_at[name] = look.alive_at
            elif root.open.pop(name, None) is not None or (look.phase == "over" and look.events):
                self.closed((root.name, name))
            if look.phase != "open":
                root.alive_at.pop(name, None)
                root.documents.pop(name, None)
            if look.doubted:
                root.doubted.add(name)
            else:
                root.doubted.discard(name)
            if look.unsettled and look.unreadable is None:
                root.unsettled.add(name)
            else:
                root.unsettled.discard(name)
            root.grew_elsewhere = root.grew_elsewhere or look.grew_elsewhere
            self.agents.known = self.agents.known or look.is_linked
            if look.more:
                self.hints.add_to_backlog([(root.name, name)], Why.AGAIN)
            if look.again_in is not None:
                root.due[name] = self.clock.monotonic() + look.again_in
            elif root.shape is not None or look.why & Why.AGAIN or look.phase != "over":
                root.due.pop(name, None)  # else a file that the verdict lacked is still waited for
            # A scan alone found it, so the watch missed it: that is what the coverage counts.
            if look.why == Why.SCAN and look.events:
                self.coverage.found_by_scan += len(look.events)
            if look.unreadable is None:
                root.unread.pop(name, None)
            else:
                root.unread[name] = look.unreadable.strip().splitlines()[-1]
                self.log.warning("run.unreadable", root=root.name, directory=name, why=look.unreadable)


@dataclass(slots=True)
class HookHints:
    """Hints at places that hooks named. `roots` is by name."""

    store: Store
    hints: Hints
    roots: Mapping[str, WatchedRoot]
    agents: AgentsInRuns

    def look(self, done: Sequence[tuple[Job, NoteHook]]) -> None:
        """Look at what these hooks named, because it may exist by now."""
        for job, _ in done:
            path = job.event.transcript_path if isinstance(job.event, HookSpoke) else None
            for root in self.roots.values() if path is not None else ():
                if root.shape is not None and path is not None and path.startswith(f"{root.path}/"):
                    place = root.shape.place_of(path.removeprefix(f"{root.path}/"))
                    self.hints.add([(root.name, place)] if place is not None else [], Why.PROCESS)

    async def look_again(self, done: Sequence[tuple[Job, NoteHook]]) -> None:
        """Look again at a session whose hook named its launched run: it may have been read before that was known."""
        keys = [effect.key for _, effect in done if effect.launcher_session is not None]
        if keys:
            self.agents.known = True
            self.hints.add(await places.places_of_sessions(self.store, keys), Why.PROCESS)
