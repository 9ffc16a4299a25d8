"""Which firings begin a run, wait for their turn, or are skipped; and what follows the end of a run."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.handlers.chains.test_machine import (
    CHAIN,
    FIRED,
    GIVEN,
    NOT_YET,
    RUN,
    TEXT,
    changed,
    decided,
    of,
    stands,
)

from runward.handlers.chains import firing
from runward.handlers.chains.advancing import WAITS
from runward.handlers.invocations import of_chain_run
from runward.handlers.model.chains import (
    MOST_FIRINGS,
    ChainFired,
    ChainFiresNow,
    ChainNamed,
    ChainRunFinished,
    ChainRunOf,
    ChainRunTurn,
    FiringsOf,
    IsHeard,
    OpenChainRun,
    OpenRun,
    OpenRunsOf,
    RecordFiring,
    SetChainRun,
    SetChainStatus,
    SetStep,
    StepStanding,
)
from runward.handlers.model.effects import Emit
from runward.handlers.model.invocations import EndInvocation, StartRun
from runward.handlers.model.notices import RecipientsOf

OTHER = OpenRun("cr_other", "key 7", False)
KEYED = changed('concurrency: "{{ trigger.pr }}"\n' + TEXT)
CANCELLING = changed('concurrency: {key: "{{ trigger.pr }}", policy: cancel}\n' + TEXT)


def scheduled(overlap: str) -> Any:
    return changed(
        TEXT.replace(
            "{event: pr.opened, filter: {base: main}}", f"{{schedule: '@daily', overlap: {overlap}}}"
        )
    )


def fired(event: ChainFired = FIRED, **answers: Any) -> tuple[Any, ...]:
    others, lately = answers.get("others", ()), answers.get("lately", ())
    known = {**NOT_YET, OpenRunsOf("pr"): others, FiringsOf("pr"): lately, **answers.get("more", {})}
    return decided(firing.open_run(event, GIVEN), known)


def results(effects: tuple[Any, ...]) -> list[str]:
    return [each.result for each in of(RecordFiring, effects)]


def test_every_firing_is_kept_with_its_run() -> None:
    (kept,) = of(RecordFiring, fired())
    assert (kept.chain, kept.result, kept.run) == ("pr", "firing.fired.event", RUN)


def test_events_fire_a_chain_sixty_times_a_minute_at_most() -> None:
    lately = tuple(GIVEN.at - each / 2 for each in range(MOST_FIRINGS))
    assert results(fired(lately=lately)) == ["firing.skipped.storm"]
    assert results(fired(lately=lately[1:])) == ["firing.fired.event"]
    old = (*lately[:-1], GIVEN.at - 61.0)
    assert results(fired(lately=old)) == ["firing.fired.event"]
    by_hand = replace(FIRED, result="firing.fired.by_hand")
    assert results(fired(by_hand, lately=lately)) == ["firing.fired.by_hand"]


@pytest.mark.parametrize(("overlap", "result", "starts"), [
    ("skip", "firing.skipped.overlap", 0), ("queue", "firing.fired.due", 0), ("allow", "firing.fired.due", 1),
])  # fmt: skip
def test_a_schedule_does_not_fire_beside_an_earlier_run_unless_it_may(
    overlap: str, result: str, starts: int
) -> None:
    event = replace(FIRED, definition=scheduled(overlap), result="firing.fired.due", due_at=1.0)
    effects = fired(event, others=(OTHER,))
    assert results(effects) == [result]
    assert len(of(StartRun, effects)) == starts
    assert len(of(StartRun, fired(event))) == 1


def test_runs_of_one_key_begin_one_after_the_other() -> None:
    event = replace(FIRED, definition=KEYED)
    effects = fired(event, others=(OTHER,))
    assert of(StartRun, effects) == []
    (opened,), (step,), (run,) = of(OpenChainRun, effects), of(SetStep, effects), of(SetChainRun, effects)
    assert (opened.run.turn, step.standing.status, run.reason_code) == ("key 7", "waiting", WAITS)
    assert len(of(StartRun, fired(event, others=(OTHER._replace(turn="key 8"),)))) == 1


def test_a_key_sees_the_whole_chain() -> None:
    keyed = changed('concurrency: "{{ chain.event }} {{ chain.run_id }}"\n' + TEXT)
    (opened,) = of(OpenChainRun, fired(replace(FIRED, definition=keyed)))
    assert opened.run.turn == f"key pr.opened {RUN}"


def test_with_cancel_a_run_ends_the_ones_before_it_and_begins_when_they_are_over() -> None:
    effects = fired(replace(FIRED, definition=CANCELLING), others=(OTHER,))
    (order,) = of(Emit, effects)
    assert (order.event.run, order.event.superseded) == ("cr_other", True)
    assert of(StartRun, effects) == []


def test_a_key_that_is_not_there_fails_the_run() -> None:
    effects = fired(replace(FIRED, definition=changed('concurrency: "{{ trigger.x }}"\n' + TEXT)))
    (run,) = of(SetChainRun, effects)
    assert (run.status, run.reason_code) == ("failed", "chain.failed.step_failed")
    assert "concurrency" in run.reason_summary


@pytest.mark.parametrize(("depth", "starts"), [(7, 1), (8, 0)])
def test_eight_chain_runs_may_fire_one_another(depth: int, starts: int) -> None:
    parent = {ChainRunOf("cr_p"): stands({})._replace(depth=depth)}
    effects = fired(replace(FIRED, by_run="cr_p"), more=parent)
    assert len(of(StartRun, effects)) == starts
    (opened,) = of(OpenChainRun, effects)
    assert opened.run.depth == depth + 1
    assert [each.reason_code for each in of(SetChainRun, effects)] == (
        ["chain.running.started"] if starts else ["chain.failed.depth"]
    )


def test_a_run_that_was_too_deep_fires_nothing() -> None:
    parent = {ChainRunOf("cr_p"): stands({})._replace(depth=9)}
    effects = fired(replace(FIRED, by_run="cr_p"), more=parent)
    assert results(effects) == ["firing.skipped.depth"]
    assert of(OpenChainRun, effects) == []


def over(status: Any = "completed", runs: tuple[OpenRun, ...] = (), **answers: Any) -> tuple[Any, ...]:
    event = ChainRunFinished(RUN, "pr", 9.0, status, f"chain.{status}.why")
    known: dict[Any, object] = {
        OpenRunsOf("pr"): runs,
        ChainNamed("pr"): answers.get("chain", CHAIN),
        ChainFiresNow("pr"): None,
        IsHeard("chain.finished"): answers.get("listening", ()),
        IsHeard("invocation.completed"): answers.get("heeding", ()),
        ChainRunOf(RUN): stands({0: StepStanding(0, "completed", None, None, 1, {"summary": "s"})}),
        RecipientsOf(f"chain.{status}"): answers.get("recipients", ()),
    }
    return decided(firing.report_end(event, GIVEN), known)


def test_the_oldest_run_of_each_turn_that_nobody_has_begins_next() -> None:
    waiting = (
        OpenRun("cr_a", "key 1", True),
        OpenRun("cr_b", "key 1", True),
        OpenRun("cr_c", "key 2", False),
        OpenRun("cr_d", "key 2", True),
        OpenRun(RUN, "key 1", False),
    )
    assert [each.event for each in of(Emit, over(runs=waiting))] == [ChainRunTurn("cr_a", GIVEN.at, RUN)]


def test_the_end_of_a_run_is_an_event_for_chains_that_listen() -> None:
    assert over() == (EndInvocation(of_chain_run(RUN), GIVEN.at, "completed", "chain.completed.why"),)
    (emitted,) = of(Emit, over(listening=(CHAIN,)))
    event = emitted.event
    assert (event.name, event.fields["status"], event.by_run) == ("chain.finished", "completed", RUN)


def test_the_end_of_a_run_is_the_end_of_its_invocation_with_the_last_outcome() -> None:
    (emitted,) = of(Emit, over("failed", heeding=(CHAIN,)))
    event = emitted.event
    assert (event.name, event.key, event.by_run) == (
        "invocation.completed",
        f"{of_chain_run(RUN)}/completed",
        RUN,
    )
    assert event.fields == {
        "invocation_id": of_chain_run(RUN),
        "skill": "chain",
        "status": "failed",
        "reason_code": "chain.failed.why",
        "chain": "pr",
        "outcome": {"summary": "s"},
    }


def test_a_chain_is_paused_after_a_failure_if_its_file_says_so() -> None:
    text = TEXT.replace(
        "{event: pr.opened, filter: {base: main}}", "{schedule: '@daily', pause_on_failure: true}"
    )
    from runward.config.chain import read_chain
    from runward.config.step import Callables

    chain = read_chain(text, "pr.yaml", Callables(("review", "merge", "tell"))).value
    (paused,) = of(SetChainStatus, over("failed", chain=chain))
    assert (paused.status, paused.said_by) == ("paused", "pause_on_failure")
    assert of(SetChainStatus, over("completed", chain=chain)) == []
    assert of(SetChainStatus, over("failed")) == []


def test_a_run_begins_at_its_turn_once() -> None:
    waits = stands({0: StepStanding(0, "waiting", None, None, 1, None)}, code=WAITS)
    effects = decided(
        firing.begin_in_turn(ChainRunTurn(RUN, 9.0, "cr_other"), GIVEN), {ChainRunOf(RUN): waits}
    )
    assert len(of(StartRun, effects)) == 1
    for run in (None, stands({}), waits._replace(status="cancelled")):
        assert (
            decided(firing.begin_in_turn(ChainRunTurn(RUN, 9.0, "cr_other"), GIVEN), {ChainRunOf(RUN): run})
            == ()
        )
