"""What the directory of a play in a show says."""

import json

import pytest
from tests.handlers.layouts.directories import document, fed

from runward.config.json_value import JsonValue
from runward.handlers.layouts.layout import declared
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.show import META, SCANNER, VERDICT, gate_verdict, recognises_directory
from runward.handlers.layouts.transcript import Told
from runward.handlers.model.outcomes import OutcomeFile, ReadOutcome
from runward.handlers.model.sessions import Document
from runward.handlers.outcomes.reading import InvalidOutcome, read_outcomes


def told(*documents: Document) -> Told:
    return fed(SCANNER, "play-1", {}, documents)[0]


def test_a_play_runs_until_its_gate_has_decided() -> None:
    said = told(
        document(META, {"status": "completed", "started_at": "2026-01-13T10:00:00Z", "agent": "reviewer"})
    )
    assert (said.turn, said.close, said.attempt) == ("open", None, 1)
    assert (said.session_id, said.agent, said.started_at) == ("play-1", "reviewer", 1768298400.0)


@pytest.mark.parametrize(
    ("passed", "summary"), [(True, "the play's gate opened"), (False, "the play's gate stayed shut")]
)
def test_what_the_gate_decides_ends_the_play_well(passed: bool, summary: str) -> None:
    said = told(document(META, {}), document(VERDICT, {"gate_passed": passed}, 7.0))
    assert said.close is not None
    assert said.close == ("completed", "run.completed.ok", summary, 7.0)
    assert said.turn == "closed"


@pytest.mark.parametrize(
    "verdict", [{"gate_passed": "yes"}, {}, {"gate_passed": None}, b'{"gate_', b"[]", b"\xff"]
)
def test_a_verdict_that_decides_nothing_is_complained_of_and_ends_nothing(
    verdict: dict[str, JsonValue] | bytes,
) -> None:
    said = told(document(VERDICT, verdict))
    assert (said.turn, said.close) == ("open", None)
    assert [each.file for each in said.complaints] == [VERDICT]


def test_a_verdict_that_becomes_whole_is_not_complained_of_any_more() -> None:
    said = told(document(VERDICT, b'{"gate_'), document(VERDICT, {"gate_passed": True}))
    assert (said.turn, said.complaints) == ("closed", ())


def test_the_state_can_be_stored_between_two_readings() -> None:
    state = SCANNER.see(SCANNER.start("play-1"), [document(META, {"model": "m"}, 3.0)])
    assert SCANNER.load(SCANNER.dump(state)) == state


@pytest.mark.parametrize(
    ("names", "heads", "is_play"),
    [
        ({VERDICT}, {VERDICT: b'{"gate_passed": true}'}, True),
        ({META, "_intent.md"}, {META: b"{}"}, True),
        ({META, "_prompt.md"}, {META: b""}, True),
        ({META}, {META: b"{}"}, False),
        ({VERDICT}, {VERDICT: b"{}"}, False),
        ({VERDICT, "run.json"}, {VERDICT: b'{"gate_passed": true}'}, False),
        ({"_show.md", "play-1"}, {}, False),
    ],
)
def test_a_play_is_recognised_by_its_verdict_or_its_data_beside_its_texts(
    names: set[str], heads: dict[str, bytes], is_play: bool
) -> None:
    assert recognises_directory(frozenset(names), heads) is is_play


def _read(value: JsonValue) -> tuple[list[ReadOutcome], list[InvalidOutcome]]:
    file = OutcomeFile(VERDICT, json.dumps(value).encode())
    return read_outcomes((file,), declared("show").outcomes)


def test_a_verdict_becomes_a_gate_verdict_with_the_gates_feedback_as_its_summary() -> None:
    ((read,), invalid) = _read({"gate_passed": False, "feedback": "no tests\nat all", "extra": 1})
    assert invalid == []
    assert (read.name, read.outcome.kind, read.outcome.passed, read.outcome.summary) == (
        "gate",
        "gate_verdict",
        False,
        "no tests",
    )
    assert read.outcome.value["extra"] == 1


def test_what_a_verdict_says_itself_is_kept() -> None:
    assert gate_verdict({"gate_passed": True, "summary": "fine", "name": "round 2"}) == {
        "outcome_kind": "gate_verdict",
        "gate_passed": True,
        "summary": "fine",
        "name": "round 2",
    }


def test_a_verdict_that_contradicts_itself_is_no_outcome() -> None:
    read, (invalid,) = _read({"gate_passed": True, "passed": False})
    assert (read, invalid.file) == ([], VERDICT)


def test_only_plays_have_outcomes_in_other_words() -> None:
    assert [each for each in LAYOUTS.names() if declared(each).outcomes] == ["show"]
    assert dict(declared("native").outcomes) == {}


def test_every_layout_can_be_remembered_by_its_value() -> None:
    assert len({*LAYOUTS.logs}) == len(LAYOUTS.logs)
    assert len({*LAYOUTS.directories}) == len(LAYOUTS.directories)
