"""Looking at sessions of other tools: read what is new, feed it to the layout's scanner, follow what it tells.

Runs in a thread. Nothing here writes; what is returned becomes a transaction, the scanner's state with the events.
"""

import traceback
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import anyio.to_thread
from pydantic_core import to_json

from runward.daemon.ports import Clock, Files, Gone, Processes, WriterOf
from runward.daemon.rundir.sights import SessionSight
from runward.daemon.store import queries
from runward.daemon.store.rows import (
    DELETE_PROBLEMS,
    FORGET_PLACE,
    INSERT_LINK,
    INSERT_PROBLEM,
    MOVE_SESSION,
    UPSERT_CURSOR,
    UPSERT_PLACE,
)
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import Statement
from runward.daemon.watch.hints import Hint, Target
from runward.daemon.watch.roots import UNTRUSTED, WatchedRoot, mark
from runward.daemon.worker.look import Looked
from runward.daemon.worker.remembered import Remembered, dump_remembered, load_remembered
from runward.handlers.events import SessionDeclaration
from runward.handlers.facts import Unreadable
from runward.handlers.layouts.registry import LAYOUTS, DirectoryLayout, LogLayout, Scan
from runward.handlers.layouts.scanner import RecordedProcess, Signature
from runward.handlers.layouts.transcript import Resumed, Told
from runward.handlers.sessions.follow import FollowRule, Sign, follow, lose
from runward.handlers.sessions.linked import launcher_key
from runward.handlers.sessions.over import Writer

MOST_BYTES: Final = 4 << 20
"""Bytes of transcripts that are read in one go: what is left waits until the others were looked at."""


HOOKED_AFTER: Final = 2.0
"""Seconds after a hook spoke in which its own helpers may still be there: who lives longer may be the agent."""

_LOOKED_FOR_S: Final = 1.0
"""Seconds after which a session whose files are gone is asked for again, while they may yet be found elsewhere."""

_REPORT: Final = "report it with the daemon's log; the others are followed as ever"


class Known(NamedTuple):
    """What is known of a hinted place: its session, what is remembered of that, and its file as it was read to its end.

    `hook` is what the session's own hook said last. A place that holds no session has no key; `unreadable` says why
    nobody can tell.
    """

    session_key: str | None
    session_id: str | None = None
    state: str | None = None
    signature: Signature | None = None
    is_new: bool = True
    hook: queries.Hook | None = None
    unreadable: str | None = None


class Followings(NamedTuple):
    """What a batch of looks amounts to, and the hints that were not come to."""

    looked: list[Looked]
    left: list[Hint]


def session_key(root: WatchedRoot, layout: LogLayout | DirectoryLayout, place: str, session_id: str) -> str:
    """The key of a session: by its tool's id, or where that is no more than a directory's name, by its place."""
    return f"{layout.name}:{session_id}" if layout.goes_by_id else f"{layout.name}:{root.name}/{place}"


class Follower:
    """Looks at the sessions of the roots that it is given."""

    def __init__(self, files: Files, processes: Processes, clock: Clock) -> None:
        self._files = files
        self._processes = processes
        self._clock = clock

    def identify(self, targets: Sequence[Target], roots: Mapping[str, WatchedRoot]) -> dict[Target, Known]:
        """Which sessions lie at these places."""
        return {(name, place): self._identity(roots[name], place) for name, place in targets}

    def _identity(self, root: WatchedRoot, place: str) -> Known:
        found = self._files.identify(root.path, place, LAYOUTS.only(root.layout))
        if isinstance(found, Unreadable):
            return Known(None, unreadable=found.why)
        if found is None or found.is_subagent:
            return Known(None)
        return Known(session_key(root, found.layout, place, found.session_id), found.session_id)

    def look(
        self, hints: Sequence[Hint], roots: Mapping[str, WatchedRoot], known: Mapping[Target, Known]
    ) -> Followings:
        """A look at each hinted place, as long as not too much is to be read."""
        batch = _Batch(self._files, self._processes, roots, self._clock.now())
        looked: list[Looked] = []
        for index, ((name, place), why) in enumerate(hints):
            if batch.bytes_read >= MOST_BYTES:
                return Followings(looked, list(hints[index:]))
            root, at = roots[name], known[name, place]
            try:
                looked.append(batch.look(root, place, why, at))
            except Exception as error:  # noqa: BLE001 - a mistake of ours in one session's look harms no other
                looked.append(_mistaken(root, place, why, at, error, self._clock.now()))
        return Followings(looked, [])


async def known_places(
    store: Store, follower: Follower, targets: Sequence[Target], roots: Mapping[str, WatchedRoot]
) -> dict[Target, Known]:
    """What is known of these places; those that no session was seen at are looked at anew."""
    asked = {f"{name}/{place}": (name, place) for name, place in targets}
    known: dict[Target, Known] = {}
    for key, found in (await queries.places(store, asked)).items():
        name, place = asked[key]
        if found.session_key is not None and found.session_key.startswith(f"{roots[name].layout}:"):
            known[name, place] = Known(found.session_key, signature=found.signature, is_new=False)
    new = [target for target in targets if target not in known]
    if new:
        known |= await anyio.to_thread.run_sync(follower.identify, new, roots)
    keys = {each.session_key for each in known.values() if each.session_key is not None}
    if not keys:
        return known
    states, hooks = await queries.cursors(store, keys), await queries.hooks(store, keys)
    return {
        target: each._replace(
            state=states.get(each.session_key or ""), hook=hooks.get(each.session_key or "")
        )
        for target, each in known.items()
    }


class _Batch:
    """The looks of one batch. What one of them learns of a session, the next one of the same session knows."""

    def __init__(
        self, files: Files, processes: Processes, roots: Mapping[str, WatchedRoot], now: float
    ) -> None:
        self._files = files
        self._processes = processes
        self._roots = roots
        self._now = now
        self._writers: WriterOf = processes.writers()
        self._booted_at = processes.booted_at()
        self._remembered: dict[str, Remembered] = {}
        self.bytes_read = 0

    def look(self, root: WatchedRoot, place: str, why: int, known: Known) -> Looked:
        if known.session_key is None:
            return self._aside(root, place, why, known)
        before = self._before(root, place, known)
        if (before.root, before.place) == (root.name, place):
            return self._follow(root, place, why, known, before, before)
        if self._is_there(before):
            return self._aside(root, place, why, known)
        moved = before._replace(root=root.name, place=place)
        return self._follow(root, place, why, known, before, moved)

    def _aside(self, root: WatchedRoot, place: str, why: int, known: Known) -> Looked:
        """A place that needs no look as long as it stays as it is: no session's, or that of a copy."""
        looked = Looked(root, place, why, "none", (), False, (), (), None, unreadable=known.unreadable)
        assert root.shape is not None, "native runs are looked at elsewhere"
        signature = self._files.place_signature(root.path, place, root.shape)
        if signature is None:
            return looked._replace(statements=(_forget(root, place),))
        if known.unreadable is not None:
            return looked
        if known.is_new or signature != known.signature:
            looked = looked._replace(statements=(_place(root, place, known.session_key, signature),))
        return looked._replace(mark=mark(signature))

    def _before(self, root: WatchedRoot, place: str, known: Known) -> Remembered:
        assert known.session_key is not None
        found = self._remembered.get(known.session_key)
        if found is not None:
            return found
        return Remembered(root.name, place) if known.state is None else load_remembered(known.state)

    def _is_there(self, remembered: Remembered) -> bool:
        """Whether the session's files are still where they were read."""
        root = self._roots.get(remembered.root)
        if root is None or root.shape is None:
            return False
        return self._files.place_signature(root.path, remembered.place, root.shape) is not None

    def _follow(
        self,
        root: WatchedRoot,
        place: str,
        why: int,
        known: Known,
        stored: Remembered,
        before: Remembered,
    ) -> Looked:
        key, layout = known.session_key, LAYOUTS.named(root.layout)
        assert key is not None
        sight = self._files.look_at_session(root.path, place, layout, before.read, MOST_BYTES, self._now)
        if isinstance(sight, Unreadable):
            processes = written_by(before)
            return Looked(
                root,
                place,
                why,
                before.followed.phase,
                processes,
                False,
                (),
                (),
                UNTRUSTED,
                unreadable=sight.why,
            )
        if isinstance(sight, Gone):
            return self._lost(root, place, why, known, key, before)
        self.bytes_read += sight.bytes_read
        scan, resumed = _scanned(layout, place, before, sight)
        told = scan.tell()
        if told.is_subagent:
            placed = _place(root, place, None, sight.signature)
            return Looked(root, place, why, "none", (), False, (), (placed,), mark(sight.signature))
        # The process is asked for after its files were read: it may have said its last word meanwhile, so the end of
        # a process is believed only after a time in which nothing more came.
        path = f"{root.path}/{place}"
        writer = self._writer(layout, path, told.session_id or known.session_id, before, known.hook)
        sign = Sign(told, resumed, writer, sight.changed_at, self._now, complete=not sight.more)
        launcher = self._launcher(before, writer, known.hook)
        declared = _declaration(root, place, layout, told, known, launcher)
        found = follow(before.followed, key, declared, self._rule(root, layout), sign)
        after = before._replace(
            followed=found.after,
            read=sight.read,
            scan=scan.dump(),
            activity=found.standing.activity if found.standing is not None else before.activity,
            problems=(*sight.hindrances, *told.complaints),
            launcher=launcher,
            is_asked=before.is_asked or writer.process is not None,
        )
        self._remembered[key] = after
        rest = _Rest(root, place, layout, known, stored, after)
        settled = not sight.more and not sight.unsettled
        again_in = found.again_in if sight.read.retry_at <= self._now else sight.read.retry_at - self._now
        is_done = settled and again_in is None
        return Looked(
            root,
            place,
            why,
            after.followed.phase,
            written_by(after),
            False,
            found.events,
            rest.statements(key, sight.signature if is_done else None, self._now),
            mark(sight.signature) if settled else UNTRUSTED,
            unsettled=sight.unsettled,
            again_in=again_in,
            more=sight.more,
            is_linked=launcher is not None,
        )

    def _lost(
        self, root: WatchedRoot, place: str, why: int, known: Known, key: str, before: Remembered
    ) -> Looked:
        """The session's place is gone; it may be on its way to another one."""
        found = lose(before.followed, key, self._now)
        since = found.after.lost_since or before.followed.lost_since
        if found.events and not self._is_looked_for(root, since):
            found = found._replace(after=before.followed, events=(), again_in=_LOOKED_FOR_S)
        after = before._replace(followed=found.after)
        self._remembered[key] = after
        rest = _Rest(root, place, LAYOUTS.named(root.layout), known, before, after)
        statements = rest.changed(key, self._now)
        if after.followed.phase != "open":
            statements = (*statements, _forget(root, place))
        return Looked(
            root,
            place,
            why,
            after.followed.phase,
            written_by(after),
            False,
            found.events,
            statements,
            None,
            again_in=found.again_in,
            is_lost=after.followed.phase == "open",
        )

    def _is_looked_for(self, root: WatchedRoot, since: float | None) -> bool:
        """Whether every root that its files may have moved to was listed since they were missed."""
        others = [each for each in self._roots.values() if each.layout == root.layout and each.health == "ok"]
        return since is None or all(each.listed_at > since for each in others)

    def _writer(
        self,
        layout: LogLayout | DirectoryLayout,
        path: str,
        session_id: str | None,
        before: Remembered,
        hook: queries.Hook | None,
    ) -> Writer:
        """What the tool's own traces say of its process, or else the process that they, or its hook, named before."""
        writer = self._writers(layout.name, path, session_id) if session_id is not None else Writer("unknown")
        process = before.followed.process
        if writer.liveness == "unknown" and process is not None:
            return Writer(self._processes.state(process), None, process)
        if writer.liveness == "unknown" and hook is not None and self._now - hook.at > HOOKED_AFTER:
            agent = hook.agent(layout.name)
            if agent is not None and self._processes.state(agent) == "alive":
                return Writer("alive", None, agent)
        return writer

    def _rule(self, root: WatchedRoot, layout: LogLayout | DirectoryLayout) -> FollowRule:
        return FollowRule(
            layout.names_process,
            root.records_history,
            root.first_seen_at,
            self._booted_at,
            root.settle,
            root.stale_after,
            isinstance(layout, LogLayout),
        )

    def _launcher(self, before: Remembered, writer: Writer, hook: queries.Hook | None) -> str | None:
        """The launcher's session that this one was started in: as its hook says, or the environment of its process."""
        if before.launcher is not None:
            return before.launcher
        session = hook.launcher_session if hook is not None else None
        if session is None and writer.process is not None and not before.is_asked:
            session = self._processes.launcher_of(writer.process)
        launch_root = next((root.name for root in self._roots.values() if root.shape is None), None)
        return launcher_key(session, launch_root)


def _mistaken(root: WatchedRoot, place: str, why: int, known: Known, error: Exception, now: float) -> Looked:
    """A look that we made a mistake in: it is shown, and tried again when the next scan comes by."""
    path = f"{root.path}/{place}"
    row = (path, None, f"can't be followed, by a mistake in Runward itself: {error!r}", _REPORT, now)
    statements = (
        _place(root, place, known.session_key, None),
        Statement(DELETE_PROBLEMS, [(path,)]),
        Statement(INSERT_PROBLEM, [row]),
    )
    told = traceback.format_exc(limit=-6)
    return Looked(root, place, why, "none", (), False, (), statements, UNTRUSTED, unreadable=told)


def _scanned(
    layout: LogLayout | DirectoryLayout, place: str, before: Remembered, sight: SessionSight
) -> tuple[Scan, tuple[Resumed, ...]]:
    """What is new, taken in: the documents first, for they may say in which zone the times of the logs are."""
    name = place.rpartition("/")[2]
    scan = layout.start(name) if before.scan is None or sight.anew else layout.load(before.scan)
    if sight.documents:
        scan = scan.see(sight.documents)
    resumed: tuple[Resumed, ...] = ()
    for portion in sight.portions:
        scan, boundaries = scan.feed(portion.name, portion.lines)
        resumed += boundaries
    return scan, resumed


def _declaration(
    root: WatchedRoot,
    place: str,
    layout: LogLayout | DirectoryLayout,
    told: Told,
    known: Known,
    launcher: str | None,
) -> SessionDeclaration:
    """What a session says of itself. Its contract's paths begin at its own directory, or where its agent works."""
    path = f"{root.path}/{place}"
    artifacts = layout.artifacts_path(path) if isinstance(layout, DirectoryLayout) else told.cwd
    return SessionDeclaration(
        session_id=told.session_id or known.session_id or place,
        layout=layout.name,
        root=root.name,
        path=path,
        kind="agent",
        artifacts_path=artifacts or path.rpartition("/")[0],
        agent=told.agent,
        cwd=told.cwd,
        prompt=told.prompt,
        launcher=launcher,
    )


def written_by(remembered: Remembered) -> tuple[RecordedProcess, ...]:
    """The process that writes a session, where it is known."""
    process = remembered.followed.process
    return () if process is None else (process,)


class _Rest(NamedTuple):
    """What is to be remembered in the same transaction as the events: of a session at a place, before and after."""

    root: WatchedRoot
    place: str
    layout: LogLayout | DirectoryLayout
    known: Known
    stored: Remembered
    after: Remembered

    def statements(self, key: str, read_to_its_end: Signature | None, now: float) -> tuple[Statement, ...]:
        """What changed of the session, and of the place, where it is new or was read to its end."""
        found = self.changed(key, now)
        known = self.known.signature
        if self.known.is_new or (read_to_its_end is not None and read_to_its_end != known):
            found += (_place(self.root, self.place, key, read_to_its_end),)
            if known is None and not self.known.is_new:
                found += self._problems(now)  # one of ours may stand among them
        return found

    def changed(self, key: str, now: float) -> tuple[Statement, ...]:
        """The row of the session, where it isn't as it was."""
        if self.after == self.stored:
            return ()
        after, path = self.after, f"{self.root.path}/{self.place}"
        row = (
            key,
            after.root,
            after.place,
            key,
            after.followed.phase,
            dump_remembered(after),
            after.activity if after.followed.phase == "open" else None,
        )
        found = [Statement(UPSERT_CURSOR, [row])]
        if (self.stored.root, self.stored.place) != (after.root, after.place):
            found.append(Statement(MOVE_SESSION, [(after.root, path, key)]))
        if after.launcher is not None and after.launcher != self.stored.launcher:
            found.append(Statement(INSERT_LINK, [(key, after.launcher)]))
        if after.problems != self.stored.problems:
            found += self._problems(now)
        return tuple(found)

    def _problems(self, now: float) -> tuple[Statement, ...]:
        """The problems of the session's files, in place of those that there were."""
        path, complaints = f"{self.root.path}/{self.place}", self.after.problems
        within = path if isinstance(self.layout, DirectoryLayout) else path.rpartition("/")[0]
        files = {each.file for each in (*self.stored.problems, *complaints)}
        cleared = sorted({path, *(f"{within}/{name}" for name in files)})
        rows = [(f"{within}/{each.file}", each.line, each.message, each.mend, now) for each in complaints]
        return (
            Statement(DELETE_PROBLEMS, [(each,) for each in cleared]),
            Statement(INSERT_PROBLEM, rows),
        )


def _place(root: WatchedRoot, place: str, key: str | None, signature: Signature | None) -> Statement:
    text = None if signature is None else to_json(signature).decode()
    return Statement(UPSERT_PLACE, [(f"{root.name}/{place}", root.name, place, key, text)])


def _forget(root: WatchedRoot, place: str) -> Statement:
    return Statement(FORGET_PLACE, [(f"{root.name}/{place}",)])
