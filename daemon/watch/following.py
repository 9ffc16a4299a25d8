"""Looking at foreign sessions: read what is new, feed it to the layout's scanner, follow what it reports.

Runs in a thread. Nothing here writes. What is returned becomes a transaction: the scanner's state with the events.
"""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from runward.config.json_value import stored_json
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import UNTRUSTED, mark
from runward.daemon.rundir.session_files import NOTHING_READ, FilesRead
from runward.daemon.rundir.session_reading import SessionSight
from runward.daemon.store.batch import Rows
from runward.daemon.store.tables import cursors, places, problems, sessions, usage
from runward.daemon.watch.hints import Hint, Target
from runward.daemon.watch.look import Looked, problems_of_files
from runward.daemon.watch.places import Hinted, Known
from runward.daemon.watch.remembered import Remembered, about, dump_remembered, read_remembered, waiting
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Processes
from runward.handlers.layouts.layout import DirectoryLayout, LogLayout, Scan, fed
from runward.handlers.layouts.transcript import Resumed, Told
from runward.handlers.model.files import Signature, Unreadable
from runward.handlers.model.processes import RecordedProcess, Whereabouts
from runward.handlers.model.sessions import SUBAGENT, SessionDeclaration
from runward.handlers.sessions.ended import launcher_key
from runward.handlers.sessions.follow import Followed, FollowRule, Sign, follow, lose
from runward.handlers.sessions.over import Absence, Writer, WriterOf, is_same

Change = tuple[Rows, ...]


def after_reading(
    hinted: Hinted, key: str, stored: Remembered, after: Remembered, whole: Signature | None, now: float
) -> Change:
    """What changed in the session, and in its place if that is new or was read to its end (`whole`)."""
    change, known = changed(hinted, key, stored, after, now), hinted.known
    if known.is_new or (whole is not None and whole != known.signature):
        change += placed(hinted, key, whole)
        is_told = after.problems != stored.problems
        if known.signature is None and not known.is_new and not is_told:
            change += _problems(hinted, stored, after, now)  # a problem of our own making may be among them
    return change


def changed(hinted: Hinted, key: str, stored: Remembered, after: Remembered, now: float) -> Change:
    """The session's row and its dependent rows, if they changed.

    Each look at a living process gives a later `alive_at`. That alone is not worth a transaction: the `Follower`
    remembers it until something else is stored.
    """
    followed = after.followed._replace(alive_at=stored.followed.alive_at)
    if after._replace(followed=followed) == stored:
        return ()
    phase = after.followed.phase
    activity = after.activity if phase == "open" else None
    row = (key, after.root, after.place, key, phase, dump_remembered(after), activity)
    rows: Change = (Rows(cursors.UPSERT, [row]),)
    # The session keeps its identity when its files are moved.
    if (stored.root, stored.place) != (after.root, after.place):
        rows += (Rows(sessions.MOVE, [(after.root, hinted.path, key)]),)
    if after.launcher is not None and after.launcher != stored.launcher:
        rows += (Rows(places.INSERT_LINK, [(key, after.launcher)]),)
    if after.problems != stored.problems:
        rows += _problems(hinted, stored, after, now)
    return rows


def placed(hinted: Hinted, key: str | None, signature: Signature | None) -> Change:
    """Whose place this is, and the state of its file when it was read to its end."""
    root, place = hinted.root.name, hinted.place
    text = None if signature is None else stored_json(signature).decode()
    return (Rows(places.UPSERT_PLACE, [(f"{root}/{place}", root, place, key, text)]),)


def forgotten(hinted: Hinted) -> Change:
    """There is nothing at this place now."""
    return (Rows(places.FORGET_PLACE, [(f"{hinted.root.name}/{hinted.place}",)]),)


def mistaken(hinted: Hinted, message: str, now: float) -> Change:
    """Our own problem with this place, which the next full reading clears."""
    return (
        *placed(hinted, hinted.known.session_key, None),
        Rows(problems.DELETE, [(hinted.path,)]),
        Rows(problems.INSERT, [(hinted.path, None, message, _REPORT, now)]),
    )


def shared_home(root: WatchedRoot, now: float) -> Change:
    """A session in this root grew without a process on this machine: others write in the home, too."""
    return () if root.grew_elsewhere else (Rows(places.GREW_ELSEWHERE, [(now, root.name)]),)


def _problems(hinted: Hinted, stored: Remembered, after: Remembered, now: float) -> Change:
    """The problems of the session's files, replacing the earlier ones."""
    path = hinted.path
    within = path if isinstance(hinted.layout, DirectoryLayout) else path.rpartition("/")[0]
    return problems_of_files(within, stored.problems, after.problems, now, cleared=[path])


MOST_BYTES: Final = 16 << 20
"""Bytes of transcripts that are read in one go: the rest waits until the other sessions were looked at."""

FEWER_BYTES: Final = 1 << 20
"""The same while native runs come and go, whose verdicts wait as long as a transcript is read."""

HOOKED_AFTER: Final = 2.0
"""Seconds for which a hook's own helpers may outlive its report: a process that lives longer may be the agent."""

SOUGHT_AGAIN: Final = 1.0
"""Seconds after which a session whose files have vanished is looked at again, because they may be found elsewhere."""

_REPORT: Final = "report it with the daemon's log; the others are followed as usual"


class Followings(NamedTuple):
    """What a batch of looks found, and the hints that it did not reach."""

    looked: list[Looked]
    left: list[Hint]


@dataclass(slots=True)
class Follower:
    """Looks at the sessions in the roots that it is given."""

    files: Files
    processes: Processes
    clock: Clock
    _booted_at: float | None = field(default=None, init=False)
    _alive_at: dict[str, float] = field(default_factory=dict, init=False)
    """When the processes of running sessions were last known to be alive, by session key."""

    def look(
        self,
        hints: Sequence[Hint],
        roots: Mapping[str, WatchedRoot],
        known: Mapping[Target, Known],
        most_bytes: int,
    ) -> Followings:
        """Look at each hinted place, until there is too much to read."""
        # A clock that is set forward moves the computed start of the machine, and must not make anything look
        # older.
        self._booted_at = _earlier(self._booted_at, self.processes.booted_at())
        now = self.clock.now()
        batch = _Batch(
            files=self.files,
            processes=self.processes,
            roots=roots,
            now=now,
            booted_at=self._booted_at,
            most_bytes=most_bytes,
            alive_at=self._alive_at,
        )
        with self.files.kept_open():
            return self._look(batch, hints, roots, known, most_bytes)

    def _look(
        self,
        batch: "_Batch",
        hints: Sequence[Hint],
        roots: Mapping[str, WatchedRoot],
        known: Mapping[Target, Known],
        most_bytes: int,
    ) -> Followings:
        looked: list[Looked] = []
        for index, (target, why) in enumerate(hints):
            # The rest waits: native runs are looked at in between, however large the transcripts are.
            if batch.bytes_read >= most_bytes:
                return Followings(looked, list(hints[index:]))
            hinted = Hinted(roots[target[0]], target[1], why, known[target])
            try:
                looked.append(batch.look(hinted))
            except Exception as error:  # noqa: BLE001 - a bug in one session's look harms no other
                message = f"can't be followed, because of a bug in Runward: {error!r}"
                rows = mistaken(hinted, message, self.clock.now())
                looked.append(
                    _nothing(hinted)._replace(
                        rows=rows, mark=UNTRUSTED, unreadable=traceback.format_exc(limit=-6)
                    )
                )
        return Followings(looked, [])


@dataclass(slots=True)
class _Batch:
    """The looks of one batch. What one learns about a session, the next look at that session knows."""

    files: Files
    processes: Processes
    roots: Mapping[str, WatchedRoot]
    now: float
    booted_at: float | None
    most_bytes: int
    alive_at: dict[str, float]
    _writers: WriterOf = field(init=False)
    _here: Whereabouts = field(init=False)
    _remembered: dict[str, Remembered] = field(default_factory=dict, init=False)
    bytes_read: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._writers = self.processes.writers()
        self._here = self.processes.whereabouts()

    def look(self, hinted: Hinted) -> Looked:
        root, place, key = hinted.root, hinted.place, hinted.known.session_key
        if key is None:
            return self._aside(hinted)
        stored = self._stored(key, hinted)
        if (stored.root, stored.place) == (root.name, place):
            return self._follow(hinted, key, stored, stored)
        moved = stored._replace(root=root.name, place=place)
        # The files are in both places, so this one is a copy, and says nothing.
        if self._is_there(stored):
            return self._aside(hinted)
        if not self._is_there(moved):
            # Neither can be reached now. Without a mark it is looked at again, because the session may be there.
            return _nothing(hinted)._replace(rows=forgotten(hinted))
        return self._follow(hinted, key, stored, moved)

    def _aside(self, hinted: Hinted) -> Looked:
        """A place that needs no look while it stays unchanged: it has no session, or a copy of one."""
        root, known = hinted.root, hinted.known
        looked = _nothing(hinted)._replace(unreadable=known.unreadable)
        assert root.shape is not None, "native runs are looked at elsewhere"
        signature = self.files.place_signature(root.path, hinted.place, root.shape)
        if signature is None:
            return looked._replace(rows=forgotten(hinted))
        if known.unreadable is not None:
            return looked
        if known.is_new or signature != known.signature:
            looked = looked._replace(rows=placed(hinted, known.session_key, signature))
        return looked._replace(mark=mark(signature))

    def _stored(self, key: str, hinted: Hinted) -> Remembered:
        stored, state = self._remembered.get(key), hinted.known.state
        if stored is not None:
            return stored
        anew = Remembered(hinted.root.name, hinted.place)
        return anew if state is None else read_remembered(state) or anew

    def _noted(self, key: str, followed: Followed) -> Followed:
        """What is remembered, with the last moment at which its process was known to be alive."""
        alive_at = max(
            (at for at in (followed.alive_at, self.alive_at.get(key)) if at is not None), default=None
        )
        return followed._replace(alive_at=alive_at)

    def _is_there(self, remembered: Remembered) -> bool:
        """Whether the session's files are still where they were read."""
        root = self.roots.get(remembered.root)
        if root is None or root.shape is None:
            return False
        return self.files.place_signature(root.path, remembered.place, root.shape) is not None

    def _follow(self, hinted: Hinted, key: str, stored: Remembered, before: Remembered) -> Looked:
        root, layout = hinted.root, hinted.layout
        scan = _kept_scan(hinted, before)
        # Another version of the scanner stored this. Its state can't be continued, so the files are read from
        # the beginning.
        if scan is None:
            before = before._replace(read=NOTHING_READ, scan=None)
        sight = self.files.look_at_session(
            root=root.path,
            place=hinted.place,
            layout=layout,
            known=before.read,
            most_bytes=self.most_bytes,
            now=self.now,
        )
        if isinstance(sight, Unreadable):
            return _looked(hinted, before)._replace(mark=UNTRUSTED, unreadable=sight.why)
        if isinstance(sight, Gone):
            return self._lost(hinted, key, before)
        self.bytes_read += sight.bytes_read
        anew = scan is None or sight.anew
        # A transaction writes kind by kind, not look by look. So what is read from its beginning, and takes back what was
        # counted, waits if an earlier look of this batch counts, too.
        if anew and key in self._remembered:
            return _looked(hinted, before)._replace(mark=UNTRUSTED, more=True)
        scan, resumed = _scanned(hinted, scan, sight)
        report = scan.tell()
        if report.is_subagent:
            return _nothing(hinted)._replace(
                rows=placed(hinted, None, sight.signature), mark=mark(sight.signature)
            )
        # The process is checked after its files were read. It may have written its last lines in between, so the end of
        # a process is believed only after a time in which nothing more arrived.
        writer = self._writer(hinted, report, before)
        launcher = self._launcher(hinted, report.works_for, writer, before)
        # What can't be read now, or is being written, may say how it ended.
        is_partial = sight.more or sight.withheld
        is_complete = not is_partial and not any(log.may_pass for log in sight.read.logs)
        lines = _lines_read(hinted, sight.read)
        grew = bool(sight.portions) and before.scan is not None and not sight.anew
        began_at = self._began_at(writer) if resumed else None
        sign = Sign(
            told=report,
            resumed=resumed,
            writer=writer,
            changed_at=sight.changed_at,
            at=self.now,
            complete=is_complete,
            lines=lines,
            anew=sight.anew,
            grew=grew,
            began_at=began_at,
        )
        declared = _declaration(hinted, report, launcher)
        followed = follow(
            self._noted(key, before.followed), key, declared, self._rule(root, layout, sight.changed_at), sign
        )
        activity = followed.standing.activity if followed.standing is not None else before.activity
        waits = before.waiting if followed.standing is None else None
        if followed.standing is not None and activity == "waiting":
            waits = waiting(before.waiting, report, writer.asks, self.now)
        after = before._replace(
            followed=followed.after,
            read=sight.read,
            scan=scan.taken().dump(),
            looks=1 if anew else before.looks + bool(report.counted),
            activity=activity,
            problems=(*sight.obstacles, *report.complaints),
            about=about(report),
            launcher=launcher,
            is_asked=before.is_asked or writer.process is not None,
            waiting=waits,
        )
        # A later look of this batch at the same session must continue here, although nothing is stored yet.
        self._remembered[key] = after
        if after.followed.phase == "open" and after.followed.alive_at is not None:
            self.alive_at[key] = after.followed.alive_at
        else:
            self.alive_at.pop(key, None)
        retry_in = sight.read.retry_at - self.now
        again_in = retry_in if retry_in > 0 else followed.again_in
        settled = not sight.more and not sight.unsettled
        # Only a file that was read to its end, and needs no second look, may be passed over by a restart.
        whole = sight.signature if settled and again_in is None else None
        return _looked(hinted, after)._replace(
            events=followed.events,
            rows=(
                *after_reading(hinted=hinted, key=key, stored=stored, after=after, whole=whole, now=self.now),
                *(shared_home(root, self.now) if followed.grew_elsewhere else ()),
                *(usage.told(key, report.counted, after.looks) if anew or report.counted else ()),
            ),
            mark=mark(sight.signature) if settled else UNTRUSTED,
            unsettled=sight.unsettled,
            again_in=again_in,
            more=sight.more,
            is_linked=launcher is not None,
            grew_elsewhere=followed.grew_elsewhere,
        )

    def _lost(self, hinted: Hinted, key: str, before: Remembered) -> Looked:
        """The session's place has vanished; the session may be moving to another one."""
        followed = lose(before.followed, key, self.now)
        since = followed.after.lost_since or before.followed.lost_since
        # Files may be moved between roots. A session ends for that reason only when every root was listed
        # since they went missing.
        if followed.events and not self._is_sought(hinted.layout.name, since):
            followed = followed._replace(after=before.followed, events=(), again_in=SOUGHT_AGAIN)
        after = before._replace(followed=followed.after)
        self._remembered[key] = after
        is_open = after.followed.phase == "open"
        statements = changed(hinted, key, before, after, self.now)
        return _looked(hinted, after)._replace(
            events=followed.events,
            rows=statements if is_open else (*statements, *forgotten(hinted)),
            again_in=followed.again_in,
            lost=key if is_open else None,
        )

    def _is_sought(self, layout: str, since: float | None) -> bool:
        """Whether every root that its files may have moved to was listed since they went missing."""
        others = [each for each in self.roots.values() if each.may_hold(layout) and each.health == "ok"]
        return since is None or all(each.listed_at > since for each in others)

    def _writer(self, hinted: Hinted, report: Told, before: Remembered) -> Writer:
        """What the tool's own files say about its process, or else the process that they, or its hook, named
        before."""
        layout, hook, known = hinted.layout.name, hinted.known.hook, before.followed.process
        session_id = report.session_id or hinted.known.session_id
        writer = Writer("unknown") if session_id is None else self._writers(layout, hinted.path, session_id)
        if writer.absence is not None:
            return self._missing(hinted, writer, writer.absence, before.followed)
        if writer.liveness == "alive":
            return writer._replace(seen_in=self._here)
        if writer.liveness == "gone" or (writer.process is not None and writer.process != known):
            return writer
        # What the tool's files named before still counts if they name nothing now.
        if known is not None:
            process = self._known(known, before.followed.seen_in)
            if process.liveness == "alive" and any(is_same(each, known) for each in writer.elsewhere):
                return process._replace(liveness="gone", left=True)  # its tool names each session that it has
            return process
        # Right after the report, the hook's own helpers may still live. A process that outlives them may be
        # the agent.
        if hook is not None and self.now - hook.at > HOOKED_AFTER:
            callers = [self._known(each, hook.whereabouts) for each in hook.callers]
            states = {each.liveness for each in callers}
            if callers and (callers[-1].liveness == "alive" or states == {"gone"}):
                return callers[-1]
        return writer

    def _began_at(self, writer: Writer) -> float | None:
        """When the process started that writes the session and waits for each of its prompts; None if there is none."""
        if writer.liveness != "alive" or writer.status is None or writer.process is None:
            return None
        age = self.processes.age(writer.process)
        return None if age is None else self.now - age

    def _known(self, process: RecordedProcess, seen_in: Whereabouts | None) -> Writer:
        """A process that nothing names any more. If it can't be found, it is dead where its number is valid."""
        state = self.processes.state(process)
        if state == "alive":
            return Writer(state, None, process, seen_in=self._here)
        if state == "gone" and (seen_in is None or not seen_in.covers(self._here)):
            # Its number belongs to another PID namespace, where it may well be alive.
            state = "unknown"
        return Writer(state, None, process, seen_in=seen_in)

    def _missing(self, hinted: Hinted, writer: Writer, absence: Absence, followed: Followed) -> Writer:
        """The processes that the tool's files name can't be found here: whether they are dead, or elsewhere."""
        hook = hinted.known.hook
        callers = () if hook is None else hook.callers
        known = [
            (followed.process, followed.seen_in),
            *((each, None if hook is None else hook.whereabouts) for each in callers),
        ]
        dead = [
            process
            for process, seen_in in known
            if process is not None and self._known(process, seen_in).liveness == "gone"
        ]
        if dead and absence.is_about(dead):
            is_known = dead[0] == followed.process and absence.is_about(dead[:1])
            return writer._replace(process=dead[0]) if is_known else writer
        if absence.proves_death(grew_elsewhere=hinted.root.grew_elsewhere):
            return writer
        return writer._replace(liveness="unknown")

    def _launcher(
        self, hinted: Hinted, works_for: str | None, writer: Writer, before: Remembered
    ) -> str | None:
        """The session that this one is part of: its origin's or, by its hook or its process's environment, its launcher's."""
        # What it was started in never changes, and a process can only be asked while it lives.
        if before.launcher is not None:
            return before.launcher
        # A sub-agent is part of the session that ordered it: how it ends says nothing of the run that both are in.
        if works_for is not None:
            return f"{hinted.layout.name}:{works_for}"
        hook = hinted.known.hook
        session = hook.launcher_session if hook is not None else None
        if session is None and writer.process is not None and not before.is_asked:
            session = self.processes.launcher_of(writer.process, hinted.layout.name, hinted.path)
        if session is None or "/" in session:
            return None
        natives = [root for root in self.roots.values() if root.shape is None]
        # If a root can't be read now, what was seen in it earlier counts.
        holding = [
            root.name
            for root in natives
            if session in root.seen or self.files.directory_signature(root.path, session)
        ]
        return launcher_key(session, [root.name for root in natives], holding)

    def _rule(
        self, root: WatchedRoot, layout: LogLayout | DirectoryLayout, changed_at: float | None
    ) -> FollowRule:
        return FollowRule(
            names_process=layout.names_process,
            records_history=root.records_history,
            first_seen_at=root.first_seen_at,
            booted_at=self._ended_at_boot(root, changed_at),
            settle=root.settings.settle,
            stale_after=root.settings.stale_after,
            start_within=root.settings.start_within,
            names_directory=isinstance(layout, LogLayout),
        )

    def _ended_at_boot(self, root: WatchedRoot, changed_at: float | None) -> float | None:
        """When this machine started, if that ended all that wrote the files before: not where other machines write, too."""
        booted_at = self.booted_at
        # In a shared home another machine may write the files, and our reboot ended nothing there.
        if booted_at is None or changed_at is None or changed_at >= booted_at or root.grew_elsewhere:
            return None
        return booted_at if self.files.is_local(root.path) else None


def _earlier(before: float | None, now: float | None) -> float | None:
    """When the machine started. A clock that is set forward moves that too, and must not make anything look older."""
    return now if before is None or now is None else min(before, now)


def written_by(remembered: Remembered) -> tuple[RecordedProcess, ...]:
    """The process that writes a session, if it is known."""
    process = remembered.followed.process
    return () if process is None else (process,)


def _nothing(hinted: Hinted) -> Looked:
    """A look at something that is not a session."""
    return Looked(hinted.root, hinted.place, hinted.why, "none")


def _looked(hinted: Hinted, remembered: Remembered) -> Looked:
    """A look at a session, with what is now remembered of it."""
    phase = remembered.followed.phase
    return Looked(hinted.root, hinted.place, hinted.why, phase, written_by(remembered))


def _kept_scan(hinted: Hinted, remembered: Remembered) -> Scan | None:
    """The scan of what was read so far; None if nothing was read, or another version of the scanner stored it."""
    try:
        return None if remembered.scan is None else hinted.layout.load(remembered.scan)
    except ValueError:
        return None


def _scanned(hinted: Hinted, kept: Scan | None, sight: SessionSight) -> tuple[Scan, tuple[Resumed, ...]]:
    """Scan what is new. Documents come first, because they may give the time zone of the logs."""
    scan = kept
    # The file was replaced or cut, so what was read of it no longer counts.
    if scan is None or sight.anew:
        scan = hinted.layout.start(hinted.place.rpartition("/")[2])
    if sight.documents:
        scan = scan.see(sight.documents)
    resumed: tuple[Resumed, ...] = ()
    for portion in sight.portions:
        scan, boundaries = fed(scan, portion.name, portion.lines)
        resumed += boundaries
    return scan, resumed


def _lines_read(hinted: Hinted, read: FilesRead) -> int | None:
    """The lines that were read of the log with the session's calls; None if they are in no log, or in several."""
    layout = hinted.layout
    is_log = isinstance(layout, LogLayout)
    names = (hinted.place.rpartition("/")[2],) if is_log else layout.declared().calls.logs
    counts = [log.cursor.lines for log in read.logs if log.name in names]
    return counts[0] if len(names) == 1 and counts else None


def _declaration(hinted: Hinted, report: Told, launcher: str | None) -> SessionDeclaration:
    """What a session declares. Its contract's paths begin at its own directory, or where its agent works."""
    path, layout = hinted.path, hinted.layout
    artifacts = layout.artifacts_path(path) if isinstance(layout, DirectoryLayout) else report.cwd
    return SessionDeclaration(
        session_id=report.session_id or hinted.known.session_id or hinted.place,
        layout=layout.name,
        root=hinted.root.name,
        path=path,
        kind="agent" if report.works_for is None else SUBAGENT,
        artifacts_path=artifacts or path.rpartition("/")[0],
        agent=report.agent,
        cwd=report.cwd,
        prompt=report.prompt,
        launcher=launcher,
    )
