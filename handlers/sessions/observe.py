"""Observing: from what a look found to the events that follow from it.

The daemon remembers a `Watched` for each run directory, stored with the events in one transaction.
`see` draws conclusions from the files, `weigh` from the machine (is the recorded process there?).
Both are pure; the same history of looks gives the same events under the same keys.

An attempt ends once. A declared end that comes after weaker evidence opens and ends the next
attempt, as a correction. A directory that was made again, or came back, opens the next one too.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from runward.config.short_hash import sha256_hex
from runward.handlers.layouts.native import PROCESS, Ended, Item, Planned, ProcessNamed, Started
from runward.handlers.model.files import Signature
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.processes import ProcessState, RecordedProcess, Whereabouts
from runward.handlers.model.sessions import (
    EVIDENCE_STRENGTH,
    AttemptEnded,
    AttemptStarted,
    Complaint,
    Evidence,
    Launch,
    Origin,
)
from runward.handlers.model.stored import Stored, as_json
from runward.handlers.sessions.stored_fields import TRACED_SIZE, WATCHED

Phase: TypeAlias = Literal["none", "open", "over"]

GRACE: Final = 5.0
"""Seconds between seeing a process gone and believing it: agents write their last files late."""

STATE_VERSION: Final = 1


MOST_PLANS: Final = 8
"""Different plans of one session that are recorded; only one can count."""


MOST_ATTEMPTS: Final = 1000
"""Attempts of one run directory that are recorded: each costs the store and the journals a few rows and lines."""


MOST_FILLED: Final = 16 << 10
"""The number of characters of directory names that are remembered of a flow without a plan."""


NOT_THE_LAUNCHERS: Final = "was not written by the launcher of this run, so it ends nothing"


class Unplanned(NamedTuple):
    """A run that says it is a flow: where its artifacts are, and the directories in there that held something when
    there was no plan yet.
    """

    artifacts: str
    filled: tuple[str, ...] = ()


class TraceRead(NamedTuple):
    """How much of a run's trace belongs to the attempts that are over: the file's inode, and bytes. Both are 0 if there
    is no trace.
    """

    inode: int = 0
    size: int = 0


class Watched(NamedTuple):
    """What is remembered of a run directory between looks.

    `signatures` are those of the documents as last read, `gone_since` is the time (Unix seconds) at which its
    process was first seen gone, `complaints` what is wrong with its files now, `plans` the digests of its plans.
    `sealed` says that the launcher itself declared the end. `traced` is how much of the trace belongs to the attempts
    that are over; None if that is not known. `seen_in` says where its processes were seen alive. Commands read
    single fields of it (`stored_fields.py`).
    """

    signatures: tuple[tuple[str, Signature], ...] = ()
    phase: Phase = "none"
    attempt: int = 0
    start_digest: str = ""
    end_file: str = ""
    end_digest: str = ""
    ended_by: Evidence | None = None
    vanished: bool = False
    launcher: RecordedProcess | None = None
    process: RecordedProcess | None = None
    host: str | None = None
    gone_since: float | None = None
    complaints: tuple[Complaint, ...] = ()
    plans: tuple[str, ...] = ()
    unplanned: Unplanned | None = None
    sealed: bool = False
    version: int = STATE_VERSION
    traced: TraceRead | None = None
    seen_in: Whereabouts | None = None


assert {name: f"$[{Watched._fields.index(name)}]" for name in WATCHED} == WATCHED
assert f"{WATCHED['traced']}[{TraceRead._fields.index('size')}]" == TRACED_SIZE

NEVER_SEEN: Final = Watched()


class RootRule(NamedTuple):
    """What a root's settings say about the runs inside it.

    With `records_history`, what ended before `first_seen_at` (Unix seconds) is only recorded.
    """

    records_history: bool
    first_seen_at: float


Seen: TypeAlias = AttemptStarted | FlowPlanned | AttemptEnded
Observed: TypeAlias = tuple[Watched, tuple[Seen, ...]]


def see(
    watched: Watched,
    key: str,
    rule: RootRule,
    signatures: tuple[tuple[str, Signature], ...],
    items: Sequence[Item],
    launch: Launch | None = None,
) -> Observed:
    """Fold what the files say into what is remembered, and name the events that follow.

    What the launcher of the run recorded, `launch`, takes precedence over what the run's files say.
    """
    events: list[Seen] = []
    complaints = _standing(watched, signatures)
    after = watched
    end = next((item for item in items if isinstance(item, Ended)), None)
    for item in items:
        match item:
            case Started() if watched.phase == "over" and _still_ended(watched, signatures, items):
                if item.digest != watched.start_digest:
                    # About to be used again, or only touched: read it again until the old end has been removed.
                    signatures = tuple(each for each in signatures if each[0] != item.file)
            case Started():
                after = _started(
                    watched=after,
                    key=key,
                    rule=rule,
                    item=item,
                    end=end,
                    events=events,
                    complaints=complaints,
                    launch=launch,
                )
            # The launcher's record names the process for good: a run may write any other number into its files.
            case ProcessNamed(process=process) if launch is None:
                known = after.seen_in if after.process in (None, process) else None
                after = after._replace(process=process, gone_since=None, seen_in=known)
            case Planned():
                after = _planned(
                    watched=after, key=key, item=item, end=end, events=events, complaints=complaints
                )
            case Ended():
                after = _ended(
                    watched=after, key=key, item=item, events=events, complaints=complaints, launch=launch
                )
            case Complaint():
                complaints.append(item)
            case _:
                pass  # the launcher named the process
    if after.phase == "none":
        # Nothing began yet, so nothing is settled: everything is read again at the next look.
        signatures = ()
    return after._replace(signatures=signatures, complaints=tuple(complaints)), tuple(events)


def _still_ended(
    watched: Watched, signatures: tuple[tuple[str, Signature], ...], items: Sequence[Item]
) -> bool:
    """Whether the evidence of the end is unchanged: the file that ended the attempt, or that of its process."""
    before, now = dict(watched.signatures), dict(signatures)
    if watched.end_file:
        if watched.end_file in now and before.get(watched.end_file) == now[watched.end_file]:
            return True
        return any(isinstance(item, Ended) and item.digest == watched.end_digest for item in items)
    if watched.vanished or watched.process is None:
        return False
    named = [item.process for item in items if isinstance(item, ProcessNamed)]
    if named:
        return named[-1] == watched.process
    return PROCESS in now and before.get(PROCESS) == now[PROCESS]


def _standing(watched: Watched, signatures: tuple[tuple[str, Signature], ...]) -> list[Complaint]:
    """The complaints about files that are still the same."""
    if not watched.complaints:
        return []
    before, now = dict(watched.signatures), dict(signatures)
    return [
        each for each in watched.complaints if each.file in now and before.get(each.file) == now[each.file]
    ]


def _started(
    watched: Watched,
    key: str,
    rule: RootRule,
    item: Started,
    end: Ended | None,
    events: list[Seen],
    complaints: list[Complaint],
    launch: Launch | None,
) -> Watched:
    # The same bytes are the same run. Only a directory that came back after it vanished begins again with them.
    again = watched.phase == "over" and (watched.vanished or item.digest != watched.start_digest)
    if watched.phase != "none" and not again:
        return watched._replace(start_digest=item.digest)
    # A run that rewrites its files over and over must not fill the store.
    if watched.attempt >= MOST_ATTEMPTS:
        complaints.append(
            Complaint(
                item.file,
                None,
                f"began again, and {MOST_ATTEMPTS} attempts of one directory are recorded at most",
                "give each run a directory of its own",
            )
        )
        return watched
    attempt = watched.attempt + 1
    origin: Origin = "live"
    if attempt == 1 and rule.records_history and end is not None and end.at < rule.first_seen_at:
        origin = "history"
    events.append(
        AttemptStarted(
            session_key=key,
            attempt=attempt,
            at=item.at,
            declaration=item.declaration if attempt == 1 else None,
            origin=origin,
            seen_over=end is not None,
        )
    )
    return watched._replace(
        phase="open",
        attempt=attempt,
        start_digest=item.digest,
        end_file="",
        end_digest="",
        ended_by=None,
        vanished=False,
        sealed=False,
        launcher=launch.launcher if launch is not None else item.launcher,
        process=launch.process if launch is not None else None,  # the process that it names is read after it
        host=item.host,
        seen_in=None,
        gone_since=None,
        unplanned=Unplanned(item.declaration.artifacts_path) if item.declaration.kind == "flow" else None,
    )


def _planned(
    watched: Watched,
    key: str,
    item: Planned,
    end: Ended | None,
    events: list[Seen],
    complaints: list[Complaint],
) -> Watched:
    if watched.phase == "none" or item.digest in watched.plans:
        return watched  # nothing that it could be the plan of, or only touched
    # Only one plan can count, so refusing further ones loses nothing, and each would be an event.
    if len(watched.plans) >= MOST_PLANS:
        complaints.append(
            Complaint(item.file, None, "was rewritten too many times", "plan once, before any leg runs")
        )
        return watched
    events.append(
        FlowPlanned(
            session_key=key,
            attempt=watched.attempt,
            at=item.at,
            digest=item.digest,
            legs=item.legs,
            modified_ns=item.modified_ns,
            changed_ns=item.changed_ns,
            filled=watched.unplanned.filled if watched.unplanned is not None else (),
            seen_over=end is not None,
        )
    )
    return watched._replace(plans=(*watched.plans, item.digest))


def without_plan(watched: Watched, filled: Sequence[str]) -> Watched:
    """Remember these directories of a flow's artifacts, which held something when there was no plan."""
    assert watched.unplanned is not None
    kept = watched.unplanned.filled
    room = MOST_FILLED - sum(map(len, kept))
    for name in filled:
        # An agent may make any number of directories, and all of this is stored with the directory.
        if name not in kept and len(name) <= room:
            room -= len(name)
            kept = (*kept, name)
    return watched._replace(unplanned=watched.unplanned._replace(filled=kept))


def _ended(
    watched: Watched,
    key: str,
    item: Ended,
    events: list[Seen],
    complaints: list[Complaint],
    launch: Launch | None,
) -> Watched:
    attempt = watched.attempt
    if watched.phase == "none":
        return watched  # an end without a valid run.json: there is nothing to hold to anything
    # Only the launcher knows the secret whose hash it recorded. An `exit.json` that a command of the run wrote itself
    # lacks it.
    sealed = launch is not None and _reveals(item, launch)
    if launch is not None and not sealed:
        complaints.append(Complaint(item.file, None, NOT_THE_LAUNCHERS, "leave it to the launcher"))
        return watched
    if watched.phase == "over":
        assert watched.ended_by is not None
        # A declared end corrects a weaker one, such as a process that was found gone. And the launcher's own end
        # corrects a forged one that was believed because the launcher's record had been removed.
        is_final = EVIDENCE_STRENGTH[watched.ended_by] >= EVIDENCE_STRENGTH["declared"]
        if is_final and (watched.sealed or not sealed):
            if item.digest != watched.end_digest:
                complaints.append(
                    Complaint(item.file, None, "was written again after the end", "start a new run instead")
                )
            return watched
        # An attempt ends once. The correction therefore opens and ends the next one.
        attempt += 1
        events.append(AttemptStarted(key, attempt, item.at, None, "live", seen_over=True))
    events.append(_declared_end(key, attempt, item, _origin_of(attempt, events)))
    return watched._replace(
        phase="over",
        attempt=attempt,
        ended_by="declared",
        end_file=item.file,
        end_digest=item.digest,
        vanished=False,
        gone_since=None,
        sealed=sealed,
    )


def corrected(watched: Watched, key: str, item: Ended) -> Observed:
    """A file that the verdict on a declared end lacked has arrived: a further attempt, with the same end, is judged."""
    # What a launcher started is not a copy: when its launcher says that it ended, all that it left is there.
    if watched.phase != "over" or watched.ended_by != "declared" or watched.sealed:
        return watched, ()
    # The end is the same file as before. Another one is seen as an end of its own.
    if item.digest != watched.end_digest or watched.attempt >= MOST_ATTEMPTS:
        return watched, ()
    attempt = watched.attempt + 1
    started = AttemptStarted(key, attempt, item.at, None, "live", seen_over=True)
    return watched._replace(attempt=attempt), (started, _declared_end(key, attempt, item, "live"))


def _reveals(item: Ended, launch: Launch) -> bool:
    """Whether the end contains what only the launcher could know."""
    secret = (item.secret or "").encode(errors="replace")
    return sha256_hex(secret) == launch.seal


def _declared_end(key: str, attempt: int, item: Ended, origin: Origin) -> AttemptEnded:
    return AttemptEnded(
        session_key=key,
        attempt=attempt,
        at=item.at,
        evidence="declared",
        status=item.status,
        reason_code=item.reason_code,
        reason_summary=item.reason_summary,
        source=item.declared_by,
        exit_code=item.exit_code,
        signal=item.signal,
        origin=origin,
    )


def _origin_of(attempt: int, events: Sequence[Seen]) -> Origin:
    """History begins and ends in one look."""
    for event in events:
        if isinstance(event, AttemptStarted) and event.attempt == attempt:
            return event.origin
    return "live"


def end_of_gone(key: str, attempt: int, at: float, reason_code: str, reason_summary: str) -> AttemptEnded:
    """The end of an attempt that reported none, and whose process or place is gone."""
    return AttemptEnded(
        session_key=key,
        attempt=attempt,
        at=at,
        evidence="process_gone",
        status="aborted",
        reason_code=reason_code,
        reason_summary=reason_summary,
    )


def vanish(watched: Watched, key: str, now: float) -> Observed:
    """The run's directory has vanished, while its root exists and can be read."""
    # Nothing was recorded about it, so nothing is remembered either.
    if watched.phase == "none":
        return NEVER_SEEN, ()
    if watched.phase == "over":
        # What may yet correct a weak end is read again when it is back; a declared end stays known by its file.
        kept = watched.signatures if watched.ended_by == "declared" else ()
        return watched._replace(signatures=kept, complaints=()), ()
    ended = end_of_gone(
        key, watched.attempt, now, "run.aborted.vanished", "its directory vanished while it ran"
    )
    return watched._replace(
        signatures=(),
        phase="over",
        ended_by="process_gone",
        vanished=True,
        gone_since=None,
        complaints=(),
    ), (ended,)


def weigh(
    watched: Watched,
    key: str,
    state: ProcessState,
    now: float,
    here: Whereabouts | None = None,
    alive_at: float | None = None,
) -> Observed:
    """Compare an open attempt with the state of its recorded processes.

    `here` is where they were looked for, `alive_at` (Unix seconds) the last moment at which one is known to have been
    alive.
    """
    if state == "alive" and watched.phase == "open":
        watched = watched._replace(seen_in=here)
    if watched.phase != "open" or state != "gone":
        return (watched._replace(gone_since=None) if watched.gone_since is not None else watched), ()
    # If the clock was set back, the grace begins anew: it can't be told how much of it has passed.
    if watched.gone_since is None or now < watched.gone_since:
        return watched._replace(gone_since=now), ()
    if now - watched.gone_since < GRACE:
        return watched, ()
    # A run can give its files any time, and they count for when it was last alive. So that is at most when it was
    # missed.
    at = watched.gone_since if alive_at is None else min(alive_at, watched.gone_since)
    why = "its process ended without reporting why"
    ended = end_of_gone(key, watched.attempt, at, "run.aborted.process_gone", why)
    if alive_at is not None:
        ended = replace(ended, gone_by=watched.gone_since)
    return watched._replace(phase="over", ended_by="process_gone", gone_since=None), (ended,)


def divided(
    watched: Watched, after: Watched, events: Sequence[Seen], trace: TraceRead, *, is_settled: bool
) -> Observed:
    """The result of a look, with how much of the trace, which is so long now, belongs to which attempt.

    Unless it `is_settled`, the next attempt may have begun to write since the look found the end.
    """
    divided_events = tuple(_beginning(each, watched.traced, trace) for each in events)
    if any(isinstance(each, AttemptEnded) for each in events):
        is_gone = after.vanished
        after = after._replace(traced=trace if is_settled and not is_gone else None)
    return after, divided_events


def _beginning(event: Seen, traced: TraceRead | None, trace: TraceRead) -> Seen:
    if not isinstance(event, AttemptStarted) or event.attempt == 1 or traced is None:
        return event
    if trace.inode != traced.inode:
        return replace(event, log_before=0)
    # A shorter file was emptied and written anew, or a power cut removed its end: the two look alike.
    return event if trace.size < traced.size else replace(event, log_before=traced.size)


def together(states: Sequence[ProcessState]) -> ProcessState:
    """What is known about a run from its recorded processes: a living one keeps it going."""
    # A process that can't be seen may live, so without a living one nothing is known.
    if not states or "unknown" in states:
        return "alive" if "alive" in states else "unknown"
    return "alive" if "alive" in states else "gone"


_STORED: Final = Stored(Watched)


def dump_watched(watched: Watched) -> str:
    """What is remembered, as JSON text for the store."""
    return as_json(watched)


def load_watched(text: str) -> Watched:
    """The stored value. Raises `ValueError` if no version of Runward can have written it."""
    return _STORED.load(text)


def read_watched(text: str) -> Watched | None:
    """What was stored. None if that can no longer be read: its directory is then looked at again."""
    try:
        return load_watched(text)
    except ValueError:
        return None


def forgotten(attempt: int) -> Watched:
    """The starting point if the record has this many attempts of a run (0: none) and nothing else is remembered.

    What its files say then opens and ends the last of them again, under keys that are already recorded.
    """
    return NEVER_SEEN._replace(attempt=max(0, attempt - 1))
