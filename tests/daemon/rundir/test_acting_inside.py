"""A program inside a run appends intents and finds its results, whatever lies in the directory."""

import json
import os
from pathlib import Path

import pytest

from runward.daemon.rundir.acting_inside import ResultsOfRun, append_intent
from runward.daemon.rundir.intents import INTENTS
from runward.daemon.rundir.opening import NotRegular
from runward.daemon.rundir.outcomes import write_outcome
from runward.handlers.exchange.intent import RESULTS


def test_each_intent_is_a_line_of_its_own_behind_what_is_there(tmp_path: Path) -> None:
    append_intent(str(tmp_path), b"one")
    append_intent(str(tmp_path), b"two")
    file = tmp_path / INTENTS
    assert file.read_bytes() == b"one\ntwo\n"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b"one\nhal")
    append_intent(str(tmp_path), b"two")
    assert file.read_bytes() == b"one\nhal\ntwo\n", "a line that was left without its end swallows nothing"


def test_nothing_but_a_regular_file_is_appended_to(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / INTENTS).symlink_to(other)
    with pytest.raises(OSError, match="symbolic link"):
        append_intent(str(run), b"one")
    assert other.read_text() == "mine"
    (run / INTENTS).unlink()
    os.mkfifo(run / INTENTS)
    with pytest.raises(NotRegular, match="is not a regular file"):
        append_intent(str(run), b"one")
    (tmp_path / "link").symlink_to(run)
    with pytest.raises(OSError, match="Not a directory"):
        append_intent(str(tmp_path / "link"), b"one")


def line(identifier: object, result: object) -> bytes:
    return json.dumps({"id": identifier, "result": result}).encode() + b"\n"


def test_a_result_is_found_by_its_intents_id_once_it_is_there(tmp_path: Path) -> None:
    results = ResultsOfRun(str(tmp_path))
    results.expect("a")
    results.expect("b")
    assert results.result("a") is None
    file = tmp_path / RESULTS
    noise = b"\xff\n[1]\n\n{\n" + line(1, {}) + line("a", "forged") + line("other", {"success": False})
    file.write_bytes(noise + line("b", {"success": True})[:-9])
    assert (results.result("a"), results.result("b")) == (None, None)
    file.write_bytes(noise + line("b", {"success": True}) + line("a", {"success": False, "data": [[]] * 200}))
    assert results.result("a") == {"success": False, "data": [[]] * 200}
    assert results.result("b") == {"success": True}
    results.forget("b")
    assert results.result("b") is None


def test_results_in_what_is_not_a_regular_file_are_not_read(tmp_path: Path) -> None:
    (tmp_path / RESULTS).mkdir()
    results = ResultsOfRun(str(tmp_path))
    with pytest.raises(NotRegular):
        results.result("a")


def test_an_outcome_is_written_into_its_folder_and_through_no_link(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    write_outcome(str(run), "one.json", b"{}")
    write_outcome(str(run), "one.json", b"[]")
    assert [each.name for each in (run / "outcomes").iterdir()] == ["one.json"]
    assert (run / "outcomes" / "one.json").read_bytes() == b"[]"
    other = tmp_path / "other"
    other.mkdir()
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "outcomes").symlink_to(other)
    with pytest.raises(OSError, match="Not a directory"):
        write_outcome(str(linked), "one.json", b"{}")
    assert list(other.iterdir()) == []
