"""Following a foreign session: from what its files and the machine say to the events that follow.

The daemon remembers a `Followed` for each session, stored with the scanner's state and the events in one transaction.
Everything here is pure. `over.judge` says what state a session is in; here its attempts are told apart. Each boundary
is at a number of turns, so it is drawn once, whether the daemon was running when it came or reads about it later.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from runward.handlers.layouts.transcript import Close, Resumed, Told, Turn
from runward.handlers.model.processes import ProcessState, RecordedProcess, Whereabouts
from runward.handlers.model.sessions import (
    EVIDENCE_STRENGTH,
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Origin,
    SessionDeclaration,
)
from runward.handlers.model.shows import PlayChanged
from runward.handlers.sessions.observe import Phase, end_of_gone
from runward.handlers.sessions.over import (
    GRACE,
    SETTLE,
    End,
    Writer,
    end_before,
    end_by,
    ended,
    judge,
)
from runward.handlers.sessions.standing import Standing
from runward.handlers.sessions.stored_fields import FOLLOWED


class Followed(NamedTuple):
    """What is remembered of a session between looks.

    `due_at` is when an attempt began that is not yet reported, because it may turn out to be history. `before` counts
    the turns that came before the open attempt. `turns`, `turn`, `close` and `events` are what the files said at the
    last look at the open attempt, or at its end; `ended_at` is that end. `process` writes the session, `former` is one
    that did, and is no longer asked for. `gone_since` and `lost_since` (Unix seconds) are when the process, or the
    session's place, was first missed. `is_known`: what was there at first sight has been reported. `is_successor`:
    `process` was first seen after the last attempt's end, so it writes the next one. `data` is the state of the data
    kept besides the session at the last look, and `data_told` counts the reported changes of it. `lines` are those of
    its log that belong to the attempts that are over; None if that is not known. `seen_in` is where `process` was seen
    alive, or was named by a hook: only there is it dead if it can't be found. `absent` are processes that the tool's own
    files name and that this machine doesn't find, since `absent_since`. `moved_at` is the time of the last record at
    the last look, if records have times. `alive_at` is when a process of the session was last known to be alive. Commands read
    single fields of it (`stored_fields.py`).
    """

    phase: Phase = "none"
    attempt: int = 0
    ended_by: Evidence | None = None
    process: RecordedProcess | None = None
    gone_since: float | None = None
    former: RecordedProcess | None = None
    lost_since: float | None = None
    vanished: bool = False
    due_at: float | None = None
    before: int = -1
    turns: int = 0
    turn: Turn = "none"
    close: Close | None = None
    events: int = 0
    ended_at: float | None = None
    is_known: bool = False
    is_successor: bool = False
    version: Literal[1] = 1
    data: str | None = None
    data_told: int = 0
    lines: int | None = None
    seen_in: Whereabouts | None = None
    absent: tuple[RecordedProcess, ...] = ()
    absent_since: float | None = None
    moved_at: float | None = None
    alive_at: float | None = None


assert {name: f"[{Followed._fields.index(name)}]" for name in FOLLOWED} == FOLLOWED

NEVER_FOLLOWED: Final = Followed()


class FollowRule(NamedTuple):
    """What a session's root and its layout say about following it; times are Unix seconds.

    `records_history`: what ended before `first_seen_at` is only recorded. `booted_at` is when this machine started,
    `stale_after` the seconds of silence that end a session whose end can't be detected, `start_within` those that end
    what began and wrote no line. `names_directory`: the files say where the agent works, though maybe not in their
    first lines; the contract may depend on it."""

    names_process: bool
    records_history: bool
    first_seen_at: float
    booted_at: float | None = None
    settle: float = SETTLE
    stale_after: float | None = None
    start_within: float | None = None
    names_directory: bool = False


class Sign(NamedTuple):
    """One look at a session.

    `resumed` are the boundaries in what was read since the last look. `writer` is what is known of its process,
    including the remembered one; `changed_at` is when its files last changed, `at` that of the look. Unless everything that is there was read
    (`complete`), the last attempt may continue after it. `lines` are those of its log that were read, if it has one log;
    after `anew` they are another file's than before. `grew`: lines were read that came after an earlier look.
    `began_at` is when the living process started, if it says about itself what it is doing: then it takes several
    prompts.
    """

    told: Told
    resumed: tuple[Resumed, ...]
    writer: Writer
    changed_at: float | None
    at: float
    complete: bool
    lines: int | None = None
    anew: bool = False
    grew: bool = False
    began_at: float | None = None


MOST_TOLD: Final = 1000
"""Changes of a session's data that are reported: each costs the store an event. The verdict reads whatever is there."""

_MISSED_LATE: Final = 1.0
"""Seconds after a process was first missed in which a line may still be its own, as the times of files are coarse."""

Seen: TypeAlias = AttemptStarted | AttemptEnded | PlayChanged


class Follow(NamedTuple):
    """The result of a look. After `again_in` seconds without another look, the session must be looked at again.

    `standing` is None if the session has not begun, if not everything was read, and if it is over for a reason that
    its files and its process don't tell by themselves. `grew_elsewhere`: its log grew while the processes that its
    tool's files name were not on this machine, so others write in this home, too.
    """

    after: Followed
    events: tuple[Seen, ...]
    standing: Standing | None
    again_in: float | None
    grew_elsewhere: bool = False


def follow(
    followed: Followed, key: str, declaration: SessionDeclaration, rule: FollowRule, sign: Sign
) -> Follow:
    """Fold a look into what is remembered, and name the events that follow."""
    if sign.told.is_subagent:
        return Follow(followed, (), None, None)
    look = _Look(followed, key, declaration, rule, sign)
    grew_elsewhere = look.miss(sign.grew)
    for resumed in sign.resumed:
        look.cross(resumed)
    if not sign.complete:
        look.meanwhile()
        return Follow(look.after, tuple(look.events), None, None, grew_elsewhere)
    standing, again_in = look.conclude()
    after = look.after
    if after.phase == "over" and after.due_at is None:
        # What comes after these lines belongs to the next attempt.
        after = after._replace(lines=sign.lines)
    return Follow(after, tuple(look.events), standing, again_in, grew_elsewhere)


class _Look:
    """One look, while its events are named."""

    def __init__(
        self, followed: Followed, key: str, declaration: SessionDeclaration, rule: FollowRule, sign: Sign
    ) -> None:
        self.followed = followed
        # Lines of another file have other numbers, so those that were counted say nothing any more.
        self.after = followed._replace(lost_since=None, lines=None if sign.anew else followed.lines)
        self._told, self._writer = sign.told, sign.writer
        self._changed_at, self._moment = sign.changed_at, sign.at
        self._at = self._moment if self._changed_at is None else self._changed_at
        self._process_began_at = sign.began_at
        process = self._writer.process
        if process is not None and process != followed.former:  # by the next look its traces may be gone
            seen_in = self._writer.seen_in
            if process != followed.process:
                self.after = self.after._replace(is_successor=followed.phase == "over", seen_in=None)
            if seen_in is not None:
                self.after = self.after._replace(seen_in=seen_in)
            self.after = self.after._replace(process=process, former=None)
        if self._writer.liveness == "alive":
            self.after = self.after._replace(alive_at=self._moment)
        self.events: list[Seen] = []
        self._key = key
        self._declaration = declaration
        self._rule = rule

    def miss(self, grew: bool) -> bool:
        """Note which processes are missing here. Whether the log grew after they were first missed."""
        absence, known = self._writer.absence, self.followed
        if absence is None:
            self.after = self.after._replace(absent=(), absent_since=None)
            return False
        since = known.absent_since
        # Other processes are missing than before, or the clock was set back: the time begins anew.
        if since is None or known.absent != absence.named or self._moment < since:
            self.after = self.after._replace(absent=absence.named, absent_since=self._moment)
            return False
        # A process may write its last lines and end before it is missed. So only a time of writing after that counts.
        return grew and self._changed_at is not None and self._changed_at > since + _MISSED_LATE

    def cross(self, resumed: Resumed) -> None:
        """A boundary that the files themselves draw: one attempt ended there, and the next one began."""
        after, close = self.after, resumed.before
        # A file that is read again from its beginning, or a second file of the session, draws no boundary twice.
        if self._is_drawn(resumed.turns):
            return
        if self._is_one_life(resumed):
            self._pass(resumed)
            return
        at = next((at for at in (close.at, resumed.started_at) if at is not None), self._at)
        end = End(at, "declared", close)
        # The attempt before the boundary is over, whether it is open, was due to be reported, or began and ended
        # unseen.
        if after.phase == "open":
            self._end(end, "live")
        elif after.due_at is not None:
            self._whole(after.due_at, end)
        elif after.phase == "none":
            self._whole(at if resumed.began_at is None else resumed.began_at, end)
        elif resumed.turns > after.turns:
            self._whole(self._went_on_at(resumed.began_at, at), end)
        elif self._is_corrected(close):
            self._whole(at, end)
        began_at = resumed.started_at
        self.after = self.after._replace(
            phase="over",
            due_at=self._at if began_at is None else began_at,
            turns=resumed.turns,
            turn="closed",
            close=close,
            ended_at=at,
            lines=None if resumed.line is None else resumed.line - 1,
        )
        self._left_behind()

    def _is_one_life(self, resumed: Resumed) -> bool:
        """Whether one living process, which waits for prompts, wrote what came before the boundary and what came after.

        To a program that feeds it prompts this is one session, as it is to a person.
        """
        began_at, ended_at = self._process_began_at, resumed.before.at
        is_running = self.after.phase != "over" or self.after.due_at is not None
        return is_running and began_at is not None and ended_at is not None and began_at <= ended_at

    def _pass(self, resumed: Resumed) -> None:
        """Draw no boundary here, also if these lines are read again."""
        after = self.after
        if after.phase == "open":
            self.after = after._replace(before=resumed.turns)
            return
        began_at = self._at if resumed.began_at is None else resumed.began_at
        due_at = began_at if after.due_at is None else after.due_at
        self.after = after._replace(due_at=due_at, turns=resumed.turns)

    def _is_drawn(self, turns: int) -> bool:
        """Whether the boundary after this many turns is already drawn, as when a file is read again from its beginning.

        The start of an attempt draws it, whatever said that it began.
        """
        after = self.after
        if after.phase == "open":
            return turns <= after.before
        return turns < after.turns or (after.due_at is not None and turns == after.turns)

    def meanwhile(self) -> None:
        """There is more to read: only what can't be history is reported already."""
        # Whether an attempt is history is known only when everything was read. An attempt that can't be is not held
        # back.
        if self.after.due_at is not None and not self._may_be_history():
            self._start(self.after.due_at, seen_over=False)

    def conclude(self) -> tuple[Standing | None, float | None]:
        """Everything was read: draw the conclusions from the session's state."""
        rest_s = self._until_it_names_its_directory()
        if rest_s > 0:
            return None, rest_s
        if not self._has_begun():
            return None, None
        standing = self._standing()
        due_at = self.after.due_at
        if due_at is None and self.after.phase == "over":
            return self._over(standing)
        # An attempt that may be history is recorded only when that is known: with its beginning and its end together.
        if due_at is not None:
            end = self._end_of_history(standing)
            if end is not None:
                return self._record(due_at, end, standing)
            self._start(due_at, seen_over=standing.evidence is not None)
        self._mark()
        self.after = self.after._replace(is_known=True)
        if standing.evidence is not None and standing.again_in is None:
            self._end(end_by(standing, self._at), "live")
            return standing, None
        self._tell_of_data()
        return standing, standing.again_in

    def _tell_of_data(self) -> None:
        """Report that the data of a running attempt changed."""
        known, data = self.followed, self._told.data
        if data is None or data == known.data:
            return
        self.after = self.after._replace(data=data)
        # The start and the end of an attempt read the data, too, so a change next to one of them needs no event.
        if known.phase == "open" and self.after.attempt == known.attempt and known.data_told < MOST_TOLD:
            self.events.append(PlayChanged(self._key, known.attempt, self._moment, data))
            self.after = self.after._replace(data_told=known.data_told + 1)

    def _has_begun(self) -> bool:
        """Whether there is an attempt to judge. One that began since the last look is due to be reported."""
        report, after = self._told, self.after
        if after.due_at is not None:
            return True
        if after.phase == "none":
            if report.turn == "none":
                return False
            began_at = report.started_at
            self.after = after._replace(due_at=self._at if began_at is None else began_at)
        elif after.phase == "over" and self._goes_on():
            self.after = after._replace(due_at=self._went_on_at(report.started_at, self._at))
            self._left_behind()
        return True

    def _end_of_history(self, standing: Standing) -> End | None:
        if not self._may_be_history():
            return None
        return end_before(self._told, standing, self._at, self._rule.first_seen_at)

    def _record(self, due_at: float, end: End, standing: Standing) -> tuple[Standing, float | None]:
        """A historic attempt is reported as a whole, once its end can be believed."""
        if standing.again_in is not None:
            return standing, standing.again_in
        self._whole(due_at, end)
        self._mark()
        self.after = self.after._replace(is_known=True)
        return ended(standing, end), None

    def _over(self, standing: Standing) -> tuple[Standing | None, float | None]:
        """An attempt that was over still is, unless its files now say better how it ended."""
        close = self._told.close
        if standing.evidence is None:
            return None, None
        if close is None or not self._is_corrected(close):
            return standing, None
        if standing.again_in is not None:
            return standing, standing.again_in
        end = end_by(standing, self._at)
        self._whole(end.at, end)
        self._mark()
        return standing, None

    def _until_it_names_its_directory(self) -> float:
        """The seconds for which a session is not reported that began, but hasn't yet said where its agent works."""
        report, after = self._told, self.after
        is_new = after.phase == "none" and after.due_at is None and report.turn != "none"
        if not (is_new and self._rule.names_directory and report.cwd is None):
            return 0.0
        return self._rule.settle - self._since(self._at)

    def _goes_on(self) -> bool:
        """Whether the files say that the session continued after its attempt's end."""
        report, after = self._told, self.after
        if report.turns > after.turns or (report.turn == "open" and after.turn == "closed"):
            return True
        if report.counts.events <= after.events:
            return False
        # A dead process writes nothing: so it was not dead, or another one continues. Records without a time, such as a
        # title, are also written to a dead session.
        is_taken_back = after.ended_by == "process_gone" and (
            report.moved_at is None or report.moved_at != after.moved_at
        )
        # Nobody saw the end of a session that was only silent, or whose files were missing. Any further record shows
        # that it goes on.
        return _is_presumed(after) or is_taken_back

    def _went_on_at(self, began_at: float | None, otherwise: float) -> float:
        """When an attempt began: not before the end of the one that it follows."""
        ended_at = self.after.ended_at
        # Attempts don't overlap, whatever the times in the files say.
        if began_at is None or (ended_at is not None and began_at <= ended_at):
            return otherwise
        return began_at

    def _is_corrected(self, close: Close) -> bool:
        after = self.after
        # An attempt ends once, by evidence. Only stronger evidence corrects it, with an attempt of its own.
        if after.ended_by is None or EVIDENCE_STRENGTH[after.ended_by] >= EVIDENCE_STRENGTH["declared"]:
            return False
        return after.close is None or after.close._replace(at=None) != close._replace(at=None)

    def _standing(self) -> Standing:
        """The session's state; what is known about its process is remembered."""
        rule = self._rule
        liveness, gone_since = self._liveness()
        since = [at for at in (self._changed_at, gone_since) if at is not None]
        quiet_s = min((self._since(at) for at in since), default=0.0)
        standing = judge(
            report=self._told,
            liveness=liveness,
            names_process=rule.names_process,
            quiet_s=quiet_s,
            stale_after=rule.stale_after,
            status=self._writer.status,
            settle=rule.settle,
            start_within=rule.start_within,
            left=self._writer.left,
        )
        return standing if standing.evidence != "process_gone" else self._bounded(standing, gone_since)

    def _bounded(self, standing: Standing, gone_since: float | None) -> Standing:
        """An end by a process that is gone: after the last moment at which that was known to be alive."""
        known = [at for at in (standing.ended_at, self.after.alive_at) if at is not None]
        if gone_since is not None:
            known = [min(at, gone_since) for at in known]
        return standing._replace(ended_at=max(known, default=None), gone_by=gone_since)

    def _since(self, at: float) -> float:
        """The seconds since a time."""
        # Where the clock was set back, a time lies in the future. Then the silence counts as long enough, or a session
        # would stay open until the clock has caught up.
        return (
            self._moment - at if at <= self._moment else min(at - self._moment, max(GRACE, self._rule.settle))
        )

    def _liveness(self) -> tuple[ProcessState, float | None]:
        """What is known about the current attempt's process, and when it ended."""
        report, writer, after = self._told, self._writer, self.after
        is_former = writer.process is not None and writer.process == after.former
        if writer.liveness == "gone" and not is_former:
            if after.phase == "over" and after.due_at is None:
                return "gone", None
            since = after.gone_since
            since = self._moment if since is None or self._moment < since else since
            self.after = after._replace(gone_since=since)
            return "gone", since
        self.after = after._replace(gone_since=None)
        if writer.liveness == "alive":
            return "alive", None
        booted_at, changed_at = self._rule.booted_at, self._changed_at
        # Nothing was written since this machine started. So the process that wrote it is gone, even if none is known.
        is_old = booted_at is not None and changed_at is not None and changed_at < booted_at
        # A session that waits for a person needs no process, if its tool names none.
        rests = report.waiting and not self._rule.names_process
        return ("gone", booted_at) if is_old and not rests else ("unknown", None)

    def _left_behind(self) -> None:
        """Another attempt began: a process that was known before, and has ended, does not belong to it.

        The exception: it came after the last end, or that end was only presumed. Then it may have written what came
        next.
        """
        writer, known = self._writer, self.followed.process
        self.after = self.after._replace(gone_since=None)
        # A process that is gone did not write the lines of the next attempt. So it is no longer asked for: a session
        # with a living process is never ended because another process died.
        is_former = writer.liveness == "gone" and known is not None and writer.process == known
        if is_former and not self.followed.is_successor and not _is_presumed(self.followed):
            self.after = self.after._replace(process=None, former=known)

    def _may_be_history(self) -> bool:
        return self._rule.records_history and not self.after.is_known

    def _whole(self, started_at: float, end: End) -> None:
        """An attempt that began and ended before it could be reported."""
        origin: Origin = "live"
        # Each attempt that ended before the root was first seen is history, and not only the first one.
        if self._may_be_history() and end.at < self._rule.first_seen_at:
            origin = "history"
        self._start(started_at, seen_over=True, origin=origin)
        self._end(end, origin)

    def _start(self, at: float, *, seen_over: bool, origin: Origin = "live") -> None:
        attempt = self.after.attempt + 1
        declaration = self._declaration if attempt == 1 else None
        before = self.after.lines if attempt > 1 else None
        self.events.append(
            AttemptStarted(
                session_key=self._key,
                attempt=attempt,
                at=at,
                declaration=declaration,
                origin=origin,
                seen_over=seen_over,
                log_before=before,
            )
        )
        self.after = self.after._replace(
            phase="open",
            attempt=attempt,
            ended_by=None,
            vanished=False,
            due_at=None,
            before=self.after.turns if attempt > 1 or self.after.turns else -1,
            ended_at=None,
            is_successor=False,
            is_known=self.after.is_known or origin == "live",
        )

    def _end(self, end: End, origin: Origin) -> None:
        close = end.close
        self.events.append(
            AttemptEnded(
                session_key=self._key,
                attempt=self.after.attempt,
                at=end.at,
                evidence=end.evidence,
                status=close.status,
                reason_code=close.reason_code,
                reason_summary=close.reason_summary,
                origin=origin,
                gone_by=end.gone_by,
            )
        )
        self.after = self.after._replace(
            phase="over", ended_by=end.evidence, ended_at=end.at, gone_since=None
        )

    def _mark(self) -> None:
        """Remember what the files say. What they say later is compared with it."""
        report = self._told
        self.after = self.after._replace(
            turns=report.turns,
            turn=report.turn,
            close=report.close,
            events=report.counts.events,
            moved_at=report.moved_at,
        )


def _is_presumed(followed: Followed) -> bool:
    """Whether the last attempt's end is one that neither its files nor its process reported."""
    return followed.vanished or followed.ended_by in ("deadline", "quiet")


def lose(followed: Followed, key: str, now: float) -> Follow:
    """A session's file or directory has vanished, while its root exists and can be read."""
    if followed.phase != "open":
        return Follow(followed, (), None, None)
    since = followed.lost_since
    # A file that is moved is missing for a moment. So its absence counts only after a while.
    if since is None or now < since:
        return Follow(followed._replace(lost_since=now), (), None, GRACE)
    if now - since < GRACE:
        return Follow(followed, (), None, GRACE - (now - since))
    ended = end_of_gone(
        key, followed.attempt, since, "run.aborted.vanished", "its files vanished while it ran"
    )
    after = followed._replace(
        phase="over",
        ended_by="process_gone",
        ended_at=since,
        vanished=True,
        gone_since=None,
        lost_since=None,
        lines=None,
    )
    return Follow(after, (ended,), None, None)
