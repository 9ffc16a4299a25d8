"""`doctor --rebuild`: what the journals tell, held against the store field by field."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_packed import pack

from runward.config.json_value import JsonValue
from runward.handlers.journal.place import ADDED_FIELDS


@pytest.fixture
def own(recorded: Place, tmp_path: Path) -> Place:
    """The recorded place, to be bent."""
    place = recorded.copy_to(tmp_path)
    place.change_store("update sessions set path = replace(path, ?, ?)", str(recorded.runs), str(place.runs))
    return place


def differing(place: Place) -> dict[str, tuple[JsonValue, JsonValue]]:
    """The fields that differ, with both values."""
    told = place.call("doctor", "--rebuild", "--json")
    found = {
        f"{each['session']} {each['field']}": (each["live"], each["folded"])
        for each in told.items("differences")
    }
    assert told.code == (1 if found else 0)
    assert told.object()["same"] is not bool(found)
    return found


def contents(place: Place) -> dict[Path, bytes]:
    """All files of the state, except the two that SQLite makes for readers."""
    files = (path for path in place.state.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.suffix not in (".db-wal", ".db-shm")}


def edit(place: Place, run: str, change: Callable[[dict[str, JsonValue]], JsonValue]) -> None:
    """Change each line of a run's journal; None removes it."""
    journal = place.runs / run / "events.jsonl"
    lines = [change(json.loads(line)) for line in journal.read_text().splitlines()]
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines if line is not None))


def test_every_field_of_every_session_follows_from_its_journal(recorded: Place) -> None:
    told = recorded.call("doctor", "--rebuild", "--json")
    assert told.code == 0
    assert told.json() == {
        "same": True,
        "sessions": 6,
        "compared": 6,
        "not_compared": 0,
        "without_journal": {},
        "differences": [],
        "further": 0,
    }
    for_people = recorded.call("doctor", "--rebuild")
    assert for_people.out == "the same: the store agrees with the journals of 6 of 6 sessions\n"


def test_it_writes_nothing(recorded: Place) -> None:
    before = contents(recorded)
    recorded.call("doctor", "--rebuild")
    assert contents(recorded) == before


def test_packed_sessions_are_compared_as_well(own: Place) -> None:
    assert pack(own) == 5
    told = own.call("doctor", "--rebuild", "--json").object()
    assert (told["same"], told["compared"], told["not_compared"]) == (True, 6, 0)


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_status_that_somebody_changed_in_the_store_is_found(own: Place, is_packed: bool) -> None:
    if is_packed:
        pack(own)
    own.change_store("update sessions set status = 'completed' where session_id = 'silent'")
    assert differing(own) == {"native:runs/silent status": ("completed", "failed")}


def test_a_row_that_somebody_took_out_of_the_store_is_found(own: Place) -> None:
    own.change_store(
        "delete from status_history where session_key = 'native:runs/plain' and status = 'running'"
    )
    found = differing(own)
    assert found["native:runs/plain status_history/1/started/status"] == (None, "running")
    assert {key.rpartition("/")[0] for key in found} == {"native:runs/plain status_history/1/started"}


def test_a_line_that_somebody_changed_is_found_with_both_values(own: Place) -> None:
    edit(
        own,
        "crashed",
        lambda line: line | ({"reason_summary": "all is well"} if "reason_summary" in line else {}),
    )
    found = differing(own)
    assert set(found) == {
        "native:runs/crashed reason_summary",
        "native:runs/crashed status_history/1/ended/reason_summary",
    }
    assert {folded for _, folded in found.values()} == {"all is well"}


def test_a_journal_without_its_end_tells_of_a_session_that_runs(own: Place) -> None:
    edit(own, "silent", lambda line: None if line["event"] == "session_finished" else line)
    assert differing(own)["native:runs/silent status"] == ("failed", "running")


def test_a_journal_that_is_gone_tells_nothing(own: Place) -> None:
    (own.runs / "plain/events.jsonl").unlink()
    assert differing(own)["native:runs/plain status"] == ("completed", None)


def test_lines_of_somebody_else_are_passed_over(own: Place) -> None:
    journal = own.runs / "plain/events.jsonl"
    (*_, last) = journal.read_text().splitlines()
    forged = json.loads(last) | {"hash": "f" * 64, "status": "failed", "attempt": 2}
    journal.write_text(
        f"{journal.read_text()}not json\n[]\n{json.dumps(forged)}\n{json.dumps({'hash': 1})}\n"
    )
    assert differing(own) == {}


def test_the_order_of_the_lines_does_not_matter(own: Place) -> None:
    journal = own.runs / "careless/events.jsonl"
    journal.write_text("".join(f"{line}\n" for line in reversed(journal.read_text().splitlines())))
    assert differing(own) == {}


def test_what_lines_of_earlier_versions_lack_is_not_compared_and_said(own: Place) -> None:
    def older(line: dict[str, JsonValue]) -> dict[str, JsonValue]:
        kept = {"attempt"} if str(line["event"]).startswith("session_") else set()
        return {key: value for key, value in line.items() if key not in ADDED_FIELDS - kept}

    edit(own, "silent", older)
    journal = (own.runs / "silent/events.jsonl").read_bytes()
    events = "select l.id from journal_lines l join events e on e.seq = l.event where e.lane = 'native:runs/silent'"
    own.change_store("drop trigger journal_lines_keep_their_content")
    numbers = [int(str(number)) for (number,) in own.rows(f"{events} order by l.id")]
    lines = [f"{line}\n".encode() for line in journal.decode().splitlines()]
    halves = (b"".join(lines[:2]), b"".join(lines[2:]))
    for number, content in zip(numbers, halves, strict=True):
        own.change_store("update journal_lines set content = ? where id = ?", content, number)
    told = own.call("doctor", "--rebuild", "--json").object()
    assert (told["same"], told["compared"]) == (True, 6)
    lacking = told["not_compared"]
    assert isinstance(lacking, int)
    assert 0 < lacking < 20
    said = own.call("doctor", "--rebuild").out
    assert f"not compared: {lacking} fields that lines of earlier versions lack" in said
    own.change_store("update sessions set status = 'completed' where session_id = 'silent'")
    assert set(differing(own)) == {"native:runs/silent status"}


def test_a_run_whose_directory_was_removed_is_not_compared_and_said(own: Place) -> None:
    shutil.rmtree(own.runs / "plain")
    told = own.call("doctor", "--rebuild", "--json").object()
    assert told["same"] is True
    assert told["without_journal"] == {"its directory is gone": 1}
    assert "not compared: 1 session: its directory is gone" in own.call("doctor", "--rebuild").out


def test_without_a_store_there_is_nothing_to_compare(place: Place) -> None:
    told = place.call("doctor", "--rebuild")
    assert told.code == 3
    assert "there is no store" in told.err


def test_it_makes_no_checks_besides(place: Place) -> None:
    told = place.call("doctor", "--rebuild", "--only", "lock")
    assert told.code == 2
    assert "leave out --only" in told.err
