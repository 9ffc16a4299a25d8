"""What must hold of every chain run, and a plain model of how it must end. It shares no code with the machine.

The tables of states are the machine's own: they are drawn in the documentation, and the model asks whether it keeps to them.
"""

from collections.abc import Mapping
from typing import Final

from tests.handlers.chains.chain_rows import NOT_OVER, OPEN, Asked, Broken, Row, Try
from tests.handlers.chains.chain_world import World
from tests.handlers.chains.drawn_chains import NOT_STARTED, DrawnChain, DrawnStep, Seen

from runward.config.json_value import JsonValue
from runward.handlers.model.approvals import DecideApproval
from runward.handlers.model.chains import (
    RUN_STATUSES,
    STEP_STATUSES,
    ChainFired,
    RecordFiring,
    SetChainRun,
    SetStep,
)
from runward.handlers.model.effects import Effect, Explain
from runward.handlers.model.events import Event
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.schedules import TimerRang, TimerSet

_FIRED: Final = ("firing.fired.event", "firing.fired.by_hand")
_SKIPPED: Final = (
    "firing.skipped.paused",
    "firing.skipped.duplicate",
    "firing.skipped.storm",
    "firing.skipped.depth",
)
_LATE: Final = "chain.timed_out.deadline"
_ENDED_BY: Final = {
    "failed": "chain.failed.step_failed",
    "timed_out": "chain.timed_out.step_timed_out",
    "aborted": "chain.aborted.step_aborted",
    "cancelled": "chain.cancelled.step_cancelled",
}
_BY_PEOPLE: Final = ("chain.aborted.denied", "chain.aborted.approval_expired")
_CANCELLED: Final = ("chain.cancelled.user", "chain.cancelled.superseded")


_ROUNDED: Final = 1e-6
"""Seconds by which a sum may differ after a step of the clock."""


def _must(holds: bool, said: str) -> None:
    if not holds:
        raise Broken(said)


LEAST: Final = 0.001
"""Seconds that a launcher gets at least."""


class ChainLaws:
    """The laws of one history."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.laws = self

    def _chain(self, run: Row) -> DrawnChain:
        return self._world.chains[run.opened.chain]

    # at each effect

    def opened(self, run: Row) -> None:
        opened, timeout = run.opened, self._chain(run).timeout
        _must(opened.depth <= 9, f"{opened.id} is the {opened.depth}th that fired one another")
        _must(
            opened.deadline == (None if timeout is None else opened.created_at + timeout),
            "its deadline is another one",
        )

    def step_set(self, run: Row, before: Try | None, effect: SetStep) -> None:
        step = effect.standing
        said = f"step {step.step} of {effect.run}"
        if before is None or before.attempt != step.attempt:
            _must(step.status in (*STEP_STATUSES, "skipped", "failed"), f"{said} begins as {step.status}")
            _must(before is None or before.status not in NOT_OVER, f"{said} has two tries at once")
            _must(step.attempt == (1 if before is None else before.attempt + 1), f"{said} leaves a try out")
        else:
            following = STEP_STATUSES.get(before.status, ())
            _must(step.status in following, f"{said} is {step.status} after {before.status}")
        _must(
            step.status in (*NOT_OVER, "completed") or bool(step.reason),
            f"{said} ends for no reason",
        )
        if step.status == "skipped":
            _must(
                step.reason in ("step.skipped.condition_false", "step.skipped.undefined")
                and bool(effect.reason_summary),
                f"{said} is skipped for no reason",
            )

    def run_set(self, run: Row, effect: SetChainRun) -> None:
        following = RUN_STATUSES.get(run.status, ())
        _must(effect.status in following, f"{effect.run} is {effect.status} after {run.status}")
        word = effect.reason_code.split(".")[1]
        _must(bool(effect.reason_summary), f"{effect.run} is {effect.status} for no reason")
        _must(effect.status in (word, "running"), f"{effect.run} is {effect.status}: {effect.reason_code}")
        if effect.reason_code == _LATE and run.reason != _LATE:
            deadline = run.opened.deadline
            _must(deadline is not None and effect.at >= deadline, f"{effect.run} is late before its deadline")
            run.late = True
        if effect.status not in OPEN:
            left = [index for index, tries in run.steps.items() if tries[-1].status in NOT_OVER]
            may_run = effect.reason_code in _CANCELLED
            _must(
                not left or (may_run and all(run.steps[index][-1].status == "running" for index in left)),
                f"{effect.run} is over, and its steps {left} are not",
            )

    def start(self, run: Row, effect: StartRun) -> None:
        told = dict(effect.metadata)
        index, attempt = told["step_index"], told["try"]
        assert isinstance(index, int)
        assert isinstance(attempt, int)
        chain, world = self._chain(run), self._world
        step, said = chain.step(index), f"try {attempt} of step {index} of {run.opened.id}"
        _must(effect.session not in world.commands, f"{said} runs twice")
        _must(attempt <= step.attempts, f"{said}: it may be tried {step.attempts} times")
        _must(run.is_open, f"{said} begins, and its run is {run.status}")
        busy = [each for each in run.steps if run.steps[each][-1].status == "running"]
        _must(not busy, f"{said} begins beside {busy}")
        others = world.running
        _must(len(others) < world.slots, f"{said} begins, and {len(others)} steps run already")
        before = [
            each for each in world.waiters if each < (run.opened.created_at, run.opened.id, index, attempt)
        ]
        _must(
            len(before) < world.slots - len(others),
            f"{said} takes the slot of {before[0] if before else None}",
        )
        self._has_its_turn(run, index, said)
        if step.needs_approval:
            self._is_approved(run, index, said)
        self._timeout(run, step, effect, said)
        _must(effect.stale_after == step.stale_after, f"{said} may be silent for {effect.stale_after} s")

    def _has_its_turn(self, run: Row, index: int, said: str) -> None:
        """Runs of one key run one after the other; only what follows the end of a wait runs beside the others."""
        if run.opened.turn is None or not self._chain(run).is_main(index):
            return
        beside = [
            each.opened.id
            for each in self._world.runs.values()
            if each.is_open and (each.opened.chain, each.opened.turn) == (run.opened.chain, run.opened.turn)
            if each is not run and any(each.steps[step][-1].status == "running" for step in each.steps)
            if any(tries[-1].session for step, tries in each.steps.items() if self._chain(run).is_main(step))
        ]
        _must(not beside, f"{said} begins, and it is the turn of {beside}")

    def _is_approved(self, run: Row, index: int, said: str) -> None:
        asked = [
            each
            for each in self._world.approvals.values()
            if (each.row.run, each.row.step) == (run.opened.id, index)
        ]
        _must(bool(asked) and asked[-1].status == "approved", f"{said} begins, and nobody approved it")

    def _timeout(self, run: Row, step: DrawnStep, effect: StartRun, said: str) -> None:
        own = step.timeout or 120.0
        deadline = run.opened.deadline
        if deadline is None or not self._chain(run).is_main(step.index):
            _must(effect.timeout == own, f"{said} has {effect.timeout} s, and not {own}")
            return
        left = deadline - self._world.now
        _must(left > 0.0, f"{said} begins, and the time of the run is over")
        _must(
            effect.timeout == min(own, max(left, LEAST)), f"{said} has {effect.timeout} s, and the run {left}"
        )

    def decided_on(self, asked: Asked, effect: DecideApproval) -> None:
        world, row = self._world, asked.row
        _must(asked.status == "asked", f"{row.id} is decided twice")
        run = world.runs[row.run]
        rule = self._chain(run).step(row.step)
        if effect.decision == "approved":
            assert isinstance(row.shown, dict)
            argv = row.shown["argv"]
            assert isinstance(argv, list)
            _must(argv[:2] == list(world.words[:2]), f"{row.id} is approved, and would run something else")
        by_time = effect.said_by == "on_timeout"
        if by_time:
            _must(row.expires_at is not None and world.now >= row.expires_at, f"{row.id} expired too early")
            _must(effect.decision != "approved" or rule.approves_late, f"{row.id}: nobody approved of it")
        else:
            _must(row.expires_at is None or world.now < row.expires_at, f"{row.id} is decided after its time")
            _must(
                not (rule.not_by_launcher and effect.said_by == run.opened.said_by),
                f"{row.id} is decided by who fired the chain",
            )

    # after each job

    def done(self, event: Event, effects: tuple[Effect, ...]) -> None:
        if isinstance(event, ChainFired):
            fired = [each for each in effects if isinstance(each, RecordFiring)]
            _must(len(fired) == 1, f"of the firing {event.key} {len(fired)} results are kept")
            _must(fired[0].result in (*_FIRED, *_SKIPPED) and bool(fired[0].why), "it is fired for no reason")
            _must((fired[0].run is not None) == (fired[0].result in _FIRED), "a firing and its run differ")
        for each in effects:
            if isinstance(each, SetStep) and each.standing.status == "skipped":
                named = any(isinstance(said, Explain) and "is skipped" in said.summary for said in effects)
                _must(named, f"why does not know that step {each.standing.step} of {each.run} is skipped")
        if isinstance(event, TimerRang):
            self._rang(event)

    def _rang(self, event: TimerRang) -> None:
        word, _, rest = event.what.partition(" ")
        if word == "expires":
            row = self._world.approvals[rest].row
            run = self._world.runs[row.run]
            still = (
                self._world.approvals[rest].status == "asked"
                and run.is_open
                and run.steps[row.step][-1].status == "waiting_approval"
            )
            _must(not still, f"{rest} still waits, and its time is over")
            return
        run = self._world.runs[event.subject]
        if not run.is_open:
            return
        if word == "deadline":
            main = [
                index
                for index, tries in run.steps.items()
                if self._chain(run).is_main(index) and tries[-1].status in ("waiting", "waiting_approval")
            ]
            _must(not main, f"the time of {event.subject} is over, and its steps {main} wait")
            return
        index, attempt = map(int, rest.split())
        last = run.steps[index][-1]
        is_it = last.attempt == attempt and last.status == "waiting"
        if word in ("begin", "turn"):
            for_slot = last.reason == "step.waiting.slot"
            is_meant = word == "begin" or not self._chain(run).step(index).needs_approval
            waits = is_it and ((for_slot and is_meant) or run.waits)
            _must(not waits, f"step {index} of {event.subject} still waits, and could not begin in time")
        else:
            idle = is_it and last.reason != "step.waiting.slot"
            _must(not idle, f"step {index} of {event.subject} is not tried again, and its pause is over")

    # whenever nothing is left to do for now

    def at_rest(self) -> None:
        """Each open run waits for something that exists."""
        world = self._world
        timers: dict[tuple[str, str], float] = {}
        for jobs in world.lanes.values():
            for job in jobs:
                if not isinstance(job.event, TimerSet):
                    return  # something is tried again later
                timers[job.event.subject, job.event.what] = job.due
        running, waiters = world.running, world.waiters
        _must(not waiters or len(running) >= world.slots, f"a slot is free, and {waiters} wait")
        for key, each in world.commands.items():
            run = world.runs[str(dict(each.start.metadata)["chain_run_id"])]
            is_wanted = run.is_open or each.state != "runs" or each.to_end
            _must(is_wanted, f"{key} runs, and its chain run is {run.status}")
        for run in world.runs.values():
            if run.is_open:
                self._waits_for_something(run, timers)
            for tries in run.steps.values():
                if tries[-1].status == "running":
                    command = world.commands[tries[-1].session or ""]
                    _must(command.state in ("ordered", "runs"), f"{run.opened.id} runs what is over")

    def _waits_for_something(self, run: Row, timers: Mapping[tuple[str, str], float]) -> None:
        name, chain = run.opened.id, self._chain(run)
        pending = [(index, tries[-1]) for index, tries in run.steps.items() if tries[-1].status in NOT_OVER]
        _must(len(pending) == 1, f"{name} is {run.status} for ever: {run.reason}")
        ((index, last),) = pending
        step = chain.step(index)
        _must(
            (last.status == "waiting_approval") == (run.status == "waiting_approval"), f"{name}: {run.status}"
        )
        if run.opened.deadline is not None and chain.is_main(index) and last.status != "running":
            due = timers.get((name, "deadline"))
            _must(due == run.opened.deadline, f"{name} waits, and nothing ends it at its deadline")
        if last.status == "waiting_approval":
            asked = [each for each in self._world.approvals.values() if each.row.run == name]
            _must(
                any(each.status == "asked" for each in asked),
                f"{name} waits for a person, and nobody is asked",
            )
            open_one = next(each for each in asked if each.status == "asked")
            if step.expires is not None:
                due = timers.get((f"files:{name}", f"expires {open_one.row.id}"))
                _must(due == open_one.row.expires_at, f"{open_one.row.id} never expires")
        elif last.status == "waiting":
            self._is_let_on(run, index, last, timers)

    def _is_let_on(self, run: Row, index: int, last: Try, timers: Mapping[tuple[str, str], float]) -> None:
        """A step that waits: for its run's turn, for a slot, or for the time of its next try."""
        name, step = run.opened.id, self._chain(run).step(index)
        for_slot = last.reason == "step.waiting.slot"
        if run.waits:
            ahead = [
                each
                for each in self._world.runs.values()
                if each.is_open
                and each.opened.chain == run.opened.chain
                and each.opened.turn == run.opened.turn
                and each.opened.id != name
            ]
            _must(any(not each.waits for each in ahead), f"{name} waits for a turn that nobody has")
        elif not for_slot:
            _must((name, f"try {index} {last.attempt}") in timers, f"{name} waits for a try that never comes")
        if step.start_within is not None and (for_slot or run.waits):
            words = ("turn",) if run.waits else ("begin",) if step.needs_approval else ("turn", "begin")
            found = [timers.get((name, f"{word} {index} {last.attempt}")) for word in words]
            due = [each for each in found if each is not None]
            in_time = bool(due) and min(due) <= last.since + step.start_within + _ROUNDED
            _must(in_time, f"{name} may wait to begin for ever")

    # in the end

    def at_end(self) -> None:
        """Every run is over, no slot is taken, and each run ended as the model says."""
        world = self._world
        _must(not world.running and not world.waiters, "steps are left that run or wait")
        for run in world.runs.values():
            _must(not run.is_open, f"{run.opened.id} is not over")
            _Judge(world, run, self._chain(run)).check()


class _Judge:
    """Works out from a chain and from what happened outside how a run and its steps must have ended."""

    def __init__(self, world: World, run: Row, chain: DrawnChain) -> None:
        self._world, self._run, self._chain = world, run, chain
        assert isinstance(run.opened.trigger, dict)
        self._trigger: Mapping[str, JsonValue] = run.opened.trigger
        self._seen = [Seen(each.id) for each in (*chain.steps, *chain.on_failure)]
        self._cancelled = run.reason in _CANCELLED

    def _must(self, holds: bool, said: str) -> None:
        _must(holds, f"{self._run.opened.id} of {self._chain.name}: {said}")

    def check(self) -> None:
        run = self._run
        if run.opened.depth > 8:
            self._must(run.reason == "chain.failed.depth" and not run.steps, "it goes on, too deep")
            return
        key = self._chain.key
        if key is not None and key.means(self._trigger, ()) is None:
            self._must(run.reason == _ENDED_BY["failed"] and not run.steps, "its key is undefined")
            return
        ending: str | None = None
        for step in self._chain.steps:
            ending = self._walk(step, ending)
        if run.late and ending is None:
            ending = _LATE
        for step in self._chain.on_failure:
            if ending is None:
                self._must(step.index not in run.steps, f"step {step.id} ran, and nothing had failed")
            else:
                self._walk(step, None)
        if not self._cancelled:
            self._must(
                run.reason == (ending or "chain.completed.ok"), f"it is {run.reason}, and not {ending}"
            )

    def _walk(self, step: DrawnStep, ending: str | None) -> str | None:
        """Check how a step stands; returns how the run ends by it."""
        tries = self._run.steps.get(step.index)
        if tries is None:
            is_main = self._chain.is_main(step.index)
            may_lack = self._cancelled or ending is not None or (is_main and self._run.late)
            self._must(may_lack, f"step {step.id} was never reached")
            return ending
        self._must(ending is None, f"step {step.id} was reached after {ending}")
        last, seen = tries[-1], self._seen[: step.index]
        found = True if step.condition is None else step.condition.means(self._trigger, seen)
        if last.status == "skipped":
            self._must(found is not True, f"step {step.id} is skipped, and its condition is true")
            code = "step.skipped.undefined" if found is None else "step.skipped.condition_false"
            self._must(last.reason == code, f"step {step.id} is skipped: {last.reason}, and not {code}")
        elif not last.was_judged and last.status != "failed":
            waited = last.reason in (
                "step.timed_out.start_within",
                "run.timed_out.deadline",
                "run.cancelled.user",
            )
            self._must(waited and step.index == 0, f"step {step.id} was never judged: {last.reason}")
        else:
            self._must(found is True, f"step {step.id} is {last.status}, and its condition is not true")
            self._tries(step, tries, step.value.means(self._trigger, seen) is not None)
        self._seen[step.index] = Seen(step.id, last.status, last.outcome)
        return self._ending(step, last)

    def _tries(self, step: DrawnStep, tries: list[Try], can_start: bool) -> None:
        """Each try ended as its command did, and was followed by another one where that was written."""
        if not can_start:
            only = len(tries) == 1 and tries[0].session is None and tries[0].reason == NOT_STARTED
            self._must(
                only, f"step {step.id} can't be started, and is {tries[-1].status}: {tries[-1].reason}"
            )
            return
        for each in tries:
            command = None if each.session is None else self._world.commands[each.session]
            if command is None:
                self._never_ordered(step, each)
            elif self._cancelled and each.reason == "run.cancelled.user":
                pass  # whatever its command came to, it was told to end
            elif command.state == "never":
                self._must(
                    (each.status, each.reason) == ("failed", NOT_STARTED), f"step {step.id} never began"
                )
            elif command.said is not None:
                told = (each.status, each.reason, each.outcome)
                self._must(told == command.said, f"step {step.id} is {told}, and its command {command.said}")
            pause = (
                None
                if command is None or each.status == "completed"
                else step.pause(each.attempt, each.reason or "")
            )
            if each is not tries[-1]:
                self._must(pause is not None, f"step {step.id} is tried again after {each.reason}")
            elif pause is not None and not self._cancelled:
                deadline = self._run.opened.deadline
                cut = deadline is not None and each.since + pause >= deadline
                self._must(
                    cut and self._chain.is_main(step.index),
                    f"step {step.id} is not tried again after {each.reason}",
                )

    def _never_ordered(self, step: DrawnStep, each: Try) -> None:
        """Why a step ended that was going to be started."""
        reasons = ["step.timed_out.start_within"] if step.start_within is not None else []
        reasons += ["run.timed_out.deadline"] if self._run.opened.deadline is not None else []
        reasons += ["run.cancelled.user"] if self._cancelled else []
        if step.needs_approval:
            last = [
                one.status
                for one in self._world.approvals.values()
                if (one.row.run, one.row.step) == (self._run.opened.id, step.index)
            ]
            decision = last[-1] if last else ""
            reasons += {"denied": [_BY_PEOPLE[0]], "expired": [_BY_PEOPLE[1]]}.get(decision, [])
        self._must(each.reason in reasons, f"step {step.id} never began: {each.status}, {each.reason}")

    def _ending(self, step: DrawnStep, last: Try) -> str | None:
        if last.status in ("completed", "skipped") or not self._chain.is_main(step.index):
            return None
        if last.reason in _BY_PEOPLE:
            return last.reason
        is_last = not any(step.index < each < len(self._chain.steps) for each in self._run.steps)
        if self._run.late and last.status == "timed_out" and is_last:
            return _LATE
        if not last.was_judged and last.reason == "step.timed_out.start_within":
            return _ENDED_BY["timed_out"]  # it was not the run's turn, so no other step may begin either
        return None if step.may_fail else _ENDED_BY[last.status]
