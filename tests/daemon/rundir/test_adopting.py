"""After a restore, what a journal says already is adopted where it stands, each line once."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from runward.daemon.rundir import journals
from runward.daemon.rundir.journals import Appended, JournalLine, StandingLines

EPOCH = 7
BEFORE, NOW = "a" * 64, "b" * 64


def line(event: str, digest: str, ts: str = "2026-01-02T03:04:05Z", **further: object) -> bytes:
    said = {"ts": ts, "role": "runward", "event": event, "path": "", "hash": digest, **further}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def owe(directory: Path, content: bytes, known: Sequence[StandingLines] = ()) -> Appended:
    owed = JournalLine(str(directory), "events.jsonl", content, check=False, live=False, known=tuple(known))
    (result,) = journals.append([owed], EPOCH, lambda: EPOCH)
    assert isinstance(result, Appended)
    return result


def journal(directory: Path) -> bytes:
    return (directory / "events.jsonl").read_bytes()


STARTED = line("session_started", BEFORE, attempt=1)
ENDED = line("session_finished", BEFORE, attempt=1, status="completed")


@pytest.mark.parametrize(
    "owed",
    [
        line("session_finished", NOW, attempt=1, status="completed"),
        line("session_finished", NOW, "2027-01-01T00:00:00Z", attempt=1, status="completed"),
    ],
    ids=["under another hash", "noticed at another time"],
)
def test_a_line_that_says_the_same_is_adopted(tmp_path: Path, owed: bytes) -> None:
    (tmp_path / "events.jsonl").write_bytes(STARTED + b'{"event":"mine"}\nno JSON\n' + ENDED)
    result = owe(tmp_path, owed)
    assert (result.offset, result.already, result.adopted) == (journal(tmp_path).index(ENDED), True, ENDED)
    assert journal(tmp_path) == STARTED + b'{"event":"mine"}\nno JSON\n' + ENDED


def test_a_line_whose_hash_somebody_broke_is_not_taken_for_one_of_ours(tmp_path: Path) -> None:
    broken = line("session_finished", "X" + BEFORE[1:], attempt=1, status="completed")
    (tmp_path / "events.jsonl").write_bytes(STARTED + broken)
    owed = line("session_finished", NOW, attempt=1, status="completed")
    assert owe(tmp_path, owed).adopted is None
    assert journal(tmp_path) == STARTED + broken + owed


@pytest.mark.parametrize(
    "owed",
    [
        line("session_finished", NOW, attempt=1, status="failed"),
        line("session_finished", NOW, attempt=2, status="completed"),
        line("session_resumed", NOW, attempt=1),
    ],
    ids=["another verdict", "another attempt", "another event"],
)
def test_a_line_that_says_something_else_is_written(tmp_path: Path, owed: bytes) -> None:
    (tmp_path / "events.jsonl").write_bytes(STARTED + ENDED)
    result = owe(tmp_path, owed)
    assert (result.offset, result.adopted) == (len(STARTED + ENDED), None)
    assert journal(tmp_path) == STARTED + ENDED + owed


def test_what_the_store_knows_already_is_adopted_by_nobody_else(tmp_path: Path) -> None:
    changed = line("status_changed", BEFORE, replaced="running", status="failed")
    again = line("status_changed", BEFORE, "2026-01-03T00:00:00Z", replaced="running", status="failed")
    (tmp_path / "events.jsonl").write_bytes(changed + again)
    owed = line("status_changed", NOW, "2026-01-04T00:00:00Z", replaced="running", status="failed")
    known = [StandingLines(1, changed, 0)]
    assert owe(tmp_path, owed, known).adopted == again
    known.append(StandingLines(2, again, len(changed)))
    assert owe(tmp_path, owed, known).adopted is None
    assert journal(tmp_path) == changed + again + owed


def test_of_several_lines_those_that_stand_are_adopted_and_the_rest_is_written(tmp_path: Path) -> None:
    verified = line("artifact_verified", BEFORE, status="passed")
    (tmp_path / "events.jsonl").write_bytes(STARTED + verified)
    owed = line("artifact_verified", NOW, status="passed")
    new = line("session_finished", NOW, attempt=1, status="completed")
    result = owe(tmp_path, owed + new)
    assert result.adopted == verified + new
    assert journal(tmp_path) == STARTED + verified + new
    assert owe(tmp_path, owed + new).already, "after a crash it is found again"


def test_the_line_of_the_same_moment_is_preferred(tmp_path: Path) -> None:
    first = line("session_resumed", BEFORE, "2026-01-01T00:00:00Z")
    second = line("session_resumed", BEFORE, "2026-01-02T00:00:00Z")
    (tmp_path / "events.jsonl").write_bytes(first + second)
    assert owe(tmp_path, line("session_resumed", NOW, "2026-01-02T00:00:00Z")).adopted == second


def test_a_line_that_lost_no_more_than_its_newline_is_completed(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(STARTED + ENDED[:-1])
    result = owe(tmp_path, line("session_finished", NOW, attempt=1, status="completed"))
    assert (result.offset, result.adopted) == (len(STARTED), ENDED)
    assert journal(tmp_path) == STARTED + ENDED


def test_a_line_that_was_torn_elsewhere_is_closed_off_and_told_again(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(STARTED + ENDED[:-2])
    owed = line("session_finished", NOW, attempt=1, status="completed")
    assert owe(tmp_path, owed).adopted is None
    assert journal(tmp_path) == STARTED + ENDED[:-2] + b" \n" + owed


def test_our_own_line_is_preferred_to_one_that_says_the_same(tmp_path: Path) -> None:
    owed = line("session_finished", NOW, attempt=1, status="completed")
    (tmp_path / "events.jsonl").write_bytes(STARTED + ENDED + owed)
    result = owe(tmp_path, owed)
    assert (result.offset, result.adopted) == (len(STARTED + ENDED), None)


def test_our_own_line_is_not_written_twice_though_nobody_said_that_it_may_stand(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(STARTED)
    result = owe(tmp_path, STARTED)
    assert (result.already, result.adopted) == (True, None)
    assert journal(tmp_path) == STARTED


def test_lines_are_found_behind_one_that_is_too_long_to_be_ours(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"x" * (5 << 20) + b"\n" + ENDED)
    assert owe(tmp_path, line("session_finished", NOW, attempt=1, status="completed")).adopted == ENDED


def test_a_new_journal_is_begun_as_ever(tmp_path: Path) -> None:
    assert owe(tmp_path, STARTED) == Appended(0)
    assert journal(tmp_path) == STARTED
