"""From an event to the handlers that owe it something: the first page to read.

| event                 | handler           | what it decides                                    |
| --------------------- | ----------------- | -------------------------------------------------- |
| `AttemptStarted`      | `sessions/opened` | opens the session or its next attempt; the contract |
| `FlowPlanned`         | `contracts/planned` | folds what its legs are to leave into the contract |
| `AttemptEnded`        | `sessions/ended`  | verifies, sets the status, emits `SessionFinished`  |
| `SessionFinished`     | `contracts/hashes`| hashes what was produced, in the background         |
| `JournalDamaged`      | `journal/repair`  | owes again what is gone from a journal of ours      |
| `JobRetryRequested`   | `requests/retry`  | puts a held job back into its lane                  |
| `JobDiscardRequested` | `requests/discard`| gives a held job up                                 |
| `SessionCancelRequested` | `requests/cancel` | has a running session ended                      |
| `SessionSeenRequested` | `requests/seen`  | keeps that a person has seen how an attempt ended   |
| `PlayRunRequested`    | `requests/play`   | has a playbook's command started                    |
| `HookSpoke`           | `sessions/hooked` | notes who speaks, and what is declared at a first prompt |
| `ScanRequested`       | `requests/scan`   | has every root scanned                              |
| `PruneRequested`      | `requests/prune`  | has the record of old sessions pruned               |
| `RootAcceptRequested` | `requests/accept` | has a root be the directory that stands at its path |
| `RunLaunched`         | `sessions/deadline` | has a run ended whose launcher did not end it in time |
| `EventOccurred`       | `chains/match`      | fires the chains that listen                        |
| `ChainFireRequested`  | `chains/order`      | fires a chain that a person named                   |
| `ChainStatusRequested` | `chains/status`     | pauses, disables or resumes a chain                   |
| `ChainRunCancelRequested` | `chains/cancel` | ends a chain run, and the step that runs              |
| `AttemptStarted`      | `chains/begun`      | has a step ended that began after its run was cancelled |
| `ChainFired`          | `chains/fire`       | opens a chain run and begins its first step         |
| `SessionFinished`     | `chains/advance`    | goes on to the next step of its chain run           |
| `SessionFinished`     | `bundle/write`      | writes replay, summary and receipt, in the background |
| `TimerSet`            | `timers/ring`       | waits until a point in time, and tells its subject  |
| `TimerRang`           | `chains/rang`       | tries a step again, or ends a chain run that is late |
| `TimerRang`           | `approvals/expire`  | ends the wait for a person                          |
| `ApprovalWanted`      | `approvals/show`    | keeps what a person is shown before a step runs     |
| `ApprovalRequested`   | `approvals/answer`  | keeps a person's answer if what was shown still holds |
| `ApprovalDecided`     | `chains/approved`   | begins the step that waited, or ends its chain run  |
| `ChainRunFinished`    | `chains/finished`   | tells of it, pauses its chain, names who is next    |
| `ChainRunTurn`        | `chains/turn`       | begins a chain run that waited for another one      |
| `ScheduleChanged`     | `schedules/define`  | waits for the next time of a chain's schedule       |
| `TimerRang`           | `schedules/due`     | fires what is due, and keeps what is missed         |
| `StartFailed`         | `starts/failed`     | gives up the start of a run that can never begin    |
| `StartFailed`         | `chains/advance`    | ends the chain run whose step it was                |
| `NoticeRetryRequested` | `notices/retry`    | tries a notice again that was given up              |

A handler is `decide(event, given)`. It returns effects; one that has to ask first is a generator that yields its
questions (`asking.py`). It raises `TryLater` where the world must be tried again.
"""

from typing import Final, NamedTuple, TypeAlias

from runward.handlers.approvals import answer, expire, show
from runward.handlers.approvals.events import ApprovalDecided, ApprovalRequested, ApprovalWanted
from runward.handlers.asking import Given
from runward.handlers.bundle import write as write_bundle
from runward.handlers.chains import advance, approved, begun, finished, fire, match, order, rang, status, turn
from runward.handlers.chains import cancel as cancel_chain
from runward.handlers.chains.events import (
    ChainFired,
    ChainFireRequested,
    ChainRunCancelRequested,
    ChainRunFinished,
    ChainRunTurn,
    ChainStatusRequested,
    EventOccurred,
    chain_run_of,
)
from runward.handlers.contracts import hashes, planned
from runward.handlers.effects import Deciding, Effects
from runward.handlers.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    FlowPlanned,
    HookSpoke,
    JobDiscardRequested,
    JobRetryRequested,
    JournalDamaged,
    PlayRunRequested,
    PruneRequested,
    RootAcceptRequested,
    RunLaunched,
    ScanRequested,
    SessionCancelRequested,
    SessionFinished,
    SessionSeenRequested,
)
from runward.handlers.journal import repair
from runward.handlers.notices import retry
from runward.handlers.notices.events import NoticeRetryRequested
from runward.handlers.requests import accept, cancel, play, prune, queue, seen
from runward.handlers.schedules import define, due
from runward.handlers.schedules.events import LANE as SCHEDULE
from runward.handlers.schedules.events import ScheduleChanged
from runward.handlers.sessions import deadline, ended, hooked, opened
from runward.handlers.starts import failed
from runward.handlers.starts.events import StartFailed
from runward.handlers.timers import ring
from runward.handlers.timers.events import TimerRang, TimerSet

Decision: TypeAlias = Effects | Deciding

HANDLERS: Final[dict[str, tuple[str, ...]]] = {
    AttemptStarted.type: ("sessions/opened", "chains/begun"),
    FlowPlanned.type: ("contracts/planned",),
    AttemptEnded.type: ("sessions/ended",),
    SessionFinished.type: ("contracts/hashes", "chains/advance", "bundle/write"),
    JournalDamaged.type: ("journal/repair",),
    JobRetryRequested.type: ("requests/retry",),
    JobDiscardRequested.type: ("requests/discard",),
    SessionCancelRequested.type: ("requests/cancel",),
    SessionSeenRequested.type: ("requests/seen",),
    PlayRunRequested.type: ("requests/play",),
    HookSpoke.type: ("sessions/hooked",),
    ScanRequested.type: ("requests/scan",),
    PruneRequested.type: ("requests/prune",),
    RootAcceptRequested.type: ("requests/accept",),
    RunLaunched.type: ("sessions/deadline",),
    EventOccurred.type: ("chains/match",),
    ChainFireRequested.type: ("chains/order",),
    ChainStatusRequested.type: ("chains/status",),
    ChainRunCancelRequested.type: ("chains/cancel",),
    ChainFired.type: ("chains/fire",),
    ChainRunFinished.type: ("chains/finished",),
    ChainRunTurn.type: ("chains/turn",),
    ScheduleChanged.type: ("schedules/define",),
    StartFailed.type: ("starts/failed", "chains/advance"),
    TimerSet.type: ("timers/ring",),
    TimerRang.type: ("chains/rang", "approvals/expire", "schedules/due"),
    ApprovalWanted.type: ("approvals/show",),
    ApprovalRequested.type: ("approvals/answer",),
    ApprovalDecided.type: ("chains/approved",),
    NoticeRetryRequested.type: ("notices/retry",),
}
"""The names of the handlers of each event type; each gets a job of its own, as `duties` says."""

BACKGROUND: Final = "files:"
"""How the lanes begin whose jobs are done in the background, when no verdict is on its way."""


BUNDLES: Final = f"{BACKGROUND}bundle:"
"""How the lanes begin in which the bundles of attempts are written."""


TIMERS: Final = "timer:"
"""How the lanes begin whose jobs measure how long something took: they look again where the clock was set back."""


SCHEDULED: Final = f"{TIMERS}{SCHEDULE}"
"""How the lanes begin in which the next time of a chain's schedule is waited for."""


class Duty(NamedTuple):
    """What an event owes a handler: its place among the event's handlers, its name, and the lane of the job.

    The job is not done before `due` (Unix seconds).
    """

    place: int
    handler: str
    lane: str
    due: float = 0.0


def duties(event: Event) -> tuple[Duty, ...]:
    """The jobs that an event brings about."""
    if isinstance(event, SessionFinished):
        # A lane of its own, so that reading whole files keeps nothing of the session back.
        lane = f"{BACKGROUND}{event.session_key}#{event.attempt}"
        is_live = event.origin == "live"
        owed = [Duty(0, "contracts/hashes", lane)] if event.produced and is_live else []
        run = chain_run_of(event.session_key)
        if run is not None:
            owed.append(Duty(1, "chains/advance", run))
        if is_live:
            owed.append(Duty(2, "bundle/write", f"{BUNDLES}{event.session_key}#{event.attempt}"))
        return tuple(owed)
    if isinstance(event, AttemptStarted):
        opened_owed = (Duty(0, "sessions/opened", event.lane),)
        run = chain_run_of(event.session_key)
        return opened_owed if run is None else (*opened_owed, Duty(1, "chains/begun", run))
    if isinstance(event, StartFailed):
        given_up = (Duty(0, "starts/failed", event.lane),)
        run = chain_run_of(event.session_key)
        return given_up if run is None else (*given_up, Duty(1, "chains/advance", run))
    if isinstance(event, TimerSet):
        return (Duty(0, "timers/ring", event.lane, event.due),)
    if isinstance(event, TimerRang):
        if event.subject.startswith(SCHEDULE):
            return (Duty(2, "schedules/due", event.lane),)
        is_of_run = not in_background(event.subject)
        return (Duty(0, "chains/rang", event.lane) if is_of_run else Duty(1, "approvals/expire", event.lane),)
    if isinstance(event, RunLaunched):
        due = deadline.due(event)
        return () if due is None else (Duty(0, "sessions/deadline", deadline.lane(event.session_key), due),)
    return tuple(Duty(place, name, event.lane) for place, name in enumerate(HANDLERS[event.type]))


def in_background(lane: str) -> bool:
    """Whether the jobs of a lane are done in the background."""
    return lane.startswith(BACKGROUND)


class NoSuchHandler(LookupError):
    """A job names a handler that doesn't take its event: a bug, or a store from another version."""


def decide(handler: str, event: Event, given: Given) -> Decision:
    """Call the named handler. Raises `NoSuchHandler`, and whatever bug the handler has."""
    match handler, event:
        case "sessions/opened", AttemptStarted():
            return opened.decide(event, given)
        case "contracts/planned", FlowPlanned():
            return planned.decide(event, given)
        case "sessions/ended", AttemptEnded():
            return ended.decide(event, given)
        case "sessions/deadline", RunLaunched():
            return deadline.decide(event, given)
        case "journal/repair", JournalDamaged():
            return repair.decide(event, given)
        case "contracts/hashes", SessionFinished():
            return hashes.decide(event, given)
        case "requests/retry", JobRetryRequested():
            return queue.retry(event, given)
        case "requests/discard", JobDiscardRequested():
            return queue.discard(event, given)
        case "requests/cancel", SessionCancelRequested():
            return cancel.cancel(event, given)
        case "requests/seen", SessionSeenRequested():
            return seen.seen(event, given)
        case "requests/play", PlayRunRequested():
            return play.run(event, given)
        case "sessions/hooked", HookSpoke():
            return hooked.decide(event, given)
        case "requests/scan", ScanRequested():
            return queue.scan(event, given)
        case "requests/prune", PruneRequested():
            return prune.prune(event, given)
        case "requests/accept", RootAcceptRequested():
            return accept.accept(event, given)
        case "chains/match", EventOccurred():
            return match.decide(event, given)
        case "chains/order", ChainFireRequested():
            return order.decide(event, given)
        case "chains/status", ChainStatusRequested():
            return status.decide(event, given)
        case "chains/cancel", ChainRunCancelRequested():
            return cancel_chain.decide(event, given)
        case "chains/begun", AttemptStarted():
            return begun.decide(event, given)
        case "chains/fire", ChainFired():
            return fire.decide(event, given)
        case "chains/finished", ChainRunFinished():
            return finished.decide(event, given)
        case "chains/turn", ChainRunTurn():
            return turn.decide(event, given)
        case "schedules/define", ScheduleChanged():
            return define.decide(event, given)
        case "schedules/due", TimerRang():
            return due.decide(event, given)
        case "starts/failed", StartFailed():
            return failed.decide(event, given)
        case "bundle/write", SessionFinished():
            return write_bundle.decide(event, given)
        case "chains/advance", SessionFinished():
            return advance.decide(event, given)
        case "chains/advance", StartFailed():
            return advance.decide(event, given)
        case "chains/rang", TimerRang():
            return rang.decide(event, given)
        case "chains/approved", ApprovalDecided():
            return approved.decide(event, given)
        case "timers/ring", TimerSet():
            return ring.decide(event, given)
        case "approvals/show", ApprovalWanted():
            return show.decide(event, given)
        case "approvals/answer", ApprovalRequested():
            return answer.decide(event, given)
        case "approvals/expire", TimerRang():
            return expire.decide(event, given)
        case "notices/retry", NoticeRetryRequested():
            return retry.decide(event, given)
    raise NoSuchHandler(f"no handler {handler!r} takes {event.type}")
