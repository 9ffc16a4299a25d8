"""An attempt ended: verify it, set the session's status, and report it. Or its launcher didn't end it in time.

Verification changes only a clean end (ADR-0029, section 7): a run that failed for a cause of its own
keeps that cause, and the verification is recorded with it.
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec.structs import replace

from runward.config import own_events
from runward.config.contract import Contract
from runward.config.json_value import JsonValue
from runward.handlers import shows
from runward.handlers.contracts.files import (
    artifacts_asked,
    outcome_kinds,
    outcome_paths,
    reads_outcomes,
    with_outcomes,
)
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.contracts.verify import (
    Verification,
    described,
    dump_verification,
    files_at_fault,
    missing_summary,
    verify,
)
from runward.handlers.invocations import with_session
from runward.handlers.journal import lines
from runward.handlers.journal.place import journal_directory
from runward.handlers.layouts import native, show
from runward.handlers.layouts.layout import declared
from runward.handlers.model.asking import Asking, Given, NotYet, TryLater, ask, ask_readable
from runward.handlers.model.bundle import BegunReplayOf, BundleRulesOf
from runward.handlers.model.chains import EventOccurred, IsHeard, chain_run_of
from runward.handlers.model.effects import Deciding, Effects, Emit, Explain
from runward.handlers.model.files import RootFacts
from runward.handlers.model.fleet import depth_behind
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.outcomes import ReadOutcome, RecordArtifact, outcome_among
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.schedules import RingNow
from runward.handlers.model.sessions import (
    SUBAGENT,
    AgeOf,
    AttemptEnded,
    Cancellation,
    CancellationOf,
    EndAttempt,
    EndTree,
    EvidenceRef,
    Launch,
    LaunchOf,
    LinkedSession,
    LinkedSessions,
    LinkedSessionsOf,
    Reason,
    RunLaunched,
    RunProcesses,
    Session,
    SessionFinished,
    SessionOf,
    Status,
    WorkingDirectoryOf,
    verdict_among,
)
from runward.handlers.notices import notices
from runward.handlers.outcomes.recording import NO_OUTCOMES, Recorded, announced, named, recorded
from runward.handlers.sessions import late
from runward.handlers.sessions.opened import held_to_launch, is_as_launched
from runward.handlers.subjects import TIMERS

DEADLINE_MARGIN: Final = 5.0
"""Seconds after timeout and grace that the launcher may take to end its run."""

NEXT_CHECK: Final = 60.0
"""Seconds until the next check for a run that is not yet known as a session."""


def deadline_lane(session_key: str) -> str:
    """The lane of the deadlines of a session's launches."""
    return f"{TIMERS}{session_key}"


def deadline_due(event: RunLaunched) -> float | None:
    """When the launcher must have ended its run (Unix seconds). None if the run has no timeout."""
    return None if event.timeout is None else event.at + _longest(event)


def _longest(event: RunLaunched) -> float:
    return (event.timeout or 0.0) + (event.grace or 0.0) + DEADLINE_MARGIN


def enforce_deadline(event: RunLaunched, given: Given) -> Deciding:
    """A launched run's deadline passed: if its launcher did not end it, have the whole process tree ended."""
    # The launcher is the first to know: it ends its command at the timeout. But a command may stop or kill its launcher, so
    # the daemon itself checks a while later.
    launcher, process = RecordedProcess(*event.launcher, event.ticket), RecordedProcess(*event.process)
    session = yield from ask(SessionOf(event.session_key))
    if session is not None and session.status != "running":
        return ()
    age = yield from ask(AgeOf(launcher, process))
    if age is None:
        return ()  # both have ended, and the look at the run will report it
    left = _longest(event) - age
    if left > 0.0 or session is None:
        raise NotYet(given.at + (left if left > 0.0 else NEXT_CHECK))
    processes = RunProcesses(launcher, process, is_recorded=True, cgroup=event.cgroup)
    return (
        EndTree(session.key, session.attempt, session.path, processes, event.timeout or 0.0),
        Explain(
            session.key,
            "decided",
            f"its timeout of {event.timeout:g} s is over and its launcher did not end it: its processes are killed",
        ),
    )


MOST_AGENTS: Final = 20
"""Agents in one command whose last messages are read."""

_NOT_AS_LAUNCHED: Final = (
    "the run's files have another contract than its launcher recorded; the launcher's applies"
)


def end_attempt(event: AttemptEnded, given: Given) -> Deciding:
    """An attempt ended: verify it, set the session's status, and report it."""
    session = yield from ask(SessionOf(event.session_key))
    if session is None:
        return (
            Explain(event.session_key, "refused", "an end was reported for a session that never started"),
        )
    # An attempt ends once. Whatever else says that it ended comes too late, or was put twice.
    if session.status != "running" or session.attempt != event.attempt:
        summary = f"attempt {event.attempt} can't end: attempt {session.attempt} is {session.status}"
        return (Explain(event.session_key, "refused", summary),)
    event = yield from _as_it_came_about(event, session, given.tries)
    launch = (yield from ask(LaunchOf(event.session_key))) if session.layout == native.LAYOUT else None
    held: Effects = ()
    if launch is not None:
        event = yield from _only_if_ordered(event)
        held = _by_launch(event, given, session, launch)
        # The verdict holds the run to what its launcher recorded, and not to what the files said when the session was
        # opened.
        if not is_as_launched(session, launch):
            session = session._replace(contract_json=launch.contract_json)
    contract = _contract_of(event, session)
    outcomes = (
        (yield from _outcomes(event, given, session, contract)) if event.origin == "live" else NO_OUTCOMES
    )
    judged = yield from _held_to_contract(
        event=event,
        given=given,
        session=session,
        contract=contract,
        has_bundle=(yield from _has_bundle(event, session)),
        outcomes=outcomes.read,
        invalid=outcomes.invalid,
        is_launched=launch is not None,
    )
    reports = (
        (yield from _told(event, given, session, judged, outcomes.kept)) if event.origin == "live" else ()
    )
    return (*held, *judged, *outcomes.kept, *reports)


def _as_it_came_about(event: AttemptEnded, session: Session, tries: int) -> Asking[AttemptEnded]:
    """The end, as others know it: who ordered it, and how the agents in it ended."""
    if session.origin == "history" and event.attempt == 1:
        event = replace(event, origin="history")  # one that was stored before that field existed lacks it
    if event.reason_code == "run.aborted.process_gone":
        order = yield from ask(CancellationOf(event.session_key, event.attempt))
        # Whether the order ended the process is known only when it was carried out.
        if order is not None and order.is_owed:
            raise TryLater("a person cancelled it, and the result is not known yet")
        if order is not None:
            timeout = order.timeout
            event = _as_ordered(event, order) if timeout is None else _after_its_time(event, timeout)
    if event.status == "completed" and session.layout == native.LAYOUT:
        event = yield from _by_those_inside(event, tries)
    return event


def _by_launch(event: AttemptEnded, given: Given, session: Session, launch: Launch) -> Effects:
    """What follows from the launch of a run: its contract applies, and nothing of it lives on."""
    held: Effects = ()
    if not is_as_launched(session, launch):
        held += held_to_launch(event, given.event_hash, session, launch, _NOT_AS_LAUNCHED)
    # Its launcher is gone, but what the command started may live on. All of it is in the launch's control group.
    if launch.cgroup is not None and event.reason_code == "run.aborted.process_gone":
        processes = RunProcesses(launch.launcher, launch.process, is_recorded=True, cgroup=launch.cgroup)
        held += (EndTree(session.key, event.attempt, session.path, processes, None),)
    # The run is over, so the job that waits for its deadline need not wait any longer.
    if launch.timeout is not None:
        held += (RingNow(deadline_lane(session.key)),)
    return held


def _outcomes(
    event: AttemptEnded, given: Given, session: Session, contract: Contract | None
) -> Asking[Recorded]:
    """The outcomes in the session's files, and in the last messages of its agents."""
    paths = () if contract is None else outcome_paths(contract)
    agents = yield from _agents_in(event, session)
    reads_files = _reads_outcomes(session, contract)
    return (
        yield from recorded(
            session, given.at, paths, agents, reads_files=reads_files, wanted=outcome_kinds(contract)
        )
    )


def _told(
    event: AttemptEnded,
    given: Given,
    session: Session,
    judged: Effects,
    outcomes: tuple[RecordArtifact, ...],
) -> Asking[Effects]:
    """What others learn of the verdict: chains, recipients of notices, the invocation, and the show."""
    reports: Effects = ()
    # Its origin goes on, with or without it, so nothing begins at its end.
    if session.kind == SUBAGENT:
        return named(outcomes, given.at, event.key)
    if (yield from ask(IsHeard(FINISHED))):
        cwd = yield from ask(WorkingDirectoryOf(session.key))
        reports = finished(session, judged, outcomes, cwd, (yield from depth_behind(session.key)))
    reports += yield from _notices(session, judged, given.at)
    reports += yield from with_session(session, judged, outcomes)
    reports += yield from announced(session, outcomes, given.at)
    if session.layout == show.LAYOUT:
        reports += yield from shows.ended(session.key, session.path, given.at)
    return (*reports, *named(outcomes, given.at, event.key))


def _notices(session: Session, judged: Effects, at: float) -> Asking[Effects]:
    """The notices about the verdict found among `judged`."""
    ending = next((each for each in judged if isinstance(each, EndAttempt)), None)
    if ending is None:
        return ()
    title, subject = f"{session.session_id} {ending.status}", f"{session.key}#{ending.attempt}"
    lines = (ending.reason.summary, f"runward why {session.session_id}")
    return (yield from notices(f"session.{ending.status}", subject, title, lines, at))


def _has_bundle(event: AttemptEnded, session: Session) -> Asking[bool]:
    """Whether a bundle is due: the settings want one, or a part of its replay was shown, which is always finished."""
    if event.origin == "history":
        return False
    rules = yield from ask(BundleRulesOf(session.layout, session.path))
    # Asked after the settings, because replays are begun by these.
    return rules is not None or (yield from ask(BegunReplayOf(event.session_key, event.attempt))) is not None


def _contract_of(event: AttemptEnded, session: Session) -> Contract | None:
    """The contract that the end is held to."""
    if session.contract_json is None or event.origin == "history":
        return None
    return stored_contract(session.contract_json)


def _reads_outcomes(session: Session, contract: Contract | None) -> bool:
    """Whether its layout or its contract says that a session may have outcomes."""
    return declared(session.layout).has_outcomes or (contract is not None and reads_outcomes(contract))


def _held_to_contract(
    event: AttemptEnded,
    given: Given,
    session: Session,
    contract: Contract | None,
    has_bundle: bool,
    outcomes: Sequence[ReadOutcome],
    invalid: dict[str, JsonValue],
    *,
    is_launched: bool,
) -> Deciding:
    """The end, with the verification of the session's contract."""
    known: dict[str, JsonValue] = {"invalid_outcomes": invalid} if invalid else {}
    if contract is None:
        return _conclude(event, given.event_hash, session, None, known, has_bundle=has_bundle)
    question = artifacts_asked(contract, session.artifacts_path, session.path, session.started_at)
    found = yield from ask_readable(question, f"the artifacts of {event.session_key}")
    facts = with_outcomes(contract, found, outcomes)
    verification = verify(contract, facts, given.at)
    was_awaited = verification.status == "failed" and not is_launched and late.may_be_arriving(event, session)
    # Files of a run that is being copied arrive in any order. A failure for a missing one is believed only once the
    # directory is quiet. What a launcher started is not a copy.
    if was_awaited:
        yield from late.quiet(session, given)
    if any(entry.rules is not None and entry.rules.is_outcome for entry in verification.missing_required):
        known[late.OUTCOME_FILES] = [*sorted({*(each.file for each in outcomes), *invalid})]
    known = _delivered(contract, facts) | known
    concluded = _conclude(event, given.event_hash, session, verification, known, has_bundle=has_bundle)
    return tuple(
        replace(each, was_awaited=was_awaited) if isinstance(each, EndAttempt) else each for each in concluded
    )


def _as_ordered(event: AttemptEnded, order: Cancellation) -> AttemptEnded:
    """If a person had a process cancelled and it has ended, it ended because of that, even if it didn't report so."""
    reason = f": {order.reason}" if order.reason else ""
    return replace(
        event,
        status="cancelled",
        reason_code="run.cancelled.user",
        reason_summary=f"told to stop: cancelled by {order.said_by}{reason}",
        source="person",
    )


def _after_its_time(event: AttemptEnded, timeout: float) -> AttemptEnded:
    """The daemon killed the run's processes, because its launcher did not end it in time."""
    return replace(
        event,
        status="timed_out",
        reason_code="run.timed_out.deadline",
        reason_summary=f"its timeout of {timeout:g} s passed and its launcher did not end it: the daemon killed it",
        source="daemon",
    )


def _only_if_ordered(event: AttemptEnded) -> Asking[AttemptEnded]:
    """If a launcher says that a person cancelled its run, the order is in the store, or the run itself sent the signal."""
    if event.reason_code != "run.cancelled.user":
        return event
    order = yield from ask(CancellationOf(event.session_key, event.attempt))
    # A run may send the signal itself, and so claim to be cancelled instead of failed.
    if order is not None and order.timeout is None:
        return event
    return replace(
        event,
        status="failed",
        reason_code="run.failed.signal",
        reason_summary="its launcher was told to cancel it, but no person had requested that",
        source="daemon",
    )


def _by_those_inside(event: AttemptEnded, tries: int) -> Asking[AttemptEnded]:
    """The end of a command, adjusted by the agents' sessions that were started in it."""
    answer = yield from ask(LinkedSessionsOf(event.session_key))
    failed, why = that_failed(answer), not_known_yet(answer)
    if failed is not None:
        return _as_inside(event, failed)
    if why is not None and tries < PATIENCE:
        raise TryLater(why)
    return event


def _agents_in(event: AttemptEnded, session: Session) -> Asking[Sequence[Session]]:
    """The foreign sessions whose last messages may be outcomes: the session itself, or those in a command that ended
    well."""
    if session.layout != native.LAYOUT:
        return (session,)
    if event.status != "completed":
        return ()
    linked = yield from ask(LinkedSessionsOf(event.session_key))
    agents: list[Session] = []
    for each in [each for each in linked.sessions if each.status == "completed"][:MOST_AGENTS]:
        agent = yield from ask(SessionOf(each.key))
        if agent is not None:
            agents.append(agent)
    return agents


def _as_inside(event: AttemptEnded, agent: LinkedSession) -> AttemptEnded:
    """A command that ended well, although the agent's session in it did not."""
    summary = f"{agent.key}, which was started in it: {agent.reason_summary}"
    return replace(
        event, status=agent.status, reason_code=agent.reason_code, reason_summary=summary, source="daemon"
    )


def _conclude(
    event: AttemptEnded,
    event_hash: str,
    session: Session,
    verification: Verification | None,
    known: dict[str, JsonValue],
    *,
    has_bundle: bool,
) -> Effects:
    ending = _ending(event, session, verification)
    # The basis of the verdict, for `runward why`.
    known = {
        "evidence": event.evidence,
        "exit_code": event.exit_code,
        "signal": event.signal,
        **known,
    }
    finished = SessionFinished(
        session_key=ending.key,
        attempt=ending.attempt,
        at=ending.at,
        status=ending.status,
        reason_code=ending.reason.code,
        delivery=ending.delivery,
        produced=len(ending.produced),
        produced_bytes=sum(each.size for each in ending.produced),
        origin=event.origin,
        has_bundle=has_bundle,
    )
    summary = f"{ending.status}: {ending.reason.summary}"
    effects: Effects = (ending, Explain(ending.key, "decided", summary, known), Emit(finished))
    # History leaves no line in any journal.
    if event.origin == "history":
        return effects
    return effects + _journal(event, event_hash, session, ending, verification)


def _ending(event: AttemptEnded, session: Session, verification: Verification | None) -> EndAttempt:
    status, reason = _verdict(event, verification)
    return EndAttempt(
        key=event.session_key,
        attempt=event.attempt,
        at=event.at,
        ended_by=event.evidence,
        replaces=session.status,
        status=status,
        reason=reason,
        # What the run declared is the launcher's word; that it didn't deliver is the daemon's.
        source=event.source if reason.code == event.reason_code else "daemon",
        verification_json=dump_verification(verification) if verification is not None else None,
        delivery=verification.delivery if verification is not None else None,
        produced=verification.produced if verification is not None else (),
    )


def _journal(
    event: AttemptEnded,
    event_hash: str,
    session: Session,
    ending: EndAttempt,
    verification: Verification | None,
) -> Effects:
    """The lines about the end for the session's journal."""
    directory = journal_directory(session.layout, event.session_key, session.path)
    written = b"" if verification is None else lines.artifact_verified(event, event_hash, verification)
    status, reason = ending.status, ending.reason
    written += lines.status_changed(
        event=event,
        event_hash=event_hash,
        replaced=session.status,
        status=status,
        reason=reason,
        source=ending.source,
    )
    written += lines.session_finished(event, event_hash, status, reason, ending.delivery)
    return (AppendLines(event.session_key, directory, lines.EVENTS, written, live=False),)


def _verdict(event: AttemptEnded, verification: Verification | None) -> tuple[Status, Reason]:
    # Only a clean end is changed: a run that failed for a cause of its own keeps that cause.
    if verification is not None and verification.status == "failed" and event.status == "completed":
        missing = verification.missing_required
        evidence = tuple(
            EvidenceRef("expected_artifact", entry.id, path)
            for entry, path in zip(missing, verification.at_fault, strict=True)
        )
        summary = missing_summary(verification)
        return "failed", Reason("run.failed.missing_artifact", summary, evidence)
    kind: Literal["exit", "process"] = "exit" if event.evidence == "declared" else "process"
    label = f"{event.evidence}: {event.reason_summary}"
    return event.status, Reason(
        event.reason_code, event.reason_summary, (EvidenceRef(kind, event.key, label),)
    )


def _delivered(contract: Contract, facts: RootFacts) -> dict[str, JsonValue]:
    """What was found at the paths of the contract. Only what wasn't delivered is listed in full."""
    known: dict[str, JsonValue] = {} if facts.exists else {late.ARTIFACTS_ROOT: "missing"}
    known[late.NOT_DELIVERED] = {**described(contract, facts)}
    files = files_at_fault(contract, facts)
    if files:
        known["at_fault"] = {**files}
    return known


FINISHED: Final = "session.finished"


def finished(session: Session, judged: Effects, outcomes: Effects, cwd: str | None, depth: int) -> Effects:
    """`session.finished`, with the last outcome of a registered kind, for the verdict found among `judged`.

    `depth` is that of the chain run of another host that ordered it; 0 if none did.
    """
    verdict = verdict_among(judged)
    if verdict is None:
        return ()
    fields = own_events.SessionFinished(
        session_id=session.session_id,
        key=session.key,
        layout=session.layout,
        status=verdict.status,
        reason_code=verdict.reason_code,
        delivery=verdict.delivery,
        playbook=session.playbook,
        agent=session.agent,
        cwd=cwd,
        outcome=outcome_among(outcomes),
    )._asdict()
    key = f"{verdict.key}/event"
    attempt = f"{session.key}#{verdict.attempt}"
    by = chain_run_of(session.key)
    return (Emit(EventOccurred(key, verdict.at, FINISHED, attempt, fields, by_run=by, depth=depth)),)


PATIENCE: Final = 5
"""How often the end of a command is put off for the sessions in it, whose last lines come late: 15 s and more.

It counts tries, not time: on a loaded machine the tries come later, as those lines do, and a daemon that was down
when the command ended has all of them before it.
"""


def launcher_key(session_id: str | None, native_roots: Sequence[str], holding: Sequence[str]) -> str | None:
    """The key of the launcher's session with this id. Its run is in the native root that contains a directory of
    that name, else it will be in the first one, where launched runs go.
    """
    if session_id is None or not native_roots or "/" in session_id:
        return None
    # The id comes from the agent's environment. A run's directory of that name shows which root it is in.
    return native.session_key((*holding, *native_roots)[0], session_id)


def that_failed(linked: LinkedSessions) -> LinkedSession | None:
    """The session inside a command that ended well which says otherwise, if any."""
    return next((each for each in linked.sessions if each.status not in ("running", "completed")), None)


def not_known_yet(linked: LinkedSessions) -> str | None:
    """Sessions that may yet say otherwise, if any."""
    for each in linked.sessions:
        if each.status == "running":
            return f"{each.key}, which was started in it, is not over yet"
    if linked.announced:
        return f"{linked.announced[0]}, which was started in it, has not been read yet"
    return "some notes of agents' hooks have not been read yet" if linked.may_be_more else None
