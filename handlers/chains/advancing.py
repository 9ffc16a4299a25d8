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

FAILED_BY: Final[Mapping[StepStatus, tuple[ChainRunStatus, str]]] = {
    "failed": ("failed", "chain.failed.step_failed"),
    "timed_out": ("timed_out", "chain.timed_out.step_timed_out"),
    "aborted": ("aborted", "chain.aborted.step_aborted"),
    "cancelled": ("cancelled", "chain.cancelled.step_cancelled"),
}
"""What becomes of a run whose step did not complete."""


class Position(NamedTuple):
    """A chain run on its way: what is known of its steps before the next one.

    `secret` is the hash of the event that brings it on. It is in the keys of starts, so that no earlier step can forge
    a run directory that says that a later one has begun.
    """

    run: str
    chain: Chain
    trigger: Mapping[str, JsonValue]
    fired_by: str
    secret: str
    steps: Mapping[int, StepStanding]


def run_id(key: str) -> str:
    """The id of the chain run that a firing of this key begins."""
    return f"cr_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def onward(position: Position, first: int, at: float) -> Asking[tuple[Effect, ...]]:
    """Skip, start or fail the steps from number `first` on, up to one that runs, or end the run."""
    effects: list[Effect] = []
    steps = dict(position.steps)
    facts: dict[str, JsonValue] = {
        "name": position.chain.name,
        "run_id": position.run,
        "event": position.chain.trigger.event,
    }
    for step in position.chain.steps[first:]:
        given = given_to(position.trigger, _seen(position.chain, steps, step.index), facts)
        judged = judge(step, given)
        if judged.reason is not None:
            steps[step.index] = StepStanding(step.index, "skipped", judged.reason, None, 0, None)
            effects += [
                SetStep(position.run, step.index, at, "skipped", judged.reason, judged.why, judged.value),
                Explain(position.run, "decided", f"step {step.id} is skipped: {judged.why or judged.reason}"),
            ]
            continue
        begun = yield from _begin(position, step, given, at)
        return (*effects, *begun)
    last = len(position.chain.steps)
    effects.append(
        SetChainRun(position.run, at, "completed", "chain.completed.ok", "all steps are over", last)
    )
    return tuple(effects)


def _begin(
    position: Position, step: Step, given: Mapping[str, object], at: float
) -> Asking[tuple[Effect, ...]]:
    play = yield from ask(PlayOf(step.skill))
    playbook = play.playbook
    if playbook is None:
        return _not_started(position, step, at, play.problem or f"there is no playbook {step.skill}")
    command = command_of(step, playbook, given)
    if isinstance(command, NotStarted):
        return _not_started(position, step, at, command.why)
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
        timeout=playbook.timeout,
        grace=playbook.grace,
        metadata=(
            ("chain_run_id", position.run),
            ("step_index", step.index),
            ("try", 1),
            ("with", dict(command.values)),
        ),
    )
    return (
        start,
        SetStep(position.run, step.index, at, "running", None, None, True, session, 1),
        SetChainRun(position.run, at, "running", "chain.running.started", f"step {step.id} runs", step.index),
        Explain(
            position.run, "decided", f"step {step.id} is started as {name}", {"command": list(command.argv)}
        ),
    )


def _not_started(position: Position, step: Step, at: float, why: str) -> tuple[Effect, ...]:
    status, code = FAILED_BY["failed"]
    return (
        SetStep(position.run, step.index, at, "failed", NOT_STARTED, why),
        SetChainRun(position.run, at, status, code, f"step {step.id} was not started: {why}", step.index),
        Explain(position.run, "refused", f"step {step.id} is not started: {why}"),
    )


def _seen(chain: Chain, steps: Mapping[int, StepStanding], before: int) -> list[Mapping[str, object]]:
    """The steps before number `before`, as expressions see them."""
    seen: list[Mapping[str, object]] = []
    for step in chain.steps[:before]:
        standing = steps[step.index]
        outcome = standing.outcome
        seen.append(
            {
                "id": step.id,
                "name": step.skill,
                "status": standing.status,
                "skipped": standing.status == "skipped",
                "reason": standing.reason,
                "outcome": outcome,
                "outcomes": [] if outcome is None else [outcome],
                "session_id": (standing.session_key or "").rpartition("/")[2] or None,
                "try": standing.attempt,
            }
        )
    return seen
