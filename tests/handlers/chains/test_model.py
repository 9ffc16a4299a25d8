"""Random histories of chain runs keep the laws, and end as a plain model says.

`drawn_chains.py` draws chains, `chain_world.py` lives through a history in virtual time, with the launchers and people of
`chain_outside.py`, and `chain_laws.py` has the laws and the model. A failure names its seed: `lived(seed)` plays that history again.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec.structs import replace
from tests.handlers.chains.chain_laws import ChainLaws
from tests.handlers.chains.chain_rows import Broken
from tests.handlers.chains.chain_world import World

from runward.config.step import Retry
from runward.handlers import approvals, route
from runward.handlers.chains import advancing, continuing, firing
from runward.handlers.chains.advancing import Room
from runward.handlers.model.chains import ChainRunOf

FEW: Final = 50
MANY: Final = 1_000
MOST: Final = 300
"""Histories within which a guard must be missed."""


def lived(seed: int) -> World:
    """Play the history of a seed, and check it."""
    try:
        return checked(World(random.Random(seed)))
    except Broken as broken:
        raise Broken(f"seed {seed}: {broken}") from broken


def checked(world: World) -> World:
    """Play a history, and check it."""
    laws = ChainLaws(world)
    world.play()
    laws.at_end()
    return world


def live(seeds: range) -> Counter[str]:
    """Play these histories; returns what was reached in them all together."""
    reached: Counter[str] = Counter()
    for seed in seeds:
        reached += lived(seed).reached
    return reached


def test_the_laws_hold_in_some_histories() -> None:
    live(range(FEW))


RARE: Final = (
    "a daemon that was killed before its commit",
    "a slot that the settings brought",
    "a step of the clock",
    "a step: run.timed_out.stale",
    "an approval: changed",
    "an approval: expired",
    "firing.skipped.depth",
    "firing.skipped.duplicate",
    "firing.skipped.paused",
    "a run: chain.aborted.denied",
    "a run: chain.cancelled.superseded",
    "a run: chain.failed.depth",
    "a run: chain.running.waits",
    "a run: chain.timed_out.deadline",
    "a step: run.failed.not_started",
    "a step: step.timed_out.start_within",
    "a step: step.waiting.slot",
    "told twice: ChainRunTurn",
    "told twice: SlotOffered",
    "told twice: StartFailed",
    "told twice: TimerRang",
)
"""What many histories must have met, or they prove less than they seem to."""


@pytest.mark.prove
@pytest.mark.timeout(600)  # a busy machine takes its time
def test_the_laws_hold_in_many_histories_and_every_rare_path_was_taken() -> None:
    reached = live(range(FEW, MANY))
    assert [each for each in RARE if not reached[each]] == []


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = lived(3), lived(3)
    assert first.reached == second.reached
    assert [each.steps for each in first.runs.values()] == [each.steps for each in second.runs.values()]


Mutation = Callable[[pytest.MonkeyPatch], None]


def without_heeding_the_answer(patch: pytest.MonkeyPatch) -> None:
    """Whatever a person answers, the step begins."""
    name = ("chains/approved", "ApprovalDecided")

    def begun(event: Any, given: Any) -> Any:
        return continuing.advance_after_decision(replace(event, decision="approved"), given)

    patch.setitem(route._BY_NAME, name, route._BY_NAME[name]._replace(decide=begun))


def without_comparing_what_was_shown(patch: pytest.MonkeyPatch) -> None:
    """Any approval counts, whatever would run now."""

    def unseen(approval: Any, given: Any, note: str, by: str, without: Any = ()) -> Any:
        yield ChainRunOf(approval.run)
        return approvals.decided(approval, given.at, "approved", note, by)

    patch.setattr(approvals, "approved", unseen)


def without_passing_slots_on(patch: pytest.MonkeyPatch) -> None:
    """A step that ends keeps its slot to itself."""

    def kept(run: str, freed: int | None, given: Any) -> Any:
        yield from ()
        return ()

    for module in (continuing, advancing):
        patch.setattr(module, "let_go", kept)


def without_looking_at_others_slots(patch: pytest.MonkeyPatch) -> None:
    """There is always room."""
    patch.setattr(Room, "is_for", lambda self, waiter: True)


def without_an_end_of_tries(patch: pytest.MonkeyPatch) -> None:
    """A step that fails is tried again, however often it was."""
    patch.setattr(Retry, "after", lambda self, tries, reason: 1.0 if tries < 50 else None)


def without_the_deadline_of_what_waits(patch: pytest.MonkeyPatch) -> None:
    """A run whose time is over goes on to wait."""

    def nothing(run: Any, given: Any, freed: int | None = None) -> Any:
        yield from ()
        return ()

    patch.setattr(advancing, "end", nothing)


def without_looking_at_the_clock_first(patch: pytest.MonkeyPatch) -> None:
    """Only the timer of the deadline ends what waits; whatever comes before it does not look."""
    patch.setattr(advancing, "is_late", lambda run, at: False)


def without_the_look_at_a_run_that_was_fired_before(patch: pytest.MonkeyPatch) -> None:
    """An event that is told again fires again."""

    def nothing(event: Any, run: str, at: float) -> Any:
        yield from ()

    patch.setattr(firing, "_skipped", nothing)


def without_turns(patch: pytest.MonkeyPatch) -> None:
    """Runs of one key begin beside each other."""
    turn_of = firing._turn

    def at_once(*given: Any) -> Any:
        found = turn_of(*given)
        return found if isinstance(found, str) else found._replace(waits_for=(), ends=())

    patch.setattr(firing, "_turn", at_once)


def without_the_time_to_begin(patch: pytest.MonkeyPatch) -> None:
    """A step waits for its slot or its turn as long as it takes."""
    patch.setattr(advancing, "begin_within", lambda *unused: ())


def without_an_end_by_failure(patch: pytest.MonkeyPatch) -> None:
    """A step that failed is followed by the next one, whatever was written."""
    patch.setattr(advancing, "_with_ending", lambda position: position)


def without_the_check_that_a_try_still_waits(patch: pytest.MonkeyPatch) -> None:
    """Whose turn it is begins its first step, also where it has begun."""

    def again(event: Any, given: Any) -> Any:
        run = yield ChainRunOf(event.run)
        position = advancing.position_of(run, given)
        first = position.chain.steps[0].index
        return (yield from advancing.onward(position.without(first)))

    name = ("chains/turn", "ChainRunTurn")
    patch.setitem(route._BY_NAME, name, route._BY_NAME[name]._replace(decide=again))


def _misled(patch: pytest.MonkeyPatch, handler: str, event: str, mislead: Callable[[Any, Any], Any]) -> None:
    """The handler sees a chain run as `mislead` tells it, given the event and the run."""
    route_of = route._BY_NAME[handler, event]

    def decided(event: Any, given: Any) -> Any:
        deciding, answer = route_of.decide(event, given), None
        try:
            while True:
                question = deciding.send(answer)  # type: ignore[union-attr] # it asks
                answer = yield question
                if isinstance(question, ChainRunOf) and answer is not None:
                    answer = mislead(event, answer)
        except StopIteration as end:
            return end.value

    patch.setitem(route._BY_NAME, (handler, event), route_of._replace(decide=decided))


def _with_step(run: Any, step: int, **changed: Any) -> Any:
    found = run.steps.get(step)
    return run if found is None else run._replace(steps={**run.steps, step: found._replace(**changed)})


def without_looking_whether_a_step_still_runs(patch: pytest.MonkeyPatch) -> None:
    """A verdict that is told again counts again."""

    def still_runs(event: Any, run: Any) -> Any:
        number = next((n for n, each in run.steps.items() if each.session_key == event.session_key), -1)
        return _with_step(run, number, status="running")

    _misled(patch, "chains/advance", "SessionFinished", still_runs)


def without_looking_whether_a_try_still_waits(patch: pytest.MonkeyPatch) -> None:
    """A timer begins or ends its try, also where that has begun."""

    def still_waits(event: Any, run: Any) -> Any:
        words = event.what.split()
        if len(words) < 3:
            return run
        return _with_step(run, int(words[1]), status="waiting", attempt=int(words[2]))

    _misled(patch, "chains/rang", "TimerRang", still_waits)


def without_looking_whether_a_step_waits_for_a_slot(patch: pytest.MonkeyPatch) -> None:
    """A step that is offered a slot takes it, also where it has begun."""

    def still_waits(event: Any, run: Any) -> Any:
        waits = {"status": "waiting", "reason": "step.waiting.slot", "attempt": event.attempt}
        return _with_step(run, event.step, **waits)

    _misled(patch, "chains/offered", "SlotOffered", still_waits)


def without_looking_whether_a_run_still_asks(patch: pytest.MonkeyPatch) -> None:
    """An answer begins its step, also where the run is over."""

    def still_asks(event: Any, run: Any) -> Any:
        return _with_step(run._replace(status="waiting_approval"), event.step, status="waiting_approval")

    _misled(patch, "chains/approved", "ApprovalDecided", still_asks)


def without_ending_what_began_too_late(patch: pytest.MonkeyPatch) -> None:
    """A step that began although its run was cancelled goes on."""
    name = ("chains/begun", "AttemptStarted")
    patch.setitem(route._BY_NAME, name, route._BY_NAME[name]._replace(decide=lambda event, given: ()))


def without_pausing(patch: pytest.MonkeyPatch) -> None:
    """A timer rings as soon as it is set."""
    of_timers = route._OF_EVENT["TimerSet"]
    at_once = tuple(each._replace(due=lambda event: 0.0) for each in of_timers)
    patch.setitem(route._OF_EVENT, "TimerSet", at_once)


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (without_heeding_the_answer, "begins, and nobody approved it"),
        (without_comparing_what_was_shown, "is approved, and would run something else"),
        (without_passing_slots_on, "a slot is free"),
        (without_looking_at_others_slots, "steps run already|takes the slot of"),
        (without_an_end_of_tries, "it may be tried"),
        (without_the_deadline_of_what_waits, "is over, and its steps|nothing ends it at its deadline"),
        (without_looking_at_the_clock_first, "is over, and its steps|the time of the run is over"),
        (without_the_look_at_a_run_that_was_fired_before, "is opened twice"),
        (without_turns, "it is the turn of"),
        (without_the_time_to_begin, "may wait to begin for ever"),
        (without_an_end_by_failure, "was reached after|was never reached|the time of the run is over"),
        (
            without_the_check_that_a_try_still_waits,
            "runs twice|begins beside| is [a-z_]+ after ",
        ),
        (without_looking_whether_a_step_still_runs, " is [a-z_]+ after "),
        (
            without_looking_whether_a_try_still_waits,
            "runs twice|begins beside| is [a-z_]+ after |leaves a try out|two tries",
        ),
        (
            without_looking_whether_a_step_waits_for_a_slot,
            "runs twice|begins beside| is [a-z_]+ after |its run is",
        ),
        (without_looking_whether_a_run_still_asks, "its run is| is [a-z_]+ after "),
        (without_ending_what_began_too_late, "runs, and its chain run is"),
        (without_pausing, "too early|is late before|for ever|never"),
    ],
)
@pytest.mark.prove
def test_the_model_notices_a_guard_that_is_taken_out(
    mutation: Mutation, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises(Broken, match=said):
        live(range(MOST))
