"""What became of a step that this host ordered from another one: it runs there, it ended, or nobody begins it.

A result comes from another host, so it is read as foreign: what can't be read ends the step as failed.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, get_args

from runward.config.json_value import JsonValue
from runward.handlers.chains.advancing import (
    STARTED,
    Reason,
    ask_person,
    is_elsewhere,
    moved,
    onward,
    position_of,
)
from runward.handlers.chains.continuing import again_after
from runward.handlers.fleet.delivered import paths
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    RUNS_ELSEWHERE,
    ChainRunOf,
    ChainRunStanding,
    SetStep,
    StepResult,
    StepStanding,
    StepStatus,
)
from runward.handlers.model.effects import Deciding, Effect, Explain
from runward.handlers.model.fleet import (
    MOST_OUTCOME,
    NOT_APPROVED,
    OwnHost,
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


def _ordered(order: str) -> Asking[tuple[ChainRunStanding, StepStanding] | None]:
    """The chain run and the try that an order is for, if another host shall still run it."""
    of = try_of(order)
    run = None if of is None else (yield from ask(ChainRunOf(of.run)))
    standing = None if run is None or of is None else run.steps.get(of.step)
    if run is None or standing is None or of is None or standing.attempt != of.attempt:
        return None
    return (run, standing) if is_elsewhere(standing) else None


def step_taken(event: RemoteStepTaken, given: Given) -> Deciding:
    """Another host took the order: the step runs there."""
    found = yield from _ordered(event.id)
    if found is None:
        return ()
    run, standing = found
    own = (yield from ask(OwnHost())) or ""
    session = run_of_order(own, event.id, event.take)
    return _runs_there(run, standing, event.host, session, given)


def _runs_there(
    run: ChainRunStanding, standing: StepStanding, host: str | None, session: str | None, given: Given
) -> tuple[Effect, ...]:
    if standing.status == "running":
        return ()
    position = position_of(run, given)
    step = position.step(standing.step)
    summary = f"step {step.id} runs on {host or 'another host'}"
    there = StepResult(host=host, session=session)
    runs = standing._replace(status="running", reason=RUNS_ELSEWHERE, result=there)
    return (
        SetStep(run.id, given.at, runs, summary, value=True),
        moved(run.id, "running", position.ending or Reason(STARTED, summary), step.index, given.at),
        Explain(run.id, "decided", summary),
    )


def step_over(event: RemoteStepOver, given: Given) -> Deciding:
    """The order is over: its step ends as it did there, and the chain run continues. What it became is known here now."""
    settled = SettleOrder(event.id, given.at)
    found = yield from _ordered(event.id)
    if found is None:
        return (settled,)  # the step is over for another reason already
    run, standing = found
    # A step that was never reported as taken ran there all the same.
    runs = _runs_there(run, standing, event.host, None, given) if event.end == "ended" else ()
    over, why = _end_of(event, standing)
    position = position_of(run, given)
    step = position.step(standing.step)
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


def _end_of(event: RemoteStepOver, standing: StepStanding) -> tuple[StepStanding, str | None]:
    """The state of the step after its order, and why in a sentence."""
    if event.end == "declined":
        named = [f"{host}: {str(why)[:_MOST_TEXT]}" for host, why in sorted(event.declined.items())]
        why = f"no host begins it: {'; '.join(named[:_MOST_NAMED])}"
        return standing._replace(status="failed", reason=DECLINED), why
    if event.end == "given_up":
        said = [f"{by}: {str(note)[:_MOST_TEXT]}" for by, note in event.declined.items()]
        why = (
            f"{event.host} will not come back, says {'; '.join(said[:_MOST_NAMED])}; it may have begun there"
        )
        return standing._replace(status="failed", reason=LOST), why
    if event.end == "withdrawn":
        return standing._replace(status="failed", reason=WITHDRAWN), "its order was withdrawn"
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
