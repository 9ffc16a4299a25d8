"""From an event to the handlers that have a duty towards it: the first page to read.

Each line of `ROUTES` is a handler's duty towards an event: its name, the function that decides, the lane of its job
(by default the event's own; None if there is no duty), and when the job is due (by default at once). A handler is
`decide(event, given)`. It returns effects; a handler that has to ask first is a generator that yields its questions
(`asking.py`). It raises `TryLater` if the world must be tried again. `docs/reference.md` says what each decides.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from runward.handlers import approvals, invocations, notices, requests, schedules
from runward.handlers.bundle import orders
from runward.handlers.chains import continuing, firing, gather
from runward.handlers.contracts import files
from runward.handlers.exchange import results
from runward.handlers.journal import lines
from runward.handlers.model.approvals import ApprovalDecided, ApprovalRequested, ApprovalWanted
from runward.handlers.model.asking import Asking, Given
from runward.handlers.model.bundle import ReceiptSignRequested
from runward.handlers.model.chains import (
    ChainFired,
    ChainFireRequested,
    ChainRunCancelRequested,
    ChainRunFinished,
    ChainRunTurn,
    ChainStatusRequested,
    EventOccurred,
    SlotOffered,
    TriggerMatched,
    chain_run_of,
)
from runward.handlers.model.effects import Deciding, Effects
from runward.handlers.model.events import Event
from runward.handlers.model.exchange import LANES as EXCHANGE
from runward.handlers.model.exchange import (
    ActionRequested,
    ActionTaken,
    IntentMade,
    MintRequested,
    PrincipalCreateRequested,
)
from runward.handlers.model.fleet import (
    RemoteStepBegun,
    RemoteStepCancelled,
    RemoteStepOrdered,
    RemoteStepOver,
    RemoteStepTaken,
    lane_of_taken,
)
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.invocations import StartedEarlier, StartFailed
from runward.handlers.model.journal import JournalDamaged
from runward.handlers.model.notices import NoticeRetryRequested
from runward.handlers.model.outcomes import ArtifactAddRequested, ArtifactFilesNamed, OutcomesChanged
from runward.handlers.model.requests import (
    JobDiscardRequested,
    JobRetryRequested,
    PlayRunRequested,
    PruneRequested,
    RecordMoved,
    RootAcceptRequested,
    ScanRequested,
    SessionCancelRequested,
    SessionSeenRequested,
)
from runward.handlers.model.schedules import ScheduleChanged, TimerRang, TimerSet
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    HookSpoke,
    RunLaunched,
    SessionFinished,
)
from runward.handlers.model.shows import PlayChanged
from runward.handlers.outcomes import recording
from runward.handlers.sessions import ended, foreseen, opened
from runward.handlers.shows import play_changed
from runward.handlers.subjects import BACKGROUND, SCHEDULE

Decision: TypeAlias = Effects | Deciding

BUNDLES: Final = f"{BACKGROUND}bundle:"
"""The prefixes of lanes in which the bundles of attempts are written."""

Kind = TypeVar("Kind", bound=Event)


class Route(NamedTuple):
    """A handler's duty towards an event of one type. `lane` and `due` are evaluated for each event.

    `number` tells the duty from the others of its event. It is stored, as a part of its jobs' ids. `foresee` asks before
    the turn what `decide` will ask of files, if that can be known.
    """

    event: type[Any]
    handler: str
    decide: Callable[[Any, Given], Decision]
    lane: Callable[[Any], str | None]
    due: Callable[[Any], float]
    number: int
    foresee: Callable[[Any], Asking[tuple[()]]] | None


def _own(event: Event) -> str:
    return event.lane


def _at_once(event: Event) -> float:
    return 0.0


def _route(
    event: type[Kind],
    handler: str,
    decide: Callable[[Kind, Given], Decision],
    lane: Callable[[Kind], str | None] = _own,
    due: Callable[[Kind], float] = _at_once,
    *,
    number: int = 0,
    foresee: Callable[[Kind], Asking[tuple[()]]] | None = None,
) -> Route:
    return Route(
        event=event, handler=handler, decide=decide, lane=lane, due=due, number=number, foresee=foresee
    )


def _chain_run(event: AttemptStarted | SessionFinished | StartFailed | StartedEarlier) -> str | None:
    """The lane of the chain run whose step this session is, if it is one."""
    return chain_run_of(event.session_key)


def _taken(event: AttemptStarted | SessionFinished | StartFailed | StartedEarlier) -> str | None:
    """The lane of the order of another host that this session was begun for, if it was."""
    return lane_of_taken(event.session_key)


def _files(event: SessionFinished) -> str | None:
    """A lane of its own, so that reading whole files delays no other job of the session."""
    if not event.produced or event.origin != "live":
        return None
    return f"{BACKGROUND}{event.session_key}#{event.attempt}"


def _bundle(event: SessionFinished) -> str | None:
    """Likewise: what an attempt did may take long to read."""
    if not event.has_bundle or event.origin != "live":
        return None
    return f"{BUNDLES}{event.session_key}#{event.attempt}"


def _artifact_files(event: ArtifactFilesNamed) -> str:
    """Likewise: the content of artifacts may be large."""
    return f"{BACKGROUND}artifacts:{event.key}"


def _deadline(event: RunLaunched) -> str | None:
    return None if ended.deadline_due(event) is None else ended.deadline_lane(event.session_key)


def _schedule(event: TimerRang) -> str | None:
    return event.lane if event.subject.startswith(SCHEDULE) else None


def _approval(event: TimerRang) -> str | None:
    return event.lane if in_background(event.subject) else None


def _carry_out(event: IntentMade | ActionRequested, given: Given) -> Deciding:
    """An intent is carried out: it becomes an action, with exactly one result."""
    from runward.handlers.exchange.act import carry_out  # few daemons have an exchange

    return carry_out(event, given)


def _create(event: PrincipalCreateRequested, given: Given) -> Deciding:
    """A person creates a principal, with its artifact and its initial resources."""
    from runward.handlers.exchange.act import create_as_asked

    return create_as_asked(event, given)


def _mint(event: MintRequested, given: Given) -> Deciding:
    """Only people mint: units of a resource are created, or taken away."""
    from runward.handlers.exchange.act import mint_units

    return mint_units(event, given)


def _step_taken(event: RemoteStepTaken, given: Given) -> Deciding:
    """Another host took the order: it may begin there from now on."""
    from runward.handlers.fleet.ordering import step_taken  # few daemons are in a fleet

    return step_taken(event, given)


def _step_begun(event: RemoteStepBegun, given: Given) -> Deciding:
    """The host that took the order says that the step begins there."""
    from runward.handlers.fleet.ordering import step_begun

    return step_begun(event, given)


def _step_over(event: RemoteStepOver, given: Given) -> Deciding:
    """The order is over: its step ends as it did there, and the chain run continues. What it became is known here now."""
    from runward.handlers.fleet.ordering import step_over

    return step_over(event, given)


def _begin_taken(event: RemoteStepOrdered, given: Given) -> Deciding:
    """This host took an order: the step is started by this host's own settings, or never begins here."""
    from runward.handlers.fleet.taking import begin_taken

    return begin_taken(event, given)


def _cancel_taken(event: RemoteStepCancelled, given: Given) -> Deciding:
    """The origin does not want the step any more: it never begins, or is ended."""
    from runward.handlers.fleet.taking import cancel_taken

    return cancel_taken(event, given)


def _end_withdrawn(event: AttemptStarted, given: Given) -> Deciding:
    """A session began: if another host cancelled it too late to be withdrawn, it is ended."""
    from runward.handlers.fleet.taking import end_withdrawn

    return end_withdrawn(event, given)


def _end_taken(event: SessionFinished | StartFailed | StartedEarlier, given: Given) -> Deciding:
    """The run of another host's step is judged, or can never begin: its origin is told how it ended."""
    from runward.handlers.fleet.taking import end_taken

    return end_taken(event, given)


def _run(event: TimerRang) -> str | None:
    return None if event.subject.startswith(SCHEDULE) or in_background(event.subject) else event.lane


ROUTES: Final = (
    _route(AttemptStarted, "sessions/opened", opened.open_attempt, foresee=foreseen.of_start),
    _route(AttemptStarted, "chains/begun", continuing.end_withdrawn_step, _chain_run, number=1),
    _route(AttemptStarted, "fleet/begun", _end_withdrawn, _taken, number=2),
    _route(FlowPlanned, "contracts/planned", opened.fold_plan),
    _route(AttemptEnded, "sessions/ended", ended.end_attempt, foresee=foreseen.of_end),
    _route(SessionFinished, "contracts/hashes", files.hash_produced, _files),
    _route(SessionFinished, "chains/advance", continuing.advance_after_step, _chain_run, number=1),
    _route(SessionFinished, "bundle/write", orders.write_after_verdict, _bundle, number=2),
    _route(SessionFinished, "fleet/ended", _end_taken, _taken, number=3),
    _route(ReceiptSignRequested, "bundle/sign", orders.sign_receipt),
    _route(JournalDamaged, "journal/repair", lines.repair_journal),
    _route(JobRetryRequested, "requests/retry", requests.retry_job),
    _route(JobDiscardRequested, "requests/discard", requests.discard_job),
    _route(SessionCancelRequested, "requests/cancel", requests.cancel_session),
    _route(SessionSeenRequested, "requests/seen", requests.mark_seen),
    _route(PlayRunRequested, "requests/play", requests.run_play),
    _route(HookSpoke, "sessions/hooked", opened.note_hook),
    _route(ScanRequested, "requests/scan", requests.scan_roots),
    _route(PruneRequested, "requests/prune", requests.prune_sessions),
    _route(RootAcceptRequested, "requests/accept", requests.accept_root),
    _route(RecordMoved, "requests/moved", requests.explain_move),
    _route(
        RunLaunched,
        "sessions/deadline",
        ended.enforce_deadline,
        _deadline,
        lambda event: ended.deadline_due(event) or 0.0,
    ),
    _route(EventOccurred, "chains/match", firing.fire_what_listens),
    _route(TriggerMatched, "chains/gather", gather.gather_event),
    _route(ChainFireRequested, "chains/order", firing.fire_as_asked),
    _route(ChainStatusRequested, "chains/status", firing.set_status),
    _route(ChainRunCancelRequested, "chains/cancel", continuing.cancel_run),
    _route(ChainFired, "chains/fire", firing.open_run),
    _route(ChainRunFinished, "chains/finished", firing.report_end),
    _route(ChainRunTurn, "chains/turn", firing.begin_in_turn),
    _route(SlotOffered, "chains/offered", continuing.take_slot),
    _route(ScheduleChanged, "schedules/define", schedules.define_schedule),
    _route(StartFailed, "starts/failed", invocations.give_up_start),
    _route(StartFailed, "chains/advance", continuing.advance_after_step, _chain_run, number=1),
    _route(StartFailed, "fleet/ended", _end_taken, _taken, number=2),
    _route(StartedEarlier, "starts/earlier", invocations.link_started_earlier),
    _route(StartedEarlier, "chains/advance", continuing.advance_after_step, _chain_run, number=1),
    _route(StartedEarlier, "fleet/ended", _end_taken, _taken, number=2),
    _route(RemoteStepTaken, "fleet/taken", _step_taken),
    _route(RemoteStepBegun, "fleet/started", _step_begun),
    _route(RemoteStepOver, "fleet/over", _step_over),
    _route(RemoteStepOrdered, "fleet/begin", _begin_taken),
    _route(RemoteStepCancelled, "fleet/cancel", _cancel_taken),
    _route(TimerSet, "timers/ring", schedules.ring_timer, due=lambda event: event.due),
    _route(TimerRang, "chains/rang", continuing.advance_after_timer, _run),
    _route(TimerRang, "approvals/expire", approvals.expire_approval, _approval, number=1),
    _route(TimerRang, "schedules/due", schedules.fire_what_is_due, _schedule, number=2),
    _route(ApprovalWanted, "approvals/show", approvals.ask_a_person),
    _route(ApprovalRequested, "approvals/answer", approvals.answer_approval),
    _route(ApprovalDecided, "chains/approved", continuing.advance_after_decision),
    _route(NoticeRetryRequested, "notices/retry", notices.retry_notice),
    _route(ArtifactAddRequested, "outcomes/added", recording.add_artifact),
    _route(OutcomesChanged, "outcomes/changed", recording.outcomes_changed),
    _route(PlayChanged, "shows/changed", play_changed),
    _route(ArtifactFilesNamed, "outcomes/files", recording.hash_files, _artifact_files),
    _route(IntentMade, "exchange/act", _carry_out),
    _route(ActionRequested, "exchange/act", _carry_out),
    _route(ActionTaken, "exchange/tell", results.tell_result),
    _route(PrincipalCreateRequested, "exchange/create", _create),
    _route(MintRequested, "exchange/mint", _mint),
)
"""The lines may be in any order. A duty keeps its number, and a new one of an event that has duties gets the next."""

# Two routes of an event with one number would give their jobs one id.
assert len({(route.event, route.number) for route in ROUTES}) == len(ROUTES)

_OF_EVENT: Final[dict[str, tuple[Route, ...]]] = {
    kind.type: tuple(sorted((each for each in ROUTES if each.event is kind), key=lambda route: route.number))
    for kind in dict.fromkeys(route.event for route in ROUTES)
}
_FORESEEING: Final = {route.event.type: route for route in ROUTES if route.foresee is not None}
_BY_NAME: Final = {(route.handler, route.event.type): route for route in ROUTES}

HANDLERS: Final[dict[str, tuple[str, ...]]] = {
    kind: tuple(route.handler for route in routes) for kind, routes in _OF_EVENT.items()
}
"""The names of the handlers of each event type. Each gets its own job, as `duties` says."""


class Duty(NamedTuple):
    """An event's job for a handler: its number among the event's jobs, the handler's name, and the lane of the job.

    The job is not done before `due` (Unix seconds).
    """

    number: int
    handler: str
    lane: str
    due: float = 0.0


def duties(event: Event) -> tuple[Duty, ...]:
    """The jobs that an event causes."""
    return tuple(
        Duty(route.number, route.handler, lane, route.due(event))
        for route in _OF_EVENT[event.type]
        if (lane := route.lane(event)) is not None
    )


def in_background(lane: str) -> bool:
    """Whether the jobs of a lane are done in the background."""
    return lane.startswith(BACKGROUND)


def decided_in_order_with(lane: str) -> str:
    """The name shared by a batch's lanes whose jobs are decided one after another, each after what the last one did.

    Principals act on one exchange: what one of them spends can't be paid to another as well.
    """
    return EXCHANGE if lane.startswith(EXCHANGE) else lane


class NoSuchHandler(LookupError):
    """A job names a handler that doesn't take its event: a bug, or a store from another version."""


def decide(handler: str, event: Event, given: Given) -> Decision:
    """Call the named handler. Raises `NoSuchHandler`, and any bug of the handler."""
    route = _BY_NAME.get((handler, event.type))
    if route is None:
        raise NoSuchHandler(f"no handler {handler!r} takes {event.type}")
    return route.decide(event, given)


def foreseeing(event: Event) -> str | None:
    """The name of the handler of an event that can say beforehand what it will ask of files."""
    route = _FORESEEING.get(event.type)
    return None if route is None else route.handler


def foresee(event: Event) -> Deciding:
    """Ask what this handler of the event will ask of files and settings. It decides nothing."""
    route = _FORESEEING[event.type]
    assert route.foresee is not None
    return route.foresee(event)
