"""Over or not: what follows from what a session's files say and from what the machine says about its process.

Pure, and without memory: callers that wait ask again when `again_in` has passed or something has changed.
`runward inspect` takes the answer as it is.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.handlers.layouts.transcript import Close, Told
from runward.handlers.model.processes import (
    NO_TICKS,
    ProcessState,
    RecordedProcess,
    Whereabouts,
)
from runward.handlers.model.reasons import UnknownCode
from runward.handlers.model.sessions import Evidence
from runward.handlers.sessions.standing import (
    NEVER_STARTED,
    NO_PROCESS,
    OPEN_TURN,
    PROCESS_GONE,
    Activity,
    Standing,
)


class Absence(NamedTuple):
    """What this machine can say about the processes that a session's files name, none of which it finds.

    `named` is empty if the files name none, like a lock that nobody holds. `is_in_first_namespace`: all processes of the
    machine have a number here. `is_local`: only this machine's kernel writes the file system with the files.
    `is_nowhere`: no process of the machine has that start with that number in any namespace.
    """

    named: "tuple[RecordedProcess, ...]"
    is_in_first_namespace: bool
    is_local: bool
    is_nowhere: bool

    def proves_death(self, *, grew_elsewhere: bool) -> bool:
        """Whether nobody else can be writing. `grew_elsewhere`: a session in that home grew without a process here."""
        # Each of these excludes another place in which the process may live: outside of our namespace, on another
        # machine with the same file system, in a namespace below ours, or where a log in this home still grows.
        return self.is_in_first_namespace and self.is_local and self.is_nowhere and not grew_elsewhere

    def is_about(self, known: "Sequence[RecordedProcess]") -> bool:
        """Whether each process that the files name is one of these."""
        return all(any(is_same(each, process) for process in known) for each in self.named)


def is_same(named: "RecordedProcess", known: "RecordedProcess") -> bool:
    """Whether a file names this process: maybe by its number in another namespace, and without its boot."""
    if named.start_ticks == NO_TICKS:
        return named.pid == known.pid
    return named.start_ticks == known.start_ticks


WriterStatus: TypeAlias = Literal["busy", "idle", "waiting"]
"""What a program says about itself apart from its transcript; `waiting` is for a person."""


class Writer(NamedTuple):
    """The process that writes a session: whether it is alive, what it says about itself, and its identity if known.

    `process` is the one that `liveness` is about. Without one, that is the process that writes the files now.
    `absence`: the tool's own files name processes, or have a lock, and this machine finds none of them. Whether `gone`
    is then certain is for `death` to say. `seen_in` is where that process was alive, or was named by a hook, if that is
    known. `elsewhere` are processes that the tool's own files name for its other sessions. `left`: it is gone from this
    session because it went on with another one. `asks` is what it waits for, in the tool's words.
    """

    liveness: ProcessState
    status: WriterStatus | None = None
    process: RecordedProcess | None = None
    absence: Absence | None = None
    seen_in: Whereabouts | None = None
    elsewhere: frozenset[RecordedProcess] = frozenset()
    left: bool = False
    asks: str | None = None


WriterOf: TypeAlias = Callable[[str, str, str], Writer]
"""What is known now of the process that writes a session: by its layout, the path of its log or directory, and its id."""


SETTLE: Final = 2.0
"""Seconds for which a growing file must be quiet before an end in it counts: agents write their last lines late."""

GRACE: Final = 5.0
"""Seconds between seeing a process gone and an end because of that."""

_MOMENT: Final = 1e-5
"""A negligible number of seconds: anything much smaller is lost when it is added to a present-day time."""

_Turn: TypeAlias = Literal["open", "closed well", "closed badly"]
_Verdict: TypeAlias = Literal["goes on", "is idle", "is over", "was left", "was killed", "is unknown"]


class Row(NamedTuple):
    """What follows for a turn, given who runs the session (None: not known), and its process."""

    turns: tuple[_Turn, ...]
    headless: tuple[bool | None, ...]
    processes: tuple[ProcessState, ...]
    verdict: _Verdict


_OPEN: Final[tuple[_Turn, ...]] = ("open",)
_CLOSED: Final[tuple[_Turn, ...]] = ("closed well", "closed badly")
_ANYBODY: Final = (True, False, None)
_PERHAPS_A_PERSON: Final = (False, None)

ROWS: Final = (
    Row(_OPEN, _ANYBODY, ("alive",), "goes on"),
    Row(_OPEN, _ANYBODY, ("gone",), "was killed"),
    Row(_OPEN, _ANYBODY, ("unknown",), "is unknown"),
    Row(_CLOSED, (True,), ("alive", "gone", "unknown"), "is over"),
    Row(_CLOSED, _PERHAPS_A_PERSON, ("alive",), "is idle"),
    Row(_CLOSED, _PERHAPS_A_PERSON, ("gone",), "was left"),
    Row(("closed well",), (False,), ("unknown",), "is unknown"),
    Row(("closed well",), (None,), ("unknown",), "is over"),
    Row(("closed badly",), _PERHAPS_A_PERSON, ("unknown",), "is over"),
)
"""Every case once. An end that was declared in a file written whole takes precedence over all of them."""


def judge(
    report: Told,
    liveness: ProcessState,
    names_process: bool,
    quiet_s: float,
    stale_after: float | None = None,
    status: WriterStatus | None = None,
    settle: float = SETTLE,
    start_within: float | None = None,
    left: bool = False,
) -> Standing:
    """The state of the session whose files say this.

    `names_process`: its layout is one that names its process. `quiet_s`: seconds since anything changed, in its files
    or in what is known about its process. `stale_after`: the silence that ends a session whose end can't be detected,
    if the root sets it. `start_within`: the same, for a session that began without a line in its log yet. `status`:
    what a living process says about itself, because a turn that looks open may wait for a person or a prompt, and a
    process that says `idle` after a closed one waits for the next, no matter what drives it. `left`: it went on with another
    session."""
    # Such an end was renamed into place, so no further line can follow. It takes precedence over everything else.
    if report.close is not None and report.declared:
        return _over(report, report.close, "declared", None)
    quiet_s = max(0.0, quiet_s)
    # A program that feeds it prompts may drive it. But a process that says `idle` waits for the next prompt.
    rests = liveness == "alive" and status == "idle"
    match _verdict(report, report.headless and not rests, liveness):
        case "goes on":
            return _running(report, _activity(status) if report.turn == "open" else "idle")
        case "is idle":
            return _running(report, "idle")
        case "is over":
            assert report.close is not None, "the table"
            return _over(report, report.close, "declared", _rest(settle, quiet_s))
        case "was left":
            assert report.close is not None, "the table"
            return _over(report, report.close, "process_gone", _rest(GRACE, quiet_s))
        case "was killed":
            return _killed(report, _rest(GRACE, quiet_s), left=left)
        case "is unknown":
            silence = _Silence(quiet_s, stale_after, start_within)
            return silence.ends(report) or _untold(report, names_process, silence.again_in(report))


def _verdict(report: Told, headless: bool | None, liveness: ProcessState) -> _Verdict:
    turn: _Turn = "open"
    if report.turn == "closed" and report.close is not None:
        turn = "closed well" if report.close.status == "completed" else "closed badly"
    for row in ROWS:
        if turn in row.turns and headless in row.headless and liveness in row.processes:
            return row.verdict
    raise AssertionError("the table has every case")


def _rest(wanted: float, quiet_s: float) -> float | None:
    rest = wanted - quiet_s
    # Anything smaller is lost when it is added to the present time: the look would come again and again at the same
    # moment.
    return rest if rest > _MOMENT else None


def _activity(status: WriterStatus | None) -> Activity:
    return "active" if status is None or status == "busy" else status


def _running(report: Told, activity: Activity) -> Standing:
    standing = Standing(
        "running", None, "run.started.ok", "it runs", activity="waiting" if report.waiting else activity
    )
    if report.attempt > 1:
        return standing._replace(reason_code="run.started.resumed", reason_summary="it was resumed")
    return standing


def _over(report: Told, close: Close, evidence: Evidence, again_in: float | None) -> Standing:
    at, moved = close.at, report.moved_at
    ended_at = at if moved is None or (at is not None and evidence == "declared") else moved
    return Standing(
        close.status, evidence, close.reason_code, close.reason_summary, ended_at, again_in=again_in
    )


def _killed(report: Told, again_in: float | None, *, left: bool) -> Standing:
    summary = (
        "its process went on with another session" if left else "its process ended without reporting why"
    )
    return Standing("aborted", "process_gone", PROCESS_GONE, summary, report.moved_at, again_in=again_in)


class _Silence(NamedTuple):
    """How long a session whose end can't be detected has been silent, and what its root says about that."""

    quiet_s: float
    stale_after: float | None
    start_within: float | None

    def ends(self, report: Told) -> Standing | None:
        """The end that follows by now, if any."""
        if self._waits_for_a_line(report) and self._is_over(self.start_within):
            summary = f"it began and wrote no line within {self.start_within:.0f} s"
            return Standing("aborted", "deadline", NEVER_STARTED, summary, report.moved_at)
        if self._is_over(self.stale_after):
            summary = f"nothing was heard of it for {self.quiet_s:.0f} s"
            return Standing("aborted", "quiet", "run.aborted.stale", summary, report.moved_at)
        return None

    def again_in(self, report: Told) -> float | None:
        """The seconds until an end would follow."""
        limits = [self.stale_after, self.start_within if self._waits_for_a_line(report) else None]
        return min((limit - self.quiet_s for limit in limits if limit is not None), default=None)

    def _is_over(self, limit: float | None) -> bool:
        return limit is not None and _rest(limit, self.quiet_s) is None

    def _waits_for_a_line(self, report: Told) -> bool:
        return report.turn == "open" and not report.waiting and report.counts.events == 0


def _untold(report: Told, names_process: bool, again_in: float | None) -> Standing:
    if report.waiting and report.turn == "open" and not names_process:
        # Its files say that it waits for a person: no process need be there.
        return _running(report, "waiting")._replace(again_in=again_in)
    activity: Activity | None = "waiting" if report.waiting else None
    if report.turn == "closed" and report.close is not None:
        summary = "its turn is closed, and it is not known whether its process is still there"
        return Standing("unknown", None, NO_PROCESS, summary, activity=activity, again_in=again_in)
    code: UnknownCode = OPEN_TURN if names_process else NO_PROCESS
    summary = "its turn is open, and it is not known whether its process is still there"
    return Standing("unknown", None, code, summary, activity=activity, again_in=again_in)


LONG_QUIET: Final = 86_400.0
"""Seconds without a change before a root was first seen, after which an undecidable session is history."""

_DAY: Final = 86_400.0


class End(NamedTuple):
    """An attempt's end: when (Unix seconds), by what evidence, and how. `gone_by` as in `Standing`."""

    at: float
    evidence: Evidence
    close: Close
    gone_by: float | None = None


def end_by(standing: Standing, otherwise: float) -> End:
    """The end of a session in this state. `otherwise` is when it ended, if its files don't say so."""
    state = standing.state
    assert state != "unknown", "what has evidence has ended"
    assert standing.evidence is not None, "asked for only then"
    code = standing.reason_code
    assert code != OPEN_TURN, "likewise"
    assert code != NO_PROCESS, "likewise"
    at = otherwise if standing.ended_at is None else standing.ended_at
    return End(at, standing.evidence, Close(state, code, standing.reason_summary), standing.gone_by)


def end_before(report: Told, standing: Standing, changed_at: float, first_seen_at: float) -> End | None:
    """How a session ended before `first_seen_at`. None for one that still runs, or ended later.

    `changed_at` is when its files changed last.
    """
    if standing.evidence is not None:
        end = end_by(standing, changed_at)
        return end if end.at < first_seen_at else None
    quiet_s = first_seen_at - changed_at
    if standing.state != "unknown" or quiet_s <= LONG_QUIET:
        return None
    at, close = changed_at if report.moved_at is None else report.moved_at, report.close
    if report.turn == "closed" and close is not None:
        return End(at if close.at is None else close.at, "quiet", close)
    summary = f"nothing had been heard of it for {quiet_s / _DAY:.0f} days when its root was first seen"
    return End(at, "quiet", Close("aborted", "run.aborted.stale", summary))


def ended(standing: Standing, end: End) -> Standing:
    """The state of a session that ended this way."""
    close = end.close
    return standing._replace(
        state=close.status,
        evidence=end.evidence,
        reason_code=close.reason_code,
        reason_summary=close.reason_summary,
        ended_at=end.at,
        activity=None,
        again_in=None,
    )
