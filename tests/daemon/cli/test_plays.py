"""A show of two plays, as a real daemon follows it from their intents to the verdicts of their gates."""

import json
import os
import time
from functools import partial
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

    def play_on(self, name: str, **changed: JsonValue) -> None:
        """The player writes what has changed."""
        (self.directory / name / "_meta.tmp").write_text(json.dumps({**META, **changed}))
        (self.directory / name / "_meta.tmp").rename(self.directory / name / "_meta.json")

    def meta(self, name: str) -> dict[str, JsonValue]:
        """What `show show` says of the play's data; nothing where none has been read yet."""
        plays = self.place.call("show", "show", "retry-queue", "--json").items("plays")
        (found,) = [each["meta"] for each in plays if each["name"] == name]
        return found if isinstance(found, dict) else {}

    def is_known_as(self, status: str, name: str) -> bool:
        """Whether that status of the play has been read."""
        return self.meta(name).get("status") == status

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
        for status in ("reviewing", "polishing"):
            show.play_on("play-1", status=status)
            wait_for(partial(show.is_known_as, status, "play-1"), "the play's new status")
        show.play_on("play-2", status="over")
        show.decide("play-1", gate_passed=True, feedback="all good")
        show.decide("play-2", gate_passed=False, feedback="no tests\nat all", next_action="replay")
        wait_for(lambda: show.statuses() == {FIRST: "completed", SECOND: "completed"}, "two verdicts")
        wait_for(lambda: "Bundle:" in call("session", "show", "play-2").out, "the bundle")
    assert (show.meta("play-1")["status"], show.meta("play-2")["status"]) == ("polishing", "over")
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


def test_a_show_shows_its_plays_their_gates_and_its_plan_and_each_play_is_an_invocation(show: Show) -> None:
    call = show.place.call
    show.place.daemon_once()
    assert call("show", "list").out == "no shows\n"
    (show.directory / "_show.md").write_text("# Plan\nFirst retry. password=hunter2hunter2\n")
    show.play("play-1")
    show.decide("play-1", gate_passed=True, feedback="all good")
    second = show.play("play-2")
    (second / "_meta.json").write_text('{"depends_on": ["play-1"], "branch": "b", "api_key": "k"}')
    show.place.daemon_once()
    (listed,) = call("show", "list", "--json").objects()
    assert {key: listed[key] for key in ("topic", "play_count", "running", "passed", "failed")} == {
        "topic": "retry-queue",
        "play_count": 2,
        "running": 1,
        "passed": 1,
        "failed": 0,
    }
    shown = call("show", "show", "retry-queue", "--json")
    assert shown.object()["plan"] == "# Plan\nFirst retry. password=[redacted]\n"
    one, two = shown.items("plays")
    assert (one["status"], two["status"]) == ("completed", "running")
    assert isinstance(one["gate"], dict)
    assert (one["gate"]["passed"], one["gate"]["summary"], two["gate"]) == (True, "all good", None)
    assert two["depends_on"] == ["play-1"]
    assert isinstance(two["meta"], dict)
    assert two["meta"]["further"] == {"branch": "b", "api_key": "[redacted]"}
    text = call("show", "show", str(show.directory)).out
    assert "play-1  completed  passed" in text
    assert "  First retry." in text
    assert call("show", "show", "nothing").code == 3

    def invocations() -> dict[object, tuple[object, object]]:
        found = call("invocation", "list", "--skill", "show", "--json").objects()
        return {each["session_key"]: (each["invocation_id"], each["status"]) for each in found}

    first, second_id = one["invocation_id"], two["invocation_id"]
    assert invocations() == {FIRST: (first, "completed"), SECOND: (second_id, "running")}
    invocation = call("invocation", "show", str(first), "--json")
    assert invocation.object()["node_metadata"] == {
        "topic": "retry-queue",
        "play": "play-1",
        "plan": "# Plan\nFirst retry. password=[redacted]\n",
    }
    assert [each["kind"] for each in invocation.items("artifacts")] == ["gate_verdict"]
    show.decide("play-2", gate_passed=False)
    show.place.daemon_once()
    assert invocations() == {FIRST: (first, "completed"), SECOND: (second_id, "completed")}
    assert call("session", "show", "play-2", "--json").object()["invocation_id"] == second_id


def test_a_show_of_the_past_is_recorded_without_its_plays_data_and_pruning_takes_a_play_away(
    show: Show,
) -> None:
    call = show.place.call
    settings = show.place.directory / "runward.toml"
    live = settings.read_text()
    settings.write_text(live.replace('history = "live"', 'history = "record"'))
    show.play("play-1")
    show.decide("play-1", gate_passed=True)
    show.place.daemon_once()
    assert show.statuses() == {FIRST: "completed"}
    assert call("show", "list", "--json").objects() == []
    show.play("play-2")
    show.place.daemon_once()
    show.decide("play-2", gate_passed=True)
    a_minute_ago = time.time() - 60
    os.utime(show.directory / "play-2/_verdict.json", (a_minute_ago, a_minute_ago))
    show.place.daemon_once()
    assert [each["play_count"] for each in call("show", "list", "--json").objects()] == [1]
    assert call("prune", "--older-than", "1s").code == 0
    show.place.daemon_once()
    assert call("show", "list", "--json").objects() == []
    assert show.place.rows("select * from plays") == []


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
    assert "invalid outcome _verdict.json: passed contradicts gate_passed" in place.call("why", "play-1").out
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
