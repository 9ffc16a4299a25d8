"""What follows in a chain run: from where it stands to its next step, or to its end."""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.chain import Chain, Step
from runward.config.contract import contract_to_json, resolve_contract
from runward.config.json_value import JsonValue
from runward.handlers.asking import Asking, ask
from runward.handlers.chains.effects import ChainRunStatus, SetChainRun, SetStep, StepStatus
from runward.handlers.chains.facts import StepStanding
from runward.handlers.chains.stepping import NOT_STARTED, NotStarted, command_of, given_to, judge
from runward.handlers.effects import Effect, Explain, StartRun
from runward.handlers.facts import PlayOf
from runward.handlers.layouts.native import session_key

FAILED_BY: Final[Mapping[StepStatus, str]] = {
    "failed": "chain.failed.step_failed",
    "timed_out": "chain.timed_out.step_timed_out",
    "aborted": "chain.aborted.step_aborted",
    "cancelled": "chain.cancelled.step_cancelled",
}
"""What becomes of a run whose step did not complete."""


class Ending(NamedTuple):
    """Why a run will not complete: the code, whose second word is the status that it ends with, and a sentence."""

    code: str
    summary: str


STARTED: Final = "chain.running.started"
_LATE: Final = Ending("chain.timed_out.deadline", "the time for the whole run is over")


class Position(NamedTuple):
    """A chain run on its way: how its steps stand that have begun or were skipped.

    `secret` is the hash of the event that brings it on. It is in the keys of starts, so that no earlier step can forge
    a run directory that says that a later one has begun. With an `ending`, the steps of `on_failure` are what is left.
    """

    run: str
    chain: Chain
    trigger: Mapping[str, JsonValue]
    fired_by: str
    secret: str
    steps: Mapping[int, StepStanding]
    deadline: float | None
    ending: Ending | None = None

    @property
    def left(self) -> tuple[Step, ...]:
        """The steps that are still to come."""
        steps = self.chain.steps if self.ending is None else self.chain.on_failure
        return tuple(step for step in steps if step.index not in self.steps)


def run_id(key: str) -> str:
    """The id of the chain run that a firing of this key begins."""
    return f"cr_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def onward(position: Position, at: float) -> Asking[tuple[Effect, ...]]:
    """What follows: steps are skipped, or can't be started, up to one that runs; after the last one the run ends."""
    effects: list[Effect] = []
    position = _with_ending(position, at)
    while position.left:
        step = position.left[0]
        given = given_to(position.trigger, _seen(position, step), _about(position))
        judged = judge(step, given)
        if judged.reason is not None:
            position = _with(position, step, "skipped", judged.reason)
            effects += [
                SetStep(position.run, step.index, at, "skipped", judged.reason, judged.why, judged.value),
                Explain(position.run, "decided", f"step {step.id} is skipped: {judged.why or judged.reason}"),
            ]
            continue
        begun = yield from _begin(position, step, given, at)
        if not isinstance(begun, NotStarted):
            return (*effects, *begun)
        effects += [
            SetStep(position.run, step.index, at, "failed", NOT_STARTED, begun.why),
            Explain(position.run, "refused", f"step {step.id} is not started: {begun.why}"),
        ]
        position = _with_ending(_with(position, step, "failed", NOT_STARTED), at)
    code, said = position.ending or Ending("chain.completed.ok", "all steps are over")
    status: ChainRunStatus = code.split(".")[1]  # type: ignore[assignment] # the codes of `FAILED_BY`
    effects.append(SetChainRun(position.run, at, status, code, said, max(position.steps, default=0)))
    return tuple(effects)


def _with(position: Position, step: Step, status: StepStatus, reason: str) -> Position:
    standing = StepStanding(step.index, status, reason, None, 0, None)
    return position._replace(steps={**position.steps, step.index: standing})


def _with_ending(position: Position, at: float) -> Position:
    """Where a step did not complete, or the time is over, only the steps of `on_failure` are left."""
    if position.ending is not None:
        return position
    is_late = position.deadline is not None and at >= position.deadline
    for step in position.chain.steps:
        standing = position.steps.get(step.index)
        if standing is None or standing.status in ("completed", "skipped") or step.continue_on_failure:
            continue
        if is_late and standing.status == "timed_out":
            return position._replace(ending=_LATE)
        said = f"step {step.id} ended {standing.status} ({standing.reason})"
        return position._replace(ending=Ending(FAILED_BY[standing.status], said))
    return position._replace(ending=_LATE) if is_late and position.left else position


def _begin(
    position: Position, step: Step, given: Mapping[str, object], at: float
) -> Asking[tuple[Effect, ...] | NotStarted]:
    play = yield from ask(PlayOf(step.skill))
    playbook = play.playbook
    if playbook is None:
        return NotStarted(play.problem or f"there is no playbook {step.skill}")
    command = command_of(step, playbook, given)
    if isinstance(command, NotStarted):
        return command
    name = f"{position.run}-{step.index}-1"
    session = session_key(play.root_name, name)
    contract = resolve_contract(playbook=playbook.artifacts, agent=play.defaults)
    start = StartRun(
        key=f"{position.run}/{step.index}/1/{position.secret[:16]}",
        session=session,
        root=play.root_path,
        name=name,
        command=command.argv,
        cwd=f"{play.root_path}/{name}/artifacts",
        playbook=step.skill,
        agent=play.agent,
        contract=None if contract is None else contract_to_json(contract),
        timeout=_timeout(position, step.timeout or playbook.timeout, at),
        grace=playbook.grace if step.grace is None else step.grace,
        metadata=(
            ("chain_run_id", position.run),
            ("step_index", step.index),
            ("try", 1),
            ("with", dict(command.values)),
        ),
    )
    said = position.ending or Ending(STARTED, f"step {step.id} runs")
    return (
        start,
        SetStep(position.run, step.index, at, "running", None, None, True, session, 1),
        SetChainRun(position.run, at, "running", said.code, said.summary, step.index),
        Explain(
            position.run, "decided", f"step {step.id} is started as {name}", {"command": list(command.argv)}
        ),
    )


def _timeout(position: Position, own: float | None, at: float) -> float | None:
    """The step's own timeout, and never longer than the run's time that is left. What follows a failure has its own."""
    if position.deadline is None or position.ending is not None:
        return own
    left = max(position.deadline - at, 0.001)
    return left if own is None else min(own, left)


def _about(position: Position) -> dict[str, JsonValue]:
    return {
        "name": position.chain.name,
        "run_id": position.run,
        "event": position.chain.trigger.event,
    }


def _seen(position: Position, step: Step) -> list[Mapping[str, object]]:
    """What expressions see of the steps before this one; of those that were never reached, that they were not."""
    steps = (*position.chain.steps, *position.chain.on_failure)
    return [_shown(each, position.steps.get(each.index)) for each in steps[: step.index]]


def _shown(step: Step, standing: StepStanding | None) -> Mapping[str, object]:
    outcome = None if standing is None else standing.outcome
    return {
        "id": step.id,
        "name": step.skill,
        "status": "pending" if standing is None else standing.status,
        "skipped": standing is not None and standing.status == "skipped",
        "reason": None if standing is None else standing.reason,
        "outcome": outcome,
        "outcomes": [] if outcome is None else [outcome],
        "session_id": None if standing is None else (standing.session_key or "").rpartition("/")[2] or None,
        "try": 0 if standing is None else standing.attempt,
    }
