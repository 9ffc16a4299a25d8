"""A show of two plays, as a real daemon follows it from their intents to the verdicts of their gates."""

import json
from pathlib import Path

import pytest
from tests.daemon.cli.calling import SETTINGS, Place
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

_ROOT = '[[roots]]\nname = "shows"\npath = "shows"\nlayout = "{layout}"\nhistory = "live"\nsettle = "100ms"\n'
META = {"status": "completed", "agent": "implementer", "model": "m-1", "started_at": "2026-01-13T10:00:00Z"}


class Show:
    """The show `retry-queue`, in a place that watches every show of its directory."""

    def __init__(self, place: Place, layout: str = "auto") -> None:
        (place.directory / "runward.toml").write_text(SETTINGS + _ROOT.format(layout=layout))
        self.place = place
        self.directory = place.directory / "shows/retry-queue"
        self.directory.mkdir(parents=True)
        (self.directory / "_show.md").write_text("# Plan\n")

    def play(self, name: str) -> Path:
        """A play that has begun, with the bulk that nobody reads."""
        play = self.directory / name
        (play / "agent-1").mkdir(parents=True)
        (play / "_intent.md").write_text("Retry what failed.\n")
        (play / "agent-1/notes.md").write_text("n\n")
        (play / "_meta.json").write_text(json.dumps(META))
        return play

    def decide(self, name: str, **verdict: JsonValue) -> None:
        """The gate's verdict, written whole and then renamed."""
        (self.directory / name / "_verdict.tmp").write_text(json.dumps(verdict))
        (self.directory / name / "_verdict.tmp").rename(self.directory / name / "_verdict.json")

    def statuses(self) -> dict[object, object]:
        listed = self.place.call("session", "list", "--json").objects()
        return {each["key"]: each["status"] for each in listed}


@pytest.fixture
def show(place: Place) -> Show:
    return Show(place)


FIRST, SECOND = "show:shows/retry-queue/play-1", "show:shows/retry-queue/play-2"


def test_each_play_of_a_show_runs_until_its_gate_decides_and_the_verdict_is_its_outcome(show: Show) -> None:
    call = show.place.call
    with show.place.daemon():
        show.play("play-1")
        show.play("play-2")
        wait_for(lambda: show.statuses() == {FIRST: "running", SECOND: "running"}, "two plays")
        show.decide("play-1", gate_passed=True, feedback="all good")
        show.decide("play-2", gate_passed=False, feedback="no tests\nat all", next_action="replay")
        wait_for(lambda: show.statuses() == {FIRST: "completed", SECOND: "completed"}, "two verdicts")
        wait_for(lambda: "Bundle:" in call("session", "show", "play-2").out, "the bundle")
    found = call("artifact", "list", "--kind", "gate_verdict", "--json").objects()
    assert {(each["session_key"], each["name"], each["summary"], each["passed"]) for each in found} == {
        (FIRST, "gate", "all good", True),
        (SECOND, "gate", "no tests", False),
    }
    shown = call("session", "show", "play-2", "--json").object()
    assert (shown["layout"], shown["status"]) == ("show", "completed")
    assert isinstance(shown["reason"], dict)
    assert (shown["reason"]["code"], shown["reason"]["summary"]) == (
        "run.completed.ok",
        "the play's gate stayed shut",
    )
    (outcome,) = call("session", "show", "play-2", "--json").items("artifacts")
    assert outcome["file_path"] == "_verdict.json"
    assert isinstance(outcome["content"], dict)
    assert outcome["content"]["next_action"] == "replay"
    text = call("session", "show", "play-2").out
    assert "gate_verdict  gate  failed  no tests" in text
    assert "implementer" in text
    assert "not a regular file" not in text, "nothing of a play's is read for its calls"
    assert "the play's gate stayed shut" in call("why", "play-2").out


def test_a_verdict_that_decides_nothing_leaves_the_play_running_and_why_says_what_is_wrong(
    show: Show,
) -> None:
    show.place.daemon_once()
    show.play("play-1")
    show.decide("play-1", gate_passed="yes")
    show.place.daemon_once()
    assert show.statuses() == {FIRST: "running"}
    assert "_verdict.json:1: gate_passed is not true or false" in show.place.call("why", "play-1").out
    assert show.place.call("artifact", "list", "--json").objects() == []


def test_a_verdict_that_contradicts_itself_ends_the_play_without_an_outcome_and_why_says_so(
    show: Show,
) -> None:
    place = show.place
    place.daemon_once()
    show.play("play-1")
    show.decide("play-1", gate_passed=True, passed=False)
    place.daemon_once()
    assert show.statuses() == {FIRST: "completed"}
    assert "_verdict.json is not a valid outcome: passed contradicts gate_passed" in place.call("why", "play-1").out
    assert place.call("artifact", "list", "--json").objects() == []


def test_a_root_of_one_show_names_its_plays_by_their_directories(place: Place) -> None:
    show = Show(place, "show")
    text = (place.directory / "runward.toml").read_text()
    (place.directory / "runward.toml").write_text(
        text.replace('path = "shows"', 'path = "shows/retry-queue"')
    )
    show.play("play-1")
    show.decide("play-1", gate_passed=True)
    place.daemon_once()
    assert show.statuses() == {"show:shows/play-1": "completed"}
    (found,) = place.call("artifact", "list", "--json").objects()
    assert (found["summary"], found["passed"]) == ("the gate opened", True)
