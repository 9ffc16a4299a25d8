"""What this host does with an order that it took: it begins the step, or never will; and how it ended.

The database gave the order to this host alone, and never gives it to another one by itself. So an order is declined only if
nothing was started for it: once its start is recorded, it ends here, whatever happens.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from runward.config.contract import contract_to_json, resolve_contract
from runward.config.duration import MAX_DURATION_S
from runward.config.json_value import MAX_INTEGER, JsonValue
from runward.handlers.bundle.signatures import NoLibrary
from runward.handlers.chains.advancing import ORDER_FORMAT
from runward.handlers.chains.continuing import Verdict, all_left_by, verdict_on
from runward.handlers.chains.stepping import NotStarted, Ready, Rendered, command_with
from runward.handlers.fleet.delivered import told
from runward.handlers.fleet.offering import hash_of
from runward.handlers.fleet.signing import signer_of
from runward.handlers.invocations import completed, of_request
from runward.handlers.layouts.native import session_key
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding, Effects, Emit, Explain
from runward.handlers.model.fleet import (
    MOST_OUTCOME,
    NOT_APPROVED,
    TOO_LATE,
    Accepted,
    AcceptedNow,
    BeginTaken,
    BegunBefore,
    DeclineTaken,
    EndTaken,
    OwnHost,
    RemoteStepCancelled,
    RemoteStepOrdered,
    Taken,
    TakenAs,
    TakenOf,
    run_of_order,
    size_in_database,
)
from runward.handlers.model.invocations import (
    ActionOf,
    InvocationOf,
    OpenInvocation,
    Play,
    PlayOf,
    StartedEarlier,
    StartFailed,
    StartRun,
    WithdrawStart,
)
from runward.handlers.model.requests import SessionCancelRequested
from runward.handlers.model.sessions import AttemptStarted, SessionFinished, SessionOf
from runward.handlers.subjects import of_start

_MOST_TEXT: Final = 1 << 12
_MOST_DEEP: Final = 1000
_CANCELLED: Final = "its origin cancelled it before it began"


class Ordered(NamedTuple):
    """What an origin wants, read from the body of its order. Durations are seconds.

    `chain`, `run`, `step` and `attempt` say what it is for. They are shown and decide nothing. No run knows the `secret` of
    another try.
    """

    kind: Literal["skill", "action"]
    name: str
    values: dict[str, JsonValue]
    environment: dict[str, str]
    cwd: str | None
    timeout: float | None
    grace: float | None
    stale_after: float | None
    chain: str
    run: str
    step: str
    attempt: int
    secret: str
    depth: int
    approved: Mapping[str, str] | None
    """If a person approved it: the hash of what each host may start, by its name."""


_VERSION: Final = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,2}")


def _needed(body: Mapping[str, JsonValue]) -> str:
    """What an order needs that this Runward can't read."""
    needs = body.get("needs")
    if isinstance(needs, str) and _VERSION.fullmatch(needs):
        return f"needs Runward ≥ {needs}"
    return f"has the format {json.dumps(body.get('format'))[:20]}, and this Runward knows {ORDER_FORMAT}"


_SECRET: Final = re.compile(r"[0-9A-Za-z]{1,64}")


def ordered(body: JsonValue) -> Ordered | str:
    """What the body of an order says, or why this host can't begin it."""
    if not isinstance(body, dict):
        return "its body is not an object"
    if body.get("format") != ORDER_FORMAT:
        return f"it {_needed(body)}: upgrade Runward here"
    kind: Literal["skill", "action"] = "skill" if body.get("kind") == "skill" else "action"
    name, cwd = body.get("name"), body.get("cwd")
    values, environment, attempt = body.get("with"), body.get("env"), body.get("attempt")
    seconds = [body.get(each) for each in ("timeout", "grace", "stale_after")]
    approved, depth = body.get("approved"), body.get("depth", 0)
    words, secret = [body.get(each) for each in ("chain", "run", "step")], body.get("secret")
    if (
        body.get("kind") != kind
        or not isinstance(name, str)
        or not isinstance(values, dict)
        or not isinstance(environment, dict)
        or not all(isinstance(each, str) for each in environment.values())
        or not (cwd is None or isinstance(cwd, str))
        or not all(each is None or _is_duration(each) for each in seconds)
        or not all(isinstance(each, str) and len(each) <= _MOST_TEXT for each in words)
        or not (isinstance(secret, str) and _SECRET.fullmatch(secret))
        or not (approved is None or isinstance(approved, dict))
        or not (isinstance(depth, int) and 0 <= depth <= _MOST_DEEP)
        or not isinstance(attempt, int)
        or not 0 < attempt <= MAX_INTEGER
    ):
        return "its body can't be read"
    timeout, grace, stale_after = (None if each is None else float(each) for each in seconds)  # type: ignore[arg-type] # numbers
    chain, run, step = map(str, words)
    named = {key: str(each) for key, each in environment.items()}
    limits = (timeout, grace, stale_after)
    hashes = None if not isinstance(approved, dict) else {host: str(each) for host, each in approved.items()}
    return Ordered(kind, name, values, named, cwd, *limits, chain, run, step, attempt, secret, depth, hashes)


def _is_duration(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_DURATION_S


def begin_taken(event: RemoteStepOrdered, given: Given) -> Deciding:
    """This host took an order: the step is started by this host's own settings, or never begins here."""
    name = run_of_order(event.origin, event.id, event.take)
    # A store that was restored, or a second request under another name, changes nothing of what is recorded.
    if (yield from ask(TakenOf(event.origin, event.id, event.take))) is not None:
        return (Explain(of_start(name), "refused", "this take of the order is decided already"),)
    wanted = ordered(event.body)
    if event.cancelled:
        return _declined(event, name, given, _CANCELLED)
    if isinstance(wanted, str):
        return _declined(event, name, given, wanted)
    # No honest database gives it to this host again.
    if (yield from ask(BegunBefore(event.origin, event.id))):
        return _declined(event, name, given, "this host has begun it before")
    if event.begin_within is not None and given.at - event.at >= event.begin_within:
        return _declined(event, name, given, TOO_LATE)
    try:
        signer = signer_of(event.origin, event.id, event.body, (yield from ask(OwnHost())))
    except NoLibrary:
        signer = None
    accepted = yield from ask(AcceptedNow(event.origin, wanted.kind, wanted.name, signer))
    if accepted is None:
        how = "as it is not signed by a key that is known here" if signer is None else f"signed by {signer}"
        why = f"no [[fleet.accept]] here has {wanted.kind} {wanted.name!r} from {event.origin}, {how}"
        return _declined(event, name, given, why)
    refused = _not_allowed(wanted, accepted)
    if refused is not None:
        return _declined(event, name, given, refused)
    play = yield from (ask(PlayOf(wanted.name)) if wanted.kind == "skill" else ask(ActionOf(wanted.name)))
    if wanted.approved is not None:
        own = yield from ask(OwnHost())
        if own is None or wanted.approved.get(own) != (hash_of(play) or ""):
            return _declined(event, name, given, f"{NOT_APPROVED}: {wanted.kind} {wanted.name!r}")
    ready = command_with(play, Rendered(wanted.values, wanted.environment, wanted.cwd))
    if isinstance(ready, NotStarted):
        return _declined(event, name, given, ready.why)
    return _begun(event, name, given, wanted, accepted, play, ready)


def _not_allowed(wanted: Ordered, accepted: Accepted) -> str | None:
    for what, is_there in (("env", bool(wanted.environment)), ("cwd", wanted.cwd is not None)):
        if is_there and what not in accepted.allow:
            return f"it has {what}, which [[fleet.accept]] does not allow here"
    if any(each.startswith("RUNWARD_") or "=" in each or not each for each in wanted.environment):
        return "env has a variable that no step may set"
    if wanted.cwd is not None and (not wanted.cwd.startswith("/") or "\0" in wanted.cwd):
        return "cwd is not an absolute path"
    return None


def _declined(event: RemoteStepOrdered | RemoteStepCancelled, name: str, given: Given, why: str) -> Effects:
    return (
        DeclineTaken(event.origin, event.id, event.take, why, given.at),
        Explain(of_start(name), "refused", f"the order {event.id} of {event.origin} is not begun: {why}"),
    )


def _begun(
    event: RemoteStepOrdered,
    name: str,
    given: Given,
    wanted: Ordered,
    accepted: Accepted,
    play: Play,
    ready: Ready,
) -> Effects:
    playbook = play.playbook
    assert playbook is not None, "its command is known"
    session = session_key(play.root_name, name)
    # The secret keeps an earlier try, which knows the order's id, from forging a run directory that says that this one has
    # begun. It is the origin's, so a restored store here still recognizes a run that began earlier.
    key = f"fleet/{event.origin}/{event.id}/{event.take}/{wanted.secret}"
    contract = resolve_contract(playbook=playbook.artifacts, agent=play.defaults)
    limits = [each for each in (wanted.timeout or playbook.timeout, accepted.longest) if each is not None]
    asked: Mapping[str, JsonValue] = {
        "fleet_origin": event.origin,
        "order": event.id,
        "chain": wanted.chain,
        "chain_run_id": wanted.run,
        "step": wanted.step,
        "try": wanted.attempt,
        "with": dict(ready.values),
    }
    start = StartRun(
        key=key,
        session=session,
        root=play.root_path,
        name=name,
        command=ready.argv,
        cwd=ready.cwd or f"{play.root_path}/{name}/artifacts",
        environment=ready.environment,
        playbook=wanted.name if wanted.kind == "skill" else None,
        agent=play.agent,
        contract=None if contract is None else contract_to_json(contract),
        timeout=min(limits, default=None),
        grace=playbook.grace if wanted.grace is None else wanted.grace,
        stale_after=wanted.stale_after,
        metadata=tuple(asked.items()),
        kind="step",
        invocation_id=of_request(key),
    )
    summary = f"{event.origin} ordered it: step {wanted.step} of {wanted.chain} ({wanted.run})"
    by: dict[str, JsonValue] = {"accepted_by": [*accepted.entries]}
    return (
        BeginTaken(event.origin, event.id, event.take, session, given.at, wanted.depth),
        start,
        OpenInvocation(of_request(key), wanted.name, given.at, session, metadata={**asked, **by}),
        Explain(of_start(name), "decided", summary, {"command": list(ready.argv), **by}),
    )


def end_taken(event: SessionFinished | StartFailed | StartedEarlier, given: Given) -> Deciding:
    """The run of another host's step is judged, or can never begin: its origin is told how it ended."""
    taken = yield from ask(TakenAs(event.session_key))
    if taken is None or taken.state != "begun":
        return ()
    verdict = yield from verdict_on(event)
    if verdict is None or verdict.status == "running":
        return ()
    # What was to be started may have begun before it vanished. So this is an end, and never gives the order back.
    if isinstance(event, StartFailed):
        return (_over(taken, verdict, given),)
    # From here on it is certain that it began.
    left = yield from all_left_by(event.session_key, verdict.attempt)
    outcome = None if left.outcome is None else dict(left.outcome)
    # Its origin counts characters, as JSON writes them in ASCII.
    size = max(size_in_database(outcome), len(json.dumps(outcome)))
    result = left.result
    verdict = verdict._replace(why=left.why)
    more: dict[str, JsonValue] = {
        "began": True,
        "outcome": outcome if size <= MOST_OUTCOME else None,
        "outcome_is_too_long": size > MOST_OUTCOME,
        "delivery": result.delivery,
        "exit_code": result.exit_code,
        "artifacts": told(result.verification),
    }
    return (_over(taken, verdict, given, more),)


def _over(
    taken: Taken, verdict: Verdict, given: Given, more: Mapping[str, JsonValue] | None = None
) -> EndTaken:
    result: dict[str, JsonValue] = {
        "format": ORDER_FORMAT,
        "status": verdict.status,
        "reason": verdict.code,
        "summary": None if verdict.why is None else verdict.why[:_MOST_TEXT],
        "session": (taken.session_key or "").rpartition("/")[2],
        # Under which its host reports it, with the hashes of its artifacts once they are computed.
        "key": taken.session_key,
        "began": None,
        **(more or {}),
    }
    return EndTaken(taken.origin, taken.id, taken.take, result, given.at)


def cancel_taken(event: RemoteStepCancelled, given: Given) -> Deciding:
    """The origin does not want the step any more: it never begins, or is ended."""
    taken = yield from ask(TakenOf(event.origin, event.id, event.take))
    if taken is None:
        # The order itself may come later. It is decided now, so it does not begin then.
        return _declined(event, run_of_order(event.origin, event.id, event.take), given, _CANCELLED)
    if taken.state != "begun" or taken.session_key is None:
        return ()
    session = yield from ask(SessionOf(taken.session_key))
    effects: Effects = ()
    if session is None:
        verdict = Verdict("cancelled", "run.cancelled.user", "it had not begun")
        effects = (
            WithdrawStart(taken.session_key, given.at, _CANCELLED),
            _over(taken, verdict, given),
        )
        invocation = yield from ask(InvocationOf(taken.session_key))
        if invocation is not None:
            key, code = taken.session_key, verdict.code
            effects += yield from completed(invocation, given.at, "cancelled", code, session_key=key)
    if session is None or session.status == "running":
        # Even if it is not a session yet: the job that opens it may be in progress, and then comes before this.
        attempt = 1 if session is None else session.attempt
        effects += (Emit(_cancelled(f"{event.key}/step", taken.session_key, attempt, event.origin, given)),)
    return effects


def end_withdrawn(event: AttemptStarted, given: Given) -> Deciding:
    """A session began: if another host cancelled it too late to be withdrawn, it is ended."""
    taken = yield from ask(TakenAs(event.session_key))
    if taken is None or taken.state == "begun" or event.attempt != 1:
        return ()
    return (Emit(_cancelled(f"{event.key}/late", event.session_key, 1, taken.origin, given)),)


def _cancelled(key: str, session: str, attempt: int, origin: str, given: Given) -> SessionCancelRequested:
    return SessionCancelRequested(
        request=key,
        at=given.at,
        session_key=session,
        attempt=attempt,
        reason="its origin does not want it any more",
        said_by=origin,
    )
