"""What became of a step that this host ordered from another one: it runs there, it ended, or nobody begins it.

A result comes from another host, so it is read as foreign: what can't be read ends the step as failed.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, get_args

from runward.config.json_value import JsonValue
from runward.handlers.chains.advancing import (
    LATE,
    STARTED,
    Reason,
    ask_person,
    moved,
    onward,
    position_of,
)
from runward.handlers.chains.continuing import WAITED, again_after, could_not_begin
from runward.handlers.chains.continuing import WITHDRAWN as RUN_CANCELLED
from runward.handlers.chains.elsewhere import has_begun, is_elsewhere, taken_by, taken_in_silence
from runward.handlers.fleet.delivered import paths
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    RUNS_ELSEWHERE,
    BeganThere,
    ChainRunOf,
    ChainRunStanding,
    SayMore,
    SetStep,
    StepResult,
    StepStanding,
    StepStatus,
)
from runward.handlers.model.effects import Deciding, Effect, Explain
from runward.handlers.model.fleet import (
    MOST_OUTCOME,
    NOT_APPROVED,
    TOO_LATE,
    OwnHost,
    RemoteStepBegun,
    RemoteStepOver,
    RemoteStepTaken,
    SettleOrder,
    run_of_order,
    try_of,
)
from runward.handlers.model.invocations import EndStatus

DECLINED: Final = "step.failed.declined"
UNREADABLE: Final = "step.failed.unreadable_result"
LOST: Final = "step.failed.host_lost"
WITHDRAWN: Final = "step.failed.withdrawn"

_CODE: Final = re.compile(r"[a-z_]{1,50}(?:\.[a-z_]{1,50}){1,5}")
_MOST_TEXT: Final = 1 << 12
_MOST_NAMED: Final = 20


def _tried(order: str) -> Asking[tuple[ChainRunStanding, StepStanding] | None]:
    """The chain run and the try that an order is for, if it is the last one."""
    of = try_of(order)
    run = None if of is None else (yield from ask(ChainRunOf(of.run)))
    standing = None if run is None or of is None else run.steps.get(of.step)
    if run is None or standing is None or of is None or standing.attempt != of.attempt:
        return None
    return run, standing


def step_taken(event: RemoteStepTaken, given: Given) -> Deciding:
    """Another host took the order: it may begin there from now on."""
    found = yield from _tried(event.id)
    if found is None:
        return ()
    run, standing = found
    there = yield from _there(event, standing)
    if is_elsewhere(standing) and standing.status == "waiting":
        step = position_of(run, given).step(standing.step)
        there = there._replace(began_there="unknown")
        return _runs_there(
            run, standing, there, taken_by(event.host, event.taken_at, f"step {step.id}"), given
        )
    if standing.result.is_in_doubt and standing.result.host is None:
        return _said_more(run, standing, there, taken_in_silence(event.host, event.taken_at, ""), given)
    return ()


def step_begun(event: RemoteStepBegun, given: Given) -> Deciding:
    """The host that took the order says that the step begins there. Only its own time limits end it from now on."""
    found = yield from _tried(event.id)
    if found is None or found[1].result.began_there == "yes":
        return ()
    run, standing = found
    there = (yield from _there(event, standing))._replace(began_there="yes")
    if is_elsewhere(standing):
        step = position_of(run, given).step(standing.step)
        return _runs_there(run, standing, there, f"step {step.id} runs on {event.host}", given)
    if standing.result.is_in_doubt:
        return _said_more(run, standing, there, has_begun(event.host, there.session), given)
    return ()


def _there(event: RemoteStepTaken | RemoteStepBegun, standing: StepStanding) -> Asking[StepResult]:
    """Where the try is: the host and its session, whose name follows from the take."""
    own = (yield from ask(OwnHost())) or ""
    session = run_of_order(own, event.id, event.take)
    at = event.taken_at if isinstance(event, RemoteStepTaken) else standing.result.taken_at
    return standing.result._replace(host=event.host, session=session, taken_at=at)


def _runs_there(
    run: ChainRunStanding, standing: StepStanding, there: StepResult, summary: str, given: Given
) -> tuple[Effect, ...]:
    position = position_of(run, given)
    summary = summary if there.session is None else f"{summary} ({there.session})"
    runs = standing._replace(status="running", reason=RUNS_ELSEWHERE, result=there)
    return (
        SetStep(run.id, given.at, runs, summary, value=True),
        moved(run.id, "running", position.ending or Reason(STARTED, summary), standing.step, given.at),
        Explain(run.id, "decided", summary, {"host": there.host, "session": there.session}),
    )


def _said_more(
    run: ChainRunStanding, standing: StepStanding, there: StepResult, known: str, given: Given
) -> tuple[Effect, ...]:
    """What became known of a try that had ended here before its order was over."""
    step = position_of(run, given).step(standing.step)
    why = _ENDED.get(standing.reason or "", "")
    why = could_not_begin(step) if standing.reason == WAITED else why
    said = f"{why}; {known}"
    more = SayMore(run.id, given.at, standing._replace(result=there), said)
    return more, Explain(run.id, "decided", f"step {step.id}: {said}")


_ENDED: Final = {"run.timed_out.deadline": LATE.summary, "run.cancelled.user": RUN_CANCELLED}
"""Why a try ended whose order was not over, by its reason; `could_not_begin` has the other one."""


def _became_known(event: RemoteStepOver, standing: StepStanding) -> tuple[BeganThere, str]:
    """Whether a try began that had ended here before its order was over, and what became of it."""
    host = event.host or "its host"
    if event.end in ("withdrawn", "declined"):
        whys = _whys(event.declined)
        return "no", "it never began: " + (f"no host began it: {whys}" if whys else "nobody had taken it")
    if event.end == "given_up":
        return "unknown", _given_up(event)
    read = _read(event.result)
    session = _text(None if read is None else read[2].get("session")) or "its session is not known"
    if read is None:
        return "unknown", f"{host} reported a result that this Runward can't read: it may have begun there"
    status, code, result = read
    if _has_begun(status, result):
        return "yes", f"it began on {host} and ended {status} there ({code}, {session})"
    return "unknown", f"{host} ended it as {status} ({code}): had it begun, it was stopped ({session})"


def _has_begun(status: StepStatus, result: Mapping[str, JsonValue]) -> bool:
    """Whether it is certain that it began. An older Runward doesn't say."""
    return result.get("began", status == "completed") is True


def step_over(event: RemoteStepOver, given: Given) -> Deciding:
    """The order is over: its step ends as it did there, and the chain run continues. What it became is known here now."""
    settled = SettleOrder(event.id, given.at)
    found = yield from _tried(event.id)
    if found is None:
        return (settled,)
    run, standing = found
    if not is_elsewhere(standing):
        # The step is over for another reason already.
        if not standing.result.is_in_doubt:
            return (settled,)
        began, known = _became_known(event, standing)
        host = standing.result.host or event.host
        there = standing.result._replace(host=host, began_there=began, is_in_doubt=False)
        return (settled, *_said_more(run, standing, there, known, given))
    position = position_of(run, given)
    step = position.step(standing.step)
    runs: tuple[Effect, ...] = ()
    if event.end == "ended" and standing.status == "waiting":
        # A step that was never reported as taken ran there all the same.
        ran = StepResult(host=event.host)
        runs = _runs_there(run, standing, ran, f"step {step.id} ran on {event.host}", given)
    over, why = _end_of(event, standing, could_not_begin(step))
    effects: tuple[Effect, ...] = (
        settled,
        *runs,
        SetStep(run.id, given.at, over, why, value=True),
        Explain(run.id, "decided", f"step {step.id} ended {over.status}: {why or over.reason}"),
    )
    if event.end == "declined" and step.approval is not None and _is_not_approved(event):
        return (*effects, *ask_person(position, step, over.attempt + 1))
    again = again_after(position, over)
    if again:
        return (*effects, *again)
    return (*effects, *(yield from onward(position.with_step(over))))


def _is_not_approved(event: RemoteStepOver) -> bool:
    """Whether a host would start something else by the name than a person has approved."""
    return any(isinstance(why, str) and why.startswith(NOT_APPROVED) for why in event.declined.values())


def _whys(declined: Mapping[str, JsonValue]) -> str:
    """The reason of each host that never begins it."""
    named = [f"{host}: {str(why)[:_MOST_TEXT]}" for host, why in sorted(declined.items())]
    return "; ".join(named[:_MOST_NAMED])


def _given_up(event: RemoteStepOver) -> str:
    said = [f"{by}: {str(note)[:_MOST_TEXT]}" for by, note in event.declined.items()]
    return f"{event.host} will not come back, says {'; '.join(said[:_MOST_NAMED])}; it may have begun there"


def _end_of(event: RemoteStepOver, standing: StepStanding, too_late: str) -> tuple[StepStanding, str | None]:
    """The state of the step after its order, and why in a sentence; `too_late` is why if its time to begin has passed."""
    never = standing._replace(result=standing.result._replace(began_there="no"))
    if event.end == "declined":
        whys = _whys(event.declined)
        if any(why == TOO_LATE for why in event.declined.values()):
            return never._replace(status="timed_out", reason=WAITED), f"{too_late}; it never began: {whys}"
        return never._replace(status="failed", reason=DECLINED), f"no host begins it: {whys}"
    if event.end == "given_up":
        return standing._replace(status="failed", reason=LOST), _given_up(event)
    if event.end == "withdrawn":
        return never._replace(status="failed", reason=WITHDRAWN), "its order was withdrawn"
    read = _read(event.result)
    if read is None:
        why = f"{event.host} reported a result that this Runward can't read"
        return standing._replace(status="failed", reason=UNREADABLE), why
    status, code, result = read
    summary = _text(result.get("summary"))
    over = standing._replace(
        status=status,
        reason=code,
        outcome=result.get("outcome"),
        result=StepResult(
            delivery=_text(result.get("delivery")),
            exit_code=_number(result.get("exit_code")),
            artifacts=paths(result.get("artifacts")),
            host=event.host,
            session=_text(result.get("session")),
            taken_at=standing.result.taken_at,
            began_there="yes" if _has_begun(status, result) else "unknown",
        ),
    )
    if status == "completed":
        is_cut = result.get("outcome_is_too_long") is True
        return over, f"its outcome is too long to come back from {event.host}" if is_cut else None
    there = f"on {event.host}: {_text(result.get('session')) or 'its session is not known'}"
    return over, there if summary is None else f"{summary} ({there})"


def _read(result: JsonValue) -> tuple[StepStatus, str, Mapping[str, JsonValue]] | None:
    """The status, the reason and the rest of a result; None if they are not what a host says of an end."""
    if not isinstance(result, dict):
        return None
    status, code, outcome = result.get("status"), result.get("reason"), result.get("outcome")
    if status not in get_args(EndStatus) or not isinstance(code, str) or _CODE.fullmatch(code) is None:
        return None
    if outcome is not None and (not isinstance(outcome, dict) or len(json.dumps(outcome)) > MOST_OUTCOME):
        return None
    return status, code, result  # type: ignore[return-value] # one of `EndStatus`


def _text(value: JsonValue) -> str | None:
    return value[:_MOST_TEXT] if isinstance(value, str) else None


def _number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
