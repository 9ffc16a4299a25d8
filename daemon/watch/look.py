"""Looking at a batch of native run directories: read what is new, scan it, observe what follows.

Runs in a thread. Nothing here writes; what is returned becomes a transaction.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import UNREACHABLE, UNTRUSTED, Sight, trusted_mark
from runward.daemon.store.batch import Observation, Rows
from runward.daemon.store.tables import cursors, problems
from runward.daemon.watch.hints import Hint, Why
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Processes
from runward.handlers.contracts.verify import boundary
from runward.handlers.layouts import call_readers, native
from runward.handlers.layouts.native import Ended, Item, Started
from runward.handlers.model.files import RootFacts, Signature, Unreadable
from runward.handlers.model.outcomes import BeingRead
from runward.handlers.model.processes import (
    ProcessState,
    RecordedProcess,
    Whereabouts,
    has_namespace,
    is_here,
)
from runward.handlers.model.sessions import Complaint, LastChange, Launch
from runward.handlers.model.shows import PlayChanged
from runward.handlers.sessions.late import CORRECTED_WITHIN, Lacking, outcome_has_arrived
from runward.handlers.sessions.observe import (
    NEVER_SEEN,
    Phase,
    RootRule,
    Seen,
    TraceRead,
    Watched,
    corrected,
    divided,
    dump_watched,
    read_watched,
    see,
    together,
    vanish,
    weigh,
    without_plan,
)
from runward.handlers.sessions.standing import MissingProcess

WEIGHED: Final = Why.PROCESS | Why.START | Why.AGAIN
"""The reasons for which a look checks whether the recorded processes are alive."""


class Looked(NamedTuple):
    """The result of a look at one place.

    `phase` is that of its session's last attempt. `processes` are those that it names; if `doubted`, one of them was
    seen gone. `mark` is the place's own mark for the next scan, None if the place is gone. `unsettled` says that more
    may have been written meanwhile. `again_in` is the number of seconds until it is looked at again even if nothing
    changes. `more` says that there was more than is read at once. `is_linked` says that it was started in a launcher's
    run. `lost` is the key of a running session whose files are gone, and may be elsewhere. `unreadable` says why
    nothing could be learnt. `is_forgotten` says that it was not looked at, because what is remembered of it can't be
    read. `grew_elsewhere` says that it grew without a process on this machine. `alive_at` (Unix seconds) is when a
    process of a run was seen alive. `documents` is the state of an open run's documents, None if a look may find more
    although they stay the same.
    """

    root: WatchedRoot
    place: str
    why: int
    phase: Phase
    processes: tuple[RecordedProcess, ...] = ()
    doubted: bool = False
    events: tuple[Seen | PlayChanged, ...] = ()
    rows: tuple[Rows, ...] = ()
    mark: int | None = None
    unsettled: bool = False
    again_in: float | None = None
    more: bool = False
    is_linked: bool = False
    lost: str | None = None
    unreadable: str | None = None
    is_forgotten: bool = False
    grew_elsewhere: bool = False
    alive_at: float | None = None
    documents: int | None = None

    def observation(self) -> Observation | None:
        """What must be recorded, if anything."""
        if not self.events and not self.rows:
            return None
        return Observation(f"{self.root.name}/{self.place}", self.events, self.rows)


AtEnd: TypeAlias = Callable[[WatchedRoot, str, int], tuple[Rows, ...]]
"""What must be remembered when the last attempt of the run in a root's directory is over."""

NOTHING_LACKS: Final[Mapping[str, Lacking]] = {}

_WRITTEN_BY_RUNS: Final = (native.RUN, native.PROCESS, call_readers.TRACE, "stdout.log", "stderr.log")
_NANOSECONDS: Final = 1e9

AT_ONCE: Final = 32
"""Directories whose files are in memory at the same time."""


class _Run(NamedTuple):
    """A run directory that somebody hinted at, and why."""

    root: WatchedRoot
    directory: str
    why: int

    @property
    def key(self) -> str:
        """The key of its session."""
        return native.session_key(self.root.name, self.directory)

    @property
    def path(self) -> str:
        return f"{self.root.path}/{self.directory}"


class _Read(NamedTuple):
    """What was read of a run directory."""

    run: _Run
    watched: Watched
    sight: Sight | Gone | Unreadable


@dataclass(slots=True)
class Looker:
    """Looks at run directories in the roots that it is given."""

    files: Files
    processes: Processes
    clock: Clock
    at_end: AtEnd = lambda root, directory, attempt: ()

    def look(
        self,
        hints: Sequence[Hint],
        roots: Mapping[str, WatchedRoot],
        remembered: Mapping[str, str],
        launches: Callable[[], Mapping[str, Launch]],
        lacking: Mapping[str, Lacking] = NOTHING_LACKS,
    ) -> list[Looked]:
        """Look at each hinted directory whose root is still watched.

        `launches` returns what launchers recorded, `lacking` what verdicts of a moment ago found missing; both by
        session key.
        """
        looks: list[Looked] = []
        watched = [each for each in hints if each[0][0] in roots]
        # In parts, so that the documents of a large batch are never in memory all at once.
        for first in range(0, len(watched), AT_ONCE):
            some = watched[first : first + AT_ONCE]
            read = [
                self._read(_Run(roots[name], directory, why), remembered.get(f"{name}/{directory}"))
                for (name, directory), why in some
            ]
            # After the files were read: a launcher records its launch before its command can write any. So a
            # run that was read is in what is asked now, if it was launched.
            known = launches()
            looks += [
                each if isinstance(each, Looked) else self._observed(each, known, lacking) for each in read
            ]
        return looks

    def _read(self, run: _Run, text: str | None) -> "_Read | Looked":
        try:
            watched = read_watched(text) if text is not None else NEVER_SEEN
            if watched is None:
                return _nothing(run)._replace(is_forgotten=True)
            sight = self.files.look(run.root.path, run.directory, native.DOCUMENTS, dict(watched.signatures))
        except Exception:  # noqa: BLE001 - a bug in one run's look harms no other
            return _nothing(run)._replace(unreadable=traceback.format_exc(limit=-6))
        return _Read(run, watched, sight)

    def _observed(
        self, read: "_Read", launches: Mapping[str, Launch], lacking: Mapping[str, Lacking]
    ) -> Looked:
        try:
            return self._one(read, launches, lacking)
        except Exception:  # noqa: BLE001 - likewise
            return _nothing(read.run)._replace(unreadable=traceback.format_exc(limit=-6))

    def _one(self, read: "_Read", launches: Mapping[str, Launch], lacking: Mapping[str, Lacking]) -> Looked:
        run, watched, sight = read
        key, now = run.key, self.clock.now()
        # Unreadable is never "empty" or "gone": nothing follows from it, and it is looked at again.
        if isinstance(sight, Unreadable):
            return _looked(run, watched, (), (), UNTRUSTED)._replace(unreadable=sight.why)
        events: tuple[Seen, ...]
        again_in = None
        if isinstance(sight, Gone):
            after, events = vanish(watched, key, now)
            trusted = None
        else:
            after, events = self._see(run, watched, sight, launches.get(key))
            # A directory that changed just now may change again within the same tick of its time stamp,
            # unnoticed by the next comparison.
            trusted = UNTRUSTED if after.complaints else trusted_mark(sight.directory, now)
            if after.unplanned is not None and after.phase == "open" and not after.plans:
                artifacts = after.unplanned.artifacts
                after = without_plan(after, self.files.filled_without(native.FLOW, run.path, artifacts))
        alive_at = None
        # Processes are asked after the files: a run that ended in between has written its end, which then
        # counts.
        if after.phase == "open" and run.why & WEIGHED:
            state = self._state(run.root, after, is_launched=key in launches)
            alive_at = now if state == "alive" else None
            known = self._alive_at(run) if state == "gone" else None
            after, ended = weigh(
                watched=after,
                key=key,
                state=state,
                now=now,
                here=self.processes.whereabouts(),
                alive_at=known,
            )
            events += ended
        if key in lacking and key not in launches and not events:
            after, events = self._corrected(run, after, lacking[key])
            again_in = lacking[key].look_in(now) if not events else None
        if events:
            after, events = self._divided(run, watched, after, events)
        changes = _changes(run, watched, after, now)
        if after.phase == "over" and watched.phase != "over":
            changes += self.at_end(run.root, run.directory, after.attempt)
        looked = _looked(run, after, events, changes, trusted)
        # A complaint is repeated until its file is right, and a plan may be missing from what the run has filled.
        is_done = not after.complaints and after.unplanned is None
        documents = state_of_documents(dict(after.signatures).get) if is_done else None
        return looked._replace(again_in=again_in, alive_at=alive_at, documents=documents)

    def _alive_at(self, run: _Run) -> float | None:
        """When a process of the run is last known to have been alive: seen, or writing what only the run writes."""
        signatures = [self.files.signature(run.root.path, run.directory, name) for name in _WRITTEN_BY_RUNS]
        known = [each[2] / _NANOSECONDS for each in signatures if each is not None]
        seen = run.root.alive_at.get(run.directory)
        return max([*known, *([] if seen is None else [seen])], default=None)

    def _corrected(self, run: _Run, watched: Watched, lacking: Lacking) -> tuple[Watched, tuple[Seen, ...]]:
        """The further attempt of a run without a launcher, if a file that its verdict lacked has arrived."""
        # A later attempt has a verdict of its own.
        if watched.attempt != lacking.attempt or not self._has_arrived(run.path, lacking):
            return watched, ()
        if not self._is_in_time(run.path, lacking):
            return watched, ()
        sight = self.files.look(run.root.path, run.directory, (native.EXIT,), {})
        items = native.scan(run.root.name, run.path, sight.documents) if isinstance(sight, Sight) else ()
        end = next((item for item in items if isinstance(item, Ended)), None)
        return (watched, ()) if end is None else corrected(watched, run.key, end)

    def _is_in_time(self, path: str, lacking: Lacking) -> bool:
        """Whether what arrived did so soon after the verdict, also if no daemon saw it: nothing in the run is younger."""
        if lacking.look_in(self.clock.now()) is not None:
            return True
        if not boundary(lacking.artifacts_path, path):
            return False
        changed = self.files.change_of_run(path)
        return isinstance(changed, LastChange) and changed.newest <= lacking.at + CORRECTED_WITHIN

    def _has_arrived(self, path: str, lacking: Lacking) -> bool:
        within = boundary(lacking.artifacts_path, path)
        artifacts = self.files.artifacts(lacking.artifacts_path, within, lacking.absent)
        if isinstance(artifacts, RootFacts) and any(
            each.state in ("file", "unfit") for each in artifacts.files
        ):
            return True
        if lacking.outcome_files is None:
            return False
        outcomes = self.files.outcomes(path, lacking.artifacts_path, ())
        return not isinstance(outcomes, BeingRead | Unreadable) and outcome_has_arrived(
            lacking, [each.path for each in outcomes]
        )

    def _see(
        self, run: _Run, watched: Watched, sight: Sight, launch: Launch | None
    ) -> tuple[Watched, tuple[Seen, ...]]:
        # The common case of a scan after a restart: nothing was written since the last look.
        if sight.signatures == watched.signatures and not sight.documents:
            return watched, ()
        rule = RootRule(run.root.records_history, run.root.first_seen_at)
        items = list(native.scan(run.root.name, run.path, sight.documents))
        watched = _in_todays_digests(watched, sight, items)
        return see(
            watched=watched, key=run.key, rule=rule, signatures=sight.signatures, items=items, launch=launch
        )

    def _divided(
        self, run: _Run, watched: Watched, after: Watched, events: tuple[Seen, ...]
    ) -> tuple[Watched, tuple[Seen, ...]]:
        """A further attempt changes the documents before it writes a trace."""
        if after.phase == "open" and after.attempt == 1:
            return after, events
        root, directory, _ = run
        signature = self.files.signature(root.path, directory, call_readers.TRACE)
        # How much of it belongs to whom can't be known then: not that it was empty.
        if signature == UNREACHABLE:
            return divided(watched._replace(traced=None), after, events, TraceRead(), is_settled=False)
        known = {directory: dict(after.signatures)}
        # Without a trace no further attempt has written one. It is enough that the run is still there.
        documents = (native.RUN,) if signature is None else native.DOCUMENTS
        is_settled = directory in self.files.unchanged(root.path, documents, known)
        trace = TraceRead() if signature is None else TraceRead(signature.inode, signature.size)
        return divided(watched, after, events, trace, is_settled=is_settled)

    def _state(self, root: WatchedRoot, watched: Watched, *, is_launched: bool) -> ProcessState:
        # The process is on another machine. That it isn't found here says nothing.
        if not is_here(watched.host, self.processes.host()):
            return "unknown"
        here, seen_in = self.processes.whereabouts(), watched.seen_in
        # A number is only valid in its own PID namespace. A container's process is missing here although it
        # lives.
        is_ours = is_launched or (seen_in is not None and seen_in.covers(here))
        return together(
            [self._state_of(root, watched.host, each, here, is_ours) for each in recorded(watched)]
        )

    def _state_of(
        self, root: WatchedRoot, host: str | None, process: RecordedProcess, here: Whereabouts, is_ours: bool
    ) -> ProcessState:
        state = self.processes.state(process)
        if state != "gone":
            return state
        missing = MissingProcess(
            process.boot_id,
            is_ours,
            has_namespace(host),
            lambda: self.processes.is_nowhere(process),
            lambda: self.files.is_local(root.path),
        )
        return "gone" if missing.is_dead(here) else "unknown"


def state_of_documents(signature: Callable[[str], Signature | None]) -> int:
    """Which documents a run has, and their versions, in one number, because there are many runs."""
    return hash(tuple(map(signature, native.DOCUMENTS)))


def _in_todays_digests(watched: Watched, sight: Sight, items: Sequence[Item]) -> Watched:
    """What an earlier version remembered of a run's files, to be compared with what they say now."""
    if watched.phase == "none":
        return watched
    before, documents = dict(watched.signatures), {each.name: each for each in sight.documents}

    def todays(digest: str, item: Started | Ended) -> str:
        return native.in_todays_digest(digest, documents[item.file], before.get(item.file), item.digest)

    for item in items:
        if isinstance(item, Started):
            watched = watched._replace(start_digest=todays(watched.start_digest, item))
        elif isinstance(item, Ended):
            watched = watched._replace(end_digest=todays(watched.end_digest, item))
    return watched


def _looked(
    run: _Run, after: Watched, events: tuple[Seen, ...], rows: tuple[Rows, ...], trusted: int | None
) -> Looked:
    return Looked(
        *run,
        phase=after.phase,
        processes=recorded(after),
        doubted=after.gone_since is not None,
        events=events,
        rows=rows,
        mark=trusted,
        unsettled=trusted == UNTRUSTED and after.phase != "over",
    )


def _nothing(run: _Run) -> Looked:
    """A look that found nothing out; the next scan triggers another."""
    root, directory, _ = run
    return Looked(
        *run,
        phase="open" if directory in root.open else "none",
        processes=tuple(root.open.get(directory, ())),
        doubted=directory in root.doubted,
        mark=UNTRUSTED,
    )


def recorded(watched: Watched) -> tuple[RecordedProcess, ...]:
    """The processes that a run names: its launcher and its command."""
    return tuple(each for each in (watched.launcher, watched.process) if each is not None)


def _changes(run: _Run, before: Watched, after: Watched, now: float) -> tuple[Rows, ...]:
    """What to remember in the same transaction as the events."""
    # Most looks find nothing, and a row that doesn't change is not worth a transaction.
    if after is before or after == before:
        return ()
    root, directory, _ = run
    row = (f"{root.name}/{directory}", root.name, directory, run.key, after.phase, dump_watched(after), None)
    rows: tuple[Rows, ...] = (Rows(cursors.UPSERT, [row]),)
    if after.complaints != before.complaints:
        rows += problems_of_files(run.path, before.complaints, after.complaints, now)
    return rows


def problems_of_files(
    directory: str,
    before: Sequence[Complaint],
    after: Sequence[Complaint],
    now: float,
    cleared: Sequence[str] = (),
) -> tuple[Rows, ...]:
    """The problems of the files in a directory, replacing the earlier ones, and those of the paths `cleared`."""
    paths = sorted({*cleared, *(f"{directory}/{each.file}" for each in (*before, *after))})
    rows = [(f"{directory}/{each.file}", each.line, each.message, each.fix, now) for each in after]
    return Rows(problems.DELETE, [(path,) for path in paths]), Rows(problems.INSERT, rows)
