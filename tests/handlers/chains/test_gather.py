"""An event that a composite trigger waits for: it fires the chain with the others, is held, or does not count."""

from typing import Any

from msgspec.structs import replace
from tests.handlers.chains.test_machine import DEFINITION, FIRED, GIVEN, decided, of

from runward.config.chain import chain_of
from runward.config.json_value import JsonValue
from runward.handlers.chains import firing, gather
from runward.handlers.model.chains import (
    ChainFired,
    ChainFires,
    ChainFiresNow,
    ChainNamed,
    ChainRunFinished,
    ChainRunOf,
    ChainRunStanding,
    EventOccurred,
    FiringsOf,
    Held,
    HeldFor,
    HoldEvent,
    IsHeard,
    ListenersTo,
    OpenChainRun,
    OpenRunsOf,
    RecordFiring,
    ReleaseEvents,
    SetChainStatus,
    ToldBy,
    TriggerMatched,
    trigger_hash,
)
from runward.handlers.model.effects import Emit, Explain
from runward.handlers.model.notices import RecipientsOf


def defined(trigger: JsonValue) -> JsonValue:
    assert isinstance(DEFINITION, dict)
    return {**DEFINITION, "trigger": trigger}


BOTH = defined({"all_of": [{"event": "a", "filter": {"n": 1}}, {"event": "b"}]})
B = TriggerMatched("pr", 2.0, "rb", "b", "id-b", {"n": 2}, BOTH, (1,), "ada")
A = Held("ra", 1.0, (0,), trigger_hash(BOTH), "a", "id-a", None)


def gathered(event: TriggerMatched = B, held: tuple[Held, ...] = (A,), **more: Any) -> tuple[Any, ...]:
    known = {
        ChainFiresNow("pr"): more.get("fires"),
        HeldFor("pr"): held,
        ToldBy("pr"): {"ra": {"n": 1}},
        **more.get("runs", {}),
    }
    return decided(gather.gather_event(event, GIVEN), known)


def test_an_event_is_meant_for_each_item_whose_filter_it_passes() -> None:
    listening = {ListenersTo("a"): (chain_of(BOTH),)}
    event = EventOccurred("ra", 1.0, "a", "id-a", {"n": 1}, "ada", "cr_0")
    (emitted,) = of(Emit, decided(firing.fire_what_listens(event, GIVEN), listening))
    assert emitted.event == TriggerMatched("pr", 1.0, "ra", "a", "id-a", {"n": 1}, BOTH, (0,), "ada", "cr_0")
    other = replace(event, fields={"n": 2})
    effects = decided(firing.fire_what_listens(other, GIVEN), listening)
    assert of(Emit, effects) == []
    assert of(Explain, effects)[0].verdict == "refused"


def test_an_event_is_held_until_the_rest_happens() -> None:
    effects = gathered(held=())
    assert of(Emit, effects) == []
    trigger = trigger_hash(BOTH)
    assert of(HoldEvent, effects) == [
        HoldEvent("pr", Held("rb", 2.0, (1,), trigger, "b", "id-b", None), {"n": 2})
    ]
    assert "it waits for a" in of(Explain, effects)[0].summary


def test_the_last_event_fires_the_chain_and_all_are_told() -> None:
    effects = gathered()
    (emitted,) = of(Emit, effects)
    fired = emitted.event
    assert isinstance(fired, ChainFired)
    assert (fired.key, fired.fields, fired.event, fired.event_id) == ("pr@rb", {"n": 2}, "b", "id-b")
    assert fired.events == [
        {"event": "a", "event_id": "id-a", "at": "1970-01-01T00:00:01Z", "fields": {"n": 1}},
        {"event": "b", "event_id": "id-b", "at": "1970-01-01T00:00:02Z", "fields": {"n": 2}},
    ]
    assert of(ReleaseEvents, effects) == [ReleaseEvents("pr", ("ra",))]
    assert of(HoldEvent, effects) == []


def test_what_was_seen_for_another_trigger_does_not_count() -> None:
    effects = gathered(held=(A._replace(trigger="other"),))
    assert of(Emit, effects) == []
    assert of(ReleaseEvents, effects) == [ReleaseEvents("pr", ("ra",))]


def test_what_comes_while_the_chain_is_paused_is_a_skip_and_never_counts() -> None:
    paused = ChainFires("paused", 1.5, "", "ada")
    effects = gathered(fires=paused)
    assert [each.result for each in of(RecordFiring, effects)] == ["firing.skipped.paused"]
    assert of(Emit, effects) == of(HoldEvent, effects) == of(ReleaseEvents, effects) == []
    before = replace(B, at=1.0)
    assert len(of(Emit, gathered(before, fires=paused))) == 1


def test_only_so_many_events_are_held_and_the_oldest_one_goes_with_a_reason() -> None:
    many = tuple(A._replace(key=f"r{n}", at=float(n) / 1000) for n in range(gather.MOST_HELD))
    a = replace(B, fired_by="new", event="a", items=(0,), fields={"n": 1})
    effects = gathered(a, held=many)
    assert of(ReleaseEvents, effects) == [ReleaseEvents("pr", ("r0",))]
    assert [each.held.key for each in of(HoldEvent, effects)] == ["new"]
    assert any("r0 no longer counts" in each.summary for each in of(Explain, effects))


def test_the_depth_of_a_run_is_that_of_the_deepest_run_behind_its_events() -> None:
    def standing(run: str, depth: int) -> ChainRunStanding:
        return ChainRunStanding(
            run, "x", "completed", {}, {}, "", "chain.completed.ok", "", None, {}, 0.0, depth=depth
        )

    runs = {ChainRunOf("cr_a"): standing("cr_a", 5), ChainRunOf("cr_b"): standing("cr_b", 2)}
    held = (A._replace(by_run="cr_a"),)
    (emitted,) = of(Emit, gathered(replace(B, by_run="cr_b"), held, runs=runs))
    assert emitted.event.by_run == "cr_a"


def test_a_chain_run_keeps_what_its_expressions_see_of_its_events() -> None:
    event = replace(FIRED, events=[{"event": "a"}], due_at=60.0)
    known = {
        ChainFiresNow("pr"): None,
        ChainRunOf(gather_run(event)): None,
        FiringsOf("pr"): (),
        OpenRunsOf("pr"): (),
    }
    (opened,) = of(OpenChainRun, decided(firing.open_run(event, GIVEN), known))
    assert opened.run.cause == {
        "event": "pr.opened",
        "event_id": "id",
        "due_at": "1970-01-01T00:01:00Z",
        "events": [{"event": "a"}],
    }


def gather_run(event: ChainFired) -> str:
    from runward.handlers.chains.advancing import run_id

    return run_id(event.key)


def test_a_failed_run_pauses_its_chain_where_a_schedule_in_its_trigger_says_so() -> None:
    trigger: JsonValue = {"any_of": [{"event": "a"}, {"schedule": "@daily", "pause_on_failure": True}]}
    known = {
        OpenRunsOf("pr"): (),
        ChainNamed("pr"): chain_of(defined(trigger)),
        ChainFiresNow("pr"): None,
        IsHeard("chain.finished"): False,
        IsHeard("invocation.completed"): False,
        RecipientsOf("chain.failed"): (),
    }
    event = ChainRunFinished("cr_0", "pr", 9.0, "failed", "chain.failed.step_failed")
    (set_,) = of(SetChainStatus, decided(firing.report_end(event, GIVEN), known))
    assert set_.status == "paused"
