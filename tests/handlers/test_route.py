import pytest
from tests.handlers.examples import KEY, ended, started

from runward.daemon.store.tables.jobs import JOBS_AN_EVENT
from runward.handlers.model.asking import Given
from runward.handlers.model.sessions import Origin, SessionFinished, SessionOf
from runward.handlers.model.stored import Stored, as_json
from runward.handlers.registry import EVENTS
from runward.handlers.route import HANDLERS, ROUTES, NoSuchHandler, decide, duties, in_background


def test_every_event_has_its_line_in_the_route() -> None:
    assert set(HANDLERS) == set(EVENTS)


def test_an_event_goes_to_the_handler_of_its_job() -> None:
    for handler, event in (("sessions/opened", started()), ("sessions/ended", ended())):
        decision = decide(handler, event, Given("h", 1.0))
        assert not isinstance(decision, tuple)
        assert next(decision) == SessionOf(KEY)


@pytest.mark.parametrize("handler", ["sessions/ended", "requests/scan", "", "no/such"])
def test_a_job_for_a_handler_that_does_not_take_its_event_is_a_bug(handler: str) -> None:
    with pytest.raises(NoSuchHandler):
        decide(handler, started(), Given("h", 1.0))


def verdict(produced: int, origin: Origin = "live", *, has_bundle: bool = True) -> SessionFinished:
    return SessionFinished(
        KEY, 2, 5.0, "completed", "run.completed.ok", "passed", produced, 0, origin, has_bundle
    )


def test_a_verdict_owes_a_bundle_and_hashes_where_something_was_produced() -> None:
    bundle = (2, "bundle/write", f"files:bundle:{KEY}#2", 0.0)
    hashes = (0, "contracts/hashes", f"files:{KEY}#2", 0.0)
    assert duties(verdict(0)) == (bundle,)
    assert duties(verdict(3)) == (hashes, bundle)
    assert all(in_background(lane) for _, _, lane, _ in (hashes, bundle)), "a verdict waits for neither"
    assert duties(verdict(3, "history")) == (), "nothing may hang on history"
    assert duties(verdict(3, has_bundle=False)) == (hashes,)


def test_a_verdict_of_an_earlier_version_owes_a_job_that_finds_out_if_there_is_a_bundle() -> None:
    stored = as_json(verdict(0)).replace(',"has_bundle":true', "")
    assert "has_bundle" not in stored
    assert [duty.handler for duty in duties(Stored(SessionFinished).load(stored))] == ["bundle/write"]


def test_the_jobs_of_an_event_keep_their_numbers_which_are_stored() -> None:
    numbered = {(route.event.type, route.number): route.handler for route in ROUTES}
    assert len(numbered) == len(ROUTES), "no two jobs of an event have one id"
    assert {key: handler for key, handler in numbered.items() if key[1]} == {
        ("AttemptStarted", 1): "chains/begun",
        ("AttemptStarted", 2): "fleet/begun",
        ("SessionFinished", 1): "chains/advance",
        ("SessionFinished", 2): "bundle/write",
        ("SessionFinished", 3): "fleet/ended",
        ("StartFailed", 1): "chains/advance",
        ("StartFailed", 2): "fleet/ended",
        ("StartedEarlier", 1): "chains/advance",
        ("StartedEarlier", 2): "fleet/ended",
        ("TimerRang", 1): "approvals/expire",
        ("TimerRang", 2): "schedules/due",
    }
    assert all(0 <= number < JOBS_AN_EVENT for _, number in numbered)


def test_every_other_event_owes_its_handlers_a_job_in_its_own_lane() -> None:
    for event in (started(), ended()):
        assert [(duty.handler, duty.lane) for duty in duties(event)] == [(HANDLERS[event.type][0], KEY)]
        assert not in_background(event.lane)
