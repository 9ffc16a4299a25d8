import pytest
from tests.handlers.examples import KEY, ended, started

from runward.handlers.events import Origin, SessionFinished, event_types
from runward.handlers.facts import (
    ArtifactsUnder,
    DeclaredContract,
    HashesOf,
    LegsBefore,
    Need,
    PlayOf,
    ProducedBy,
    RootOf,
    SessionOf,
    TriedBefore,
    question_as_json,
)
from runward.handlers.route import HANDLERS, NoSuchHandler, decide, duties, in_background


def test_every_event_has_its_line_in_the_route() -> None:
    assert set(HANDLERS) == set(event_types())


def test_an_event_goes_to_the_handler_of_its_job() -> None:
    assert decide("sessions/opened", started(), "h", {}, 1.0) == Need((SessionOf(KEY),))
    assert decide("sessions/ended", ended(), "h", {}, 1.0) == Need((SessionOf(KEY),))


@pytest.mark.parametrize("handler", ["sessions/ended", "requests/scan", "", "no/such"])
def test_a_job_for_a_handler_that_does_not_take_its_event_is_a_bug(handler: str) -> None:
    with pytest.raises(NoSuchHandler):
        decide(handler, started(), "h", {}, 1.0)


def verdict(produced: int, origin: Origin = "live") -> SessionFinished:
    return SessionFinished(KEY, 2, 5.0, "completed", "run.completed.ok", "passed", produced, origin=origin)


def test_a_verdict_owes_hashes_where_something_was_produced_and_nothing_else() -> None:
    assert duties(verdict(0)) == ()
    ((place, handler, lane),) = duties(verdict(3))
    assert (place, handler, lane) == (0, "contracts/hashes", f"files:{KEY}#2")
    assert in_background(lane)
    assert duties(verdict(3, "history")) == (), "nothing may hang on history"


def test_every_other_event_owes_its_handlers_a_job_in_its_own_lane() -> None:
    for event in (started(), ended()):
        assert [(duty.handler, duty.lane) for duty in duties(event)] == [(HANDLERS[event.type][0], KEY)]
        assert not in_background(event.lane)


def test_a_question_is_kept_as_plain_json() -> None:
    assert question_as_json(SessionOf("k")) == {"session": "k"}
    assert question_as_json(DeclaredContract("p", None)) == {
        "declared_contract": {"playbook": "p", "agent": None}
    }
    assert question_as_json(LegsBefore("/a", "/", ("x",), 1, 2)) == {
        "legs_before": {"root": "/a", "paths": ["x"]}
    }
    assert question_as_json(RootOf("codex", "/p")) == {"root_of": {"layout": "codex", "path": "/p"}}
    assert question_as_json(PlayOf("p")) == {"play_of": "p"}
    assert question_as_json(ArtifactsUnder("/a", "/", ("x",))) == {
        "artifacts_under": {"root": "/a", "paths": ["x"]}
    }
    assert question_as_json(ProducedBy("k", 2)) == {"produced_by": {"session": "k", "attempt": 2}}
    assert question_as_json(HashesOf("/a", "/", ("x",))) == {"hashes_of": {"root": "/a", "paths": ["x"]}}
    assert question_as_json(TriedBefore()) == {"tried_before": True}
