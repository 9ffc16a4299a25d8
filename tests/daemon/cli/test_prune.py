"""`runward prune`: what would go, asking for it, and what is said of what is gone."""

import json
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place


@pytest.fixture
def old(recorded: Place, tmp_path: Path) -> Place:
    """Five sessions that ended in January and March, one that runs."""
    return recorded.copy_to(tmp_path)


def _requests(place: Place) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((place.state / "inbox").glob("*.json"))]


def test_a_dry_run_says_how_many_would_go_and_asks_for_nothing(old: Place) -> None:
    told = old.call("prune", "--older-than", "1h", "--dry-run")
    assert told.code == 0
    assert told.out.startswith("5 sessions that ended before ")
    assert told.out.endswith(" would be pruned\n")
    counted = old.call("prune", "--older-than", "1h", "--dry-run", "--json").object()
    assert (counted["sessions"], counted["still_owed"]) == (5, 0)
    assert _requests(old) == []


def test_what_is_still_owed_something_is_told_apart(old: Place) -> None:
    old.change_store(
        "update jobs set state = 'held' where lane = 'native:runs/plain' and handler = 'sessions/ended'"
    )
    told = old.call("prune", "--older-than", "1h", "--dry-run").out.splitlines()
    assert told[0].startswith("4 sessions that ended before ")
    assert (
        told[1]
        == "1 session of that age would stay: they have pending work, or were asked for in the last day"
    )


def test_the_request_is_kept_and_carried_out_by_the_next_daemon(old: Place) -> None:
    asked = old.call("prune", "--older-than", "1h", "--json")
    assert asked.object()["state"] == "asked"
    assert asked.err == "runward: no daemon is running: it will be done when one starts\n"
    (request,) = _requests(old)
    assert request["type"] == "PruneRequested"
    old.daemon_once()
    assert old.rows("select key from sessions") == [("native:runs/open",)]
    assert len(old.rows("select session_key from tombstones")) == 5
    listed = old.call("session", "list", "--json").objects()
    assert [each["key"] for each in listed] == ["native:runs/open"]
    old.daemon_once()
    assert old.rows("select key from sessions") == [("native:runs/open",)]


def test_what_was_pruned_is_named_with_what_is_left_of_it(old: Place) -> None:
    old.call("prune", "--older-than", "1h")
    old.daemon_once()
    for command in ("show", "verify", "tail"):
        gone = old.call("session", command, "delivered")
        assert gone.code == 3
        assert gone.err.startswith("runward: the record of delivered was pruned ")
        assert "it was completed after 1 attempt, from 2026-01-02 03:04:05" in gone.err
    left = old.call("session", "verify", "open", "--json").object()
    record = left["record"]
    assert isinstance(record, dict)
    assert record["broken_event"] is None


def test_an_event_after_what_is_gone_follows_from_the_hash_that_is_left(old: Place) -> None:
    old.call("prune", "--older-than", "1h")
    old.daemon_once()
    old.change_store("update absent_events set hash = replace(hash, substr(hash, 1, 1), 'x')")
    broken = old.call("session", "verify", "open", "--json").object()["record"]
    assert isinstance(broken, dict)
    assert broken["broken_event"] is not None


def test_with_wait_it_is_done_when_the_command_returns(old: Place) -> None:
    with old.daemon():
        told = old.call("prune", "--older-than", "1h", "--wait", "--json")
    assert told.code == 0
    assert (told.object()["state"], told.object()["sessions"]) == ("pruned", 5)


def test_waiting_without_a_daemon_asks_for_nothing_and_exits_75(old: Place) -> None:
    assert old.call("prune", "--older-than", "1h", "--wait").code == 75
    assert _requests(old) == []


@pytest.mark.parametrize("age", ["0s", "10", "soon"])
def test_an_age_that_is_none_is_wrong_usage(old: Place, age: str) -> None:
    assert old.call("prune", "--older-than", age).code == 2
    assert _requests(old) == []
