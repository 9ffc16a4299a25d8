"""A person asks for a playbook's command: its current declaration is filled in, and the run is requested or refused."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Final

from runward.config.contract import contract_to_json, resolve_contract
from runward.config.playbook import fill_command
from runward.handlers.foreign_json import sane_time
from runward.handlers.invocations.ids import of_request
from runward.handlers.layouts.native import session_key
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding, Effects, Explain
from runward.handlers.model.invocations import OpenInvocation
from runward.handlers.model.requests import PlayRunRequested
from runward.handlers.model.starts import Play, PlayOf, StartRun
from runward.handlers.requests.subjects import of_start

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


def run(event: PlayRunRequested, given: Given) -> Deciding:
    """A person asks for a playbook's command: its current declaration is filled in, and the run is requested or refused.

    Have the playbook's command started, or say why not.
    """
    play = yield from ask(PlayOf(event.playbook))
    if play.problem is not None or play.playbook is None:
        return _refused(event, play.problem or "there is no such playbook")
    if not event.cwd.startswith("/") or "\0" in event.cwd:
        return _refused(event, "the directory to start it in is not an absolute path")
    filled = fill_command(play.playbook, event.given)
    if filled.value is None:
        return _refused(event, "; ".join(problem.render() for problem in filled.problems))
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


def _refused(event: PlayRunRequested, why: str) -> Effects:
    subject = of_start(run_name(event.playbook, event.at, event.request))
    return (Explain(subject, "refused", f"{event.playbook} is not started, as {event.said_by} asked: {why}"),)
