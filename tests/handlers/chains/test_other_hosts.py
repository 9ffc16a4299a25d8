"""Events of other hosts: which chains they fire, as what a chain sees them, and where a loop over several hosts ends."""

from typing import Any

import pytest
from tests.handlers.chains.test_machine import GIVEN, decided, of

from runward.config.chain import Chain, read_chain
from runward.config.json_value import JsonValue
from runward.config.step import Callables
from runward.handlers.chains import firing
from runward.handlers.chains.advancing import run_id
from runward.handlers.chains.firing import MOST_DEEP
from runward.handlers.model.chains import (
    ChainFired,
    ChainFiresNow,
    ChainRunOf,
    EventOccurred,
    FiringsOf,
    ListenersTo,
    OpenChainRun,
    OpenRunsOf,
    RecordFiring,
    SetChainRun,
    TriggerMatched,
)
from runward.handlers.model.effects import Emit, Explain
from runward.handlers.model.fleet import EventAccepted, HeardElsewhere, OwnHost, PublishEvent

TEXT = """\
name: publish
trigger: TRIGGER
steps: [{skill: review, with: {host: "{{ trigger.host }}"}}]
"""


def chain(trigger: str) -> Chain:
    read = read_chain(TEXT.replace("TRIGGER", trigger), "publish.yaml", Callables(("review",)))
    assert read.value is not None, read.problems
    return read.value


def occurred(host: str | None, /, depth: int = 0, **fields: JsonValue) -> EventOccurred:
    return EventOccurred("r", 1.0, "data.ready", "build/1", fields, "ada", host=host, depth=depth)


def effects(event: EventOccurred, trigger: str, accepted: bool = True, heard: bool = False) -> Any:
    known: dict[Any, object] = {
        EventAccepted("build", "data.ready"): accepted,
        ListenersTo("data.ready", event.host): (chain(trigger),),
        OwnHost(): "laptop",
        HeardElsewhere("data.ready"): heard,
    }
    return decided(firing.fire_what_listens(event, GIVEN), known)


@pytest.mark.parametrize(
    ("hosts", "fired_by"),
    [
        ("", [None]),
        (", host: build", ["build"]),
        (", host: [build, other]", ["build"]),
        (", host: laptop", [None]),
        (", host: any", [None, "build"]),
        (", host: other", []),
    ],
)
def test_a_trigger_says_whose_events_count(hosts: str, fired_by: list[str | None]) -> None:
    trigger = f"{{event: data.ready{hosts}}}"
    fired = [host for host in (None, "build") if of(Emit, effects(occurred(host), trigger))]
    assert fired == fired_by
    assert [
        host for host in (None, "build") if chain(trigger).trigger.is_for("data.ready", host, "laptop")
    ] == fired_by


def test_what_the_settings_do_not_accept_fires_nothing_whatever_is_in_the_inbox() -> None:
    told = effects(occurred("build"), "{event: data.ready, host: build}", accepted=False)
    assert of(Emit, told) == []
    (why,) = of(Explain, told)
    assert "[[fleet.accept]]" in why.summary


def test_who_told_of_an_event_is_known_whatever_it_says() -> None:
    (fired,) = of(Emit, effects(occurred("build", host="forged"), "{event: data.ready, host: any}"))
    assert fired.event.fields["host"] == "build"
    (fired,) = of(Emit, effects(occurred(None), "{event: data.ready, host: any}"))
    assert fired.event.fields["host"] == "laptop"
    (fired,) = of(Emit, effects(occurred(None, host="its own"), "{event: data.ready}"))
    assert fired.event.fields["host"] == "its own"


def test_in_a_composite_each_event_has_its_own_hosts() -> None:
    trigger = (
        "{all_of: [{event: data.ready, host: build}, {event: data.ready}, {event: data.ready, host: any}]}"
    )
    for host, items in ((None, (1, 2)), ("build", (0, 2)), ("other", (2,))):
        event = EventOccurred("r", 1.0, "data.ready", "1", {}, host=host, depth=3)
        known: dict[Any, object] = {
            EventAccepted(host or "", "data.ready"): True,
            ListenersTo("data.ready", host): (chain(trigger),),
            OwnHost(): "laptop",
            HeardElsewhere("data.ready"): False,
        }
        (emitted,) = of(Emit, decided(firing.fire_what_listens(event, GIVEN), known))
        assert isinstance(emitted.event, TriggerMatched)
        assert (emitted.event.items, emitted.event.depth) == (items, 3)


def test_only_an_event_of_this_host_that_another_one_accepts_is_told() -> None:
    trigger = "{event: data.ready, host: any}"
    (told,) = of(PublishEvent, effects(occurred(None, data="set"), trigger, heard=True))
    assert (told.key, told.id, told.fields) == ("r", "build/1", {"data": "set"})
    assert of(PublishEvent, effects(occurred(None), trigger)) == []
    # Told on by each host, an event would go round for ever.
    assert of(PublishEvent, effects(occurred("build"), trigger, heard=True)) == []


@pytest.mark.parametrize("depth", [MOST_DEEP - 1, MOST_DEEP, MOST_DEEP + 1])
def test_a_loop_over_several_hosts_ends_as_one_of_this_host_does(depth: int) -> None:
    definition = chain("{event: data.ready, host: build}").definition
    event = ChainFired(
        "publish", 1.0, "r", "data.ready", "build/1", {"host": "build"}, definition, depth=depth
    )
    known: dict[Any, object] = {
        ChainFiresNow("publish"): None,
        ChainRunOf(run_id(event.key)): None,
        OpenRunsOf("publish"): (),
        FiringsOf("publish"): (),
    }
    found = decided(firing.open_run(event, GIVEN), known)
    if depth > MOST_DEEP:
        assert [each.result for each in of(RecordFiring, found)] == ["firing.skipped.depth"]
        return
    (opened,) = of(OpenChainRun, found)
    assert opened.run.depth == depth + 1
    reasons = [each.reason_code for each in of(SetChainRun, found)]
    assert ("chain.failed.depth" in reasons) == (depth == MOST_DEEP)
