"""Each event has a sentence that people understand."""

import json

import pytest
from tests.handlers.test_events import EXAMPLES

from runward.config.json_value import JsonValue
from runward.daemon.views.causes import SENTENCES, sentence
from runward.daemon.views.text import local
from runward.handlers.model.events import Event
from runward.handlers.model.stored import as_json
from runward.handlers.registry import EVENTS


def test_sentences_are_about_events_that_there_are() -> None:
    assert set(SENTENCES) - set(EVENTS) == set()


def test_an_event_without_a_sentence_of_its_own_is_told_by_its_name_and_fields() -> None:
    assert sentence("DoorWasOpened", {"door": "back", "at": 1.0}) == (
        'door was opened, with {"door": "back", "at": 1.0}'
    )


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.type)
def test_a_sentence_is_not_json_and_has_no_gaps(event: Event) -> None:
    said = sentence(event.type, json.loads(as_json(event)))
    assert said
    assert not said.startswith("{")
    assert "None" not in said


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.type)
def test_an_event_that_no_person_sent_has_a_subject(event: Event) -> None:
    fact = json.loads(as_json(event))
    said = sentence(event.type, {**fact, "said_by": ""} if "said_by" in fact else fact)
    assert said.strip() == said
    assert "  " not in said


def test_a_timer_and_a_schedule_are_told_without_what_only_programs_read() -> None:
    timer: dict[str, JsonValue] = {
        "subject": "schedule:nightly",
        "what": "60.0 3f2a",
        "at": 1.0,
        "due": 60.0,
    }
    assert sentence("TimerSet", timer) == f"schedule:nightly is due at {local(60.0)}"
    words = '{"trigger": {"schedule": "30 2 * * *"}, "zone": "Etc/UTC"}'
    assert sentence("ScheduleChanged", {"chain": "nightly", "words": words}) == (
        "the schedule of nightly changed: 30 2 * * *"
    )


def test_an_end_by_a_process_that_is_gone_has_both_its_bounds() -> None:
    ended: dict[str, JsonValue] = {
        "attempt": 1,
        "at": 60.0,
        "gone_by": 62.0,
        "reason_summary": "its process ended",
        "evidence": "process_gone",
    }
    assert sentence("AttemptEnded", ended) == (
        "attempt 1 ended: its process ended (evidence: process_gone); "
        f"its process was last known alive at {local(60.0)}, and first found gone at {local(62.0)}"
    )
    assert sentence("AttemptEnded", {**ended, "gone_by": None}) == (
        "attempt 1 ended: its process ended (evidence: process_gone)"
    )
