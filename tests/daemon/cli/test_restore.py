"""`runward restore`: what people and scripts see of it."""

import pytest
from tests.daemon.cli.calling import Place


@pytest.fixture
def backed_up(place: Place) -> Place:
    """One run is in the backup, another was judged after it."""
    place.add_run("one", exit_code=0)
    place.daemon_once()
    assert place.call("backup", "copy.db").code == 0
    place.add_run("two", exit_code=0)
    place.daemon_once()
    return place


def sessions(place: Place) -> list[tuple[object, ...]]:
    return place.rows("select session_id from sessions order by 1")


def test_a_dry_run_says_what_would_be_done_and_does_nothing(backed_up: Place) -> None:
    result = backed_up.call("restore", "copy.db", "--dry-run")
    assert result.code == 0
    assert "would be restored: 1 session," in result.out
    assert "would be kept: the store that was there" in result.out
    assert "had 3 later events" in result.out
    assert sessions(backed_up) == [("one",), ("two",)]
    assert list(backed_up.state.glob("*before-restore*")) == []
    assert (backed_up.state / "epoch").read_text() == f"{2:020d}\n"


def test_what_was_judged_later_is_judged_again_by_the_next_daemon(backed_up: Place) -> None:
    journal = (backed_up.runs / "two" / "events.jsonl").read_bytes()
    result = backed_up.call("restore", "copy.db", "--json")
    assert result.code == 0, result.err
    told = result.json()
    assert isinstance(told, dict)
    assert (told["restored"], told["sessions"], told["newer_events"], told["epoch"]) == (True, 1, 3, 3)
    assert (told["starts_given_up"], told["jobs_held"]) == ([], [])
    assert sessions(backed_up) == [("one",)]
    backed_up.daemon_once()
    assert sessions(backed_up) == [("one",), ("two",)]
    assert (backed_up.runs / "two" / "events.jsonl").read_bytes() == journal
    verified = backed_up.call("session", "verify", "two")
    assert "3 lines  as written" in verified.out


def test_a_daemon_that_runs_is_not_robbed(backed_up: Place) -> None:
    with backed_up.daemon():
        result = backed_up.call("restore", "copy.db")
    assert result.code == 75
    assert "stop it first" in result.err
    assert sessions(backed_up) == [("one",), ("two",)]


def test_what_is_no_sound_backup_is_refused(backed_up: Place) -> None:
    assert backed_up.call("restore", "nowhere.db").code == 3
    (backed_up.directory / "torn.db").write_bytes((backed_up.directory / "copy.db").read_bytes()[:9000])
    result = backed_up.call("restore", "torn.db")
    assert (result.code, "nothing was changed" in result.err) == (1, True)
    newer = bytearray((backed_up.directory / "copy.db").read_bytes())
    newer[60:64] = (9999).to_bytes(4, "big")  # the schema's version, in SQLite's header
    (backed_up.directory / "newer.db").write_bytes(newer)
    result = backed_up.call("restore", "newer.db")
    assert (result.code, "install the newer one" in result.err) == (78, True)
    assert sessions(backed_up) == [("one",), ("two",)]
