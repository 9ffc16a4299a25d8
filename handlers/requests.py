"""What a person asks of the daemon itself: a playbook's command, a held job, a scan, the end of a session, a root, old records."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Final, Literal

from runward.config.contract import contract_to_json, resolve_contract
from runward.config.duration import render_duration
from runward.config.playbook import fill_command
from runward.config.root import NATIVE
from runward.handlers.foreign_json import sane_time
from runward.handlers.invocations import of_request
from runward.handlers.layouts.native import session_key
from runward.handlers.model.asking import Given, TryLater, ask
from runward.handlers.model.effects import Deciding, Effects, Explain
from runward.handlers.model.exchange import CountIntent, IntentMade
from runward.handlers.model.invocations import OpenInvocation, Play, PlayOf, StartRun
from runward.handlers.model.requests import (
    AcceptRoot,
    CancelRun,
    JobDiscardRequested,
    JobRetryRequested,
    JobStateOf,
    PlayRunRequested,
    PruneRequested,
    PruneSessions,
    RecordMoved,
    ReleaseJob,
    RootAcceptRequested,
    ScanRequested,
    ScanRoots,
    SessionCancelRequested,
    SessionSeenRequested,
)
from runward.handlers.model.sessions import LaunchOf, ProcessesOf, RunProcesses, SessionOf
from runward.handlers.subjects import PRUNE, of_job, of_root, of_start


def retry_job(event: JobRetryRequested, given: Given) -> Deciding:
    """Put the held job back at the head of its lane."""
    return _release(event.job, "waiting", f"retried by {event.said_by}")


def discard_job(event: JobDiscardRequested, given: Given) -> Deciding:
    """Give the held job up; the jobs behind it in its lane continue."""
    reason = f": {event.reason}" if event.reason else ""
    return _release(event.job, "discarded", f"discarded by {event.said_by}{reason}")


def _release(job: int, state: Literal["waiting", "discarded"], reason: str) -> Deciding:
    standing = yield from ask(JobStateOf(job))
    subject = of_job(job)
    if standing is not None and standing.state == "held":
        effects: Effects = (ReleaseJob(job, state, reason), Explain(subject, "decided", reason))
        # A bundle waits until its run's intents are carried out, and this one never will be.
        if state == "discarded" and isinstance(standing.event, IntentMade):
            effects += (CountIntent(standing.event.session_key),)
        return effects
    why = f"it is {standing.state}, not held" if standing is not None else "there is no such job"
    return (Explain(subject, "refused", f"not {reason}: {why}"),)


def scan_roots(event: ScanRequested, given: Given) -> Effects:
    """Have every root scanned."""
    return (ScanRoots(),)


_NAMELESS: Final = "its files name no process that could be asked to end"
_LOOKS: Final = 4
"""How often a run without a named process is asked about again. A run that has just begun will name it soon."""


def cancel_session(event: SessionCancelRequested, given: Given) -> Deciding:
    """A person wants a running session ended."""
    session = yield from ask(SessionOf(event.session_key))
    processes = yield from ask(ProcessesOf(event.session_key))
    launch = yield from ask(LaunchOf(event.session_key))
    # What the launcher recorded takes precedence: the run may name other processes in its files.
    if launch is not None:
        processes = RunProcesses(launch.launcher, launch.process, processes.host, is_recorded=True)
    order = f"cancelled by {event.said_by}" + (f": {event.reason}" if event.reason else "")
    if session is None:
        return _refused(event, order, "there is no such session")
    # The person meant the attempt that they saw.
    if session.attempt != event.attempt:
        return _refused(
            event, order, f"attempt {event.attempt} was requested, but attempt {session.attempt} is the last"
        )
    if session.status != "running":
        return _refused(event, order, f"it is already {session.status}")
    if session.layout != NATIVE:
        return _refused(
            event, order, "another tool runs it and has to end it: only native runs can be cancelled"
        )
    if processes.launcher is None and processes.process is None:
        # A run that has just begun has not named its process yet.
        if given.tries < _LOOKS:
            raise TryLater(_NAMELESS)
        return _refused(event, order, _NAMELESS)
    return (
        CancelRun(
            key=session.key,
            attempt=session.attempt,
            directory=session.path,
            processes=processes,
            said_by=event.said_by,
            reason=event.reason,
        ),
        Explain(session.key, "decided", order),
    )


def _refused(event: SessionCancelRequested, order: str, why: str) -> Effects:
    return (Explain(event.session_key, "refused", f"not {order}: {why}"),)


def accept_root(event: RootAcceptRequested, given: Given) -> Effects:
    """A person says which directory a root is."""
    summary = f"the directory at its path is the root from now on, as {event.said_by} said"
    return (
        AcceptRoot(event.root, event.identity),
        ScanRoots(),
        Explain(of_root(event.root), "decided", summary),
    )


SHORTEST: Final = 1.0
"""Seconds for which a session must have been over, at least: a clock that jumps must not prune recent sessions."""


def prune_sessions(event: PruneRequested, given: Given) -> Effects:
    """A person wants the record of old sessions pruned."""
    if not event.older_than >= SHORTEST:
        why = f"not pruned, as {event.said_by} asked: the age is less than {render_duration(SHORTEST)}"
        return (Explain(PRUNE, "refused", why),)
    # The earlier of the two counts: a clock that leaps forward between them must not prune recent sessions.
    before = min(event.at, given.at) - event.older_than
    summary = (
        f"sessions that ended {render_duration(event.older_than)} ago are pruned, as {event.said_by} asked"
    )
    return PruneSessions(before, event.said_by), Explain(PRUNE, "decided", summary)


def mark_seen(event: SessionSeenRequested, given: Given) -> Effects:
    """A person has seen how a session ended: it no longer counts as a failure that needs attention.

    Nothing follows. The recorded event itself, under the attempt's own key, is the mark that `status` checks.
    """
    return ()


_LONGEST_WORD: Final = 100
_TRACEPARENT: Final = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""The `traceparent` header of W3C Trace Context, version 00."""


def run_name(playbook: str, at: float, request: str) -> str:
    """The run directory and session id of a request, known before anything is started.

    `<playbook>-<UTC>-<6 hex>`, as in `review-20261121T101530Z-1a2b3c`. The last part comes from the request's own
    name, so the same request is always the same run.
    """
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", playbook).lstrip(".-")[:_LONGEST_WORD] or "run"
    moment = datetime.fromtimestamp(sane_time(at), UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{word}-{moment}-{hashlib.sha256(request.encode()).hexdigest()[:6]}"


def run_play(event: PlayRunRequested, given: Given) -> Deciding:
    """A person asks for a playbook's command: its current declaration is filled in, and the run is requested or refused."""
    # The request carries no command. The declaration in force now is filled in, so an inbox file can't start anything
    # else.
    play = yield from ask(PlayOf(event.playbook))
    if play.problem is not None or play.playbook is None:
        return _not_started(event, play.problem or "there is no such playbook")
    if not event.cwd.startswith("/") or "\0" in event.cwd:
        return _not_started(event, "the directory to start it in is not an absolute path")
    filled = fill_command(play.playbook, event.given)
    if filled.value is None:
        return _not_started(event, "; ".join(problem.render() for problem in filled.problems))
    start = _start(event, play, filled.value)
    summary = f"{event.playbook} is started as {start.session}, as {event.said_by} asked"
    invocation = OpenInvocation(
        *(of_request(event.request), event.playbook, given.at, start.session),
        metadata={"asked_by": event.said_by, "with": event.given, "by_run": event.by_run},
    )
    return (
        start,
        invocation,
        Explain(of_start(start.name), "decided", summary, {"command": list(start.command)}),
    )


def _start(event: PlayRunRequested, play: Play, command: tuple[str, ...]) -> StartRun:
    playbook = play.playbook
    assert playbook is not None
    contract = resolve_contract(playbook=playbook.artifacts, agent=play.defaults)
    name = run_name(event.playbook, event.at, event.request)
    traced = _TRACEPARENT.fullmatch(event.traceparent)
    return StartRun(
        key=event.request,
        session=session_key(play.root_name, name),
        root=play.root_path,
        name=name,
        command=command,
        cwd=event.cwd,
        environment=(("TRACEPARENT", event.traceparent),) if traced else (),
        playbook=event.playbook,
        agent=play.agent,
        contract=None if contract is None else contract_to_json(contract),
        timeout=playbook.timeout,
        grace=playbook.grace,
        metadata=(("asked_by", event.said_by),),
        invocation_id=of_request(event.request),
    )


def explain_move(event: RecordMoved, given: Given) -> Effects:
    """The record was moved with its restore; nothing else follows."""
    moves = ", ".join(f"{old} is now {new}" for old, new in event.moves)
    return (Explain(event.lane, "decided", f"the record was restored, as {event.said_by} asked: {moves}"),)


def _not_started(event: PlayRunRequested, why: str) -> Effects:
    subject = of_start(run_name(event.playbook, event.at, event.request))
    return (Explain(subject, "refused", f"{event.playbook} is not started, as {event.said_by} asked: {why}"),)
