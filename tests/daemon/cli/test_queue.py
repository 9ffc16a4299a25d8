"""`runward queue`: what is owed, and what a person can do about what is held."""

import json
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place


@pytest.fixture
def held(ended: Place, tmp_path: Path) -> Place:
    """A session whose end is held. A retry finds that it has ended already, and is done."""
    place = ended.copy_to(tmp_path)
    place.change_store(
        "update jobs set state = 'held', tries = 3, error = 'no space left' where handler = 'sessions/ended'"
    )
    return place


def _requests(place: Place) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((place.state / "inbox").glob("*.json"))]


def test_an_empty_queue_says_so(recorded: Place) -> None:
    assert recorded.call("queue").out == "the queue is empty\n"
    assert recorded.call("queue", "list", "--json").json() == []


def test_a_bare_queue_is_the_list(held: Place) -> None:
    listed = held.call("queue", "--json").objects()
    assert listed == held.call("queue", "list", "--json").objects()
    (job,) = listed
    assert list(job) == [
        "id",
        "event",
        "type",
        "handler",
        "lane",
        "state",
        "tries",
        "error",
        "recorded_at",
        "due_at",
        "updated_at",
        "blocked_by",
    ]
    assert (job["id"], job["state"], job["error"], job["tries"]) == (64, "held", "no space left", 3)
    assert (job["lane"], job["event"]) == ("native:runs/stuck", "native:runs/stuck#1/ended")
    head, row = held.call("queue").out.splitlines()
    assert head.split() == ["JOB", "STATE", "HANDLER", "LANE", "AGE", "WHY"]
    assert row.startswith("64   held   sessions/ended  native:runs/stuck")
    assert row.endswith("no space left")


def test_done_jobs_are_listed_when_asked_for(held: Place) -> None:
    assert [each["id"] for each in held.call("queue", "list", "--state", "done", "--json").objects()] == [
        32,
        98,
    ], "its start, and the bundle after its verdict"


def test_a_job_is_shown_by_its_number_or_as_the_last(held: Place) -> None:
    for text, number in (("64", 64), ("job:64", 64), ("@last", 98)):
        assert held.call("queue", "show", text, "--json").object()["id"] == number
    assert "Why:       no space left" in held.call("queue", "show", "64").out
    assert held.call("queue", "show", "6").code == 3


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("retry", "64"), "JobRetryRequested"),
        (("retry", "@last"), "JobRetryRequested"),
        (("retry", "--all"), "JobRetryRequested"),
        (("discard", "64", "--reason", "its disk is gone"), "JobDiscardRequested"),
    ],
)
def test_a_request_is_in_the_inbox_when_the_command_returns(
    held: Place, arguments: tuple[str, ...], kind: str
) -> None:
    asked = held.call("queue", *arguments)
    assert asked.code == 0
    assert "no daemon is running: it will be done when one starts" in asked.err
    (request,) = _requests(held)
    assert request["type"] == kind
    payload = request["payload"]
    assert isinstance(payload, dict)
    assert payload["job"] == 64


def test_what_was_asked_while_the_daemon_was_down_is_done_when_it_runs(held: Place) -> None:
    held.call("queue", "discard", "64", "--reason", "its disk is gone")
    held.daemon_once()
    job = held.call("queue", "show", "64", "--json").object()
    assert job["state"] == "discarded"
    assert str(job["error"]).endswith(": its disk is gone")
    assert _requests(held) == []
    assert "asked to discard job 64: its disk is gone" in held.call("why", "job:64").out


def test_a_dry_run_asks_for_nothing(held: Place) -> None:
    asked = held.call("queue", "retry", "--all", "--dry-run")
    assert asked.out == "job 64 (sessions/ended of native:runs/stuck) would be retried\n"
    asked = held.call("queue", "discard", "64", "--reason", "x", "--dry-run", "--json")
    assert asked.json() == [{"job": 64, "request": None, "state": "held", "error": "no space left"}]
    assert _requests(held) == []


def test_with_wait_the_command_returns_what_came_of_it(held: Place) -> None:
    with held.daemon():
        asked = held.call("queue", "retry", "64", "--wait", "--json")
    assert asked.code == 0
    (job,) = asked.objects()
    assert (job["job"], job["state"]) == (64, "done")


def test_discarding_with_wait_ends_well_when_it_is_discarded(held: Place) -> None:
    with held.daemon():
        asked = held.call("queue", "discard", "64", "--reason", "gone", "--wait")
    assert (asked.code, asked.out) == (
        0,
        "job 64 (sessions/ended of native:runs/stuck) is discarded\n",
    )


def test_waiting_without_a_daemon_asks_for_nothing_and_exits_75(held: Place) -> None:
    asked = held.call("queue", "retry", "64", "--wait")
    assert asked.code == 75
    assert "no daemon is running" in asked.err
    assert _requests(held) == []


def test_only_held_jobs_can_be_acted_on(held: Place) -> None:
    refused = held.call("queue", "retry", "32")
    assert (refused.code, refused.err) == (
        1,
        "runward: job 32 is done: only held jobs can be retried or discarded\n",
    )
    assert held.call("queue", "retry", "33").code == 3
    assert _requests(held) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("retry",),
        ("retry", "64", "--all"),
        ("discard", "64"),
        ("discard", "64", "--reason", " "),
        ("retry", "64", "--wait", "--timeout", "5"),
    ],
)
def test_what_is_not_fully_said_is_wrong_usage(held: Place, arguments: tuple[str, ...]) -> None:
    assert held.call("queue", *arguments).code == 2
    assert _requests(held) == []


def test_with_nothing_held_there_is_nothing_to_retry(recorded: Place) -> None:
    assert recorded.call("queue", "retry", "--all").out == "no job is held\n"
    assert recorded.call("queue", "retry", "@last").code == 3
