"""A journal held against what the store says of it: what became of each of our lines is told, and nothing is written."""

import os
from pathlib import Path

import pytest
from tests.daemon.rundir.test_journals import (
    CHANGED,
    FINISHED,
    FIRST,
    SECOND,
    SNAPSHOT,
    STARTED,
    THEIRS,
    VERIFIED,
)

from runward.daemon.rundir.journal_reading import AlteredLine, Compared, compare
from runward.daemon.rundir.journals import StandingLines
from runward.daemon.rundir.opening import Gone
from runward.daemon.world.files import Files
from runward.handlers.model.files import Unreadable

ROWS = [StandingLines(256, FIRST, 0), StandingLines(512, SECOND, len(FIRST))]
OTHER_FACT = CHANGED.replace(b"bb", b"cc")


def compared(
    directory: Path, content: bytes, rows: list[StandingLines] = ROWS
) -> list[tuple[int, str, bytes, int]]:
    """What `compare` tells of a journal with this content: row, state, line, bytes left; the content stays."""
    path = directory / "events.jsonl"
    path.write_bytes(content)
    answer = compare(str(directory), "events.jsonl", rows)
    assert path.read_bytes() == content
    assert isinstance(answer, Compared)
    return [(each.row, each.state, each.content, each.left) for each in answer.altered]


def test_lines_that_stand_where_they_were_written_are_sound_whatever_others_wrote(tmp_path: Path) -> None:
    assert compared(tmp_path, FIRST + SECOND) == []
    assert compared(tmp_path, FIRST + SECOND + THEIRS + b"torn") == []
    after_theirs = [StandingLines(256, FIRST, len(THEIRS)), StandingLines(512, SECOND, len(THEIRS + FIRST))]
    assert compared(tmp_path, THEIRS + FIRST + SECOND, after_theirs) == []


def test_lines_are_looked_for_piece_by_piece_where_something_stands_between_them(tmp_path: Path) -> None:
    second = len(STARTED + THEIRS)
    rows = [StandingLines(256, FIRST, 0, ((0, len(STARTED)), (second, len(SNAPSHOT))))]
    assert compared(tmp_path, STARTED + THEIRS + SNAPSHOT, rows) == []
    assert compared(tmp_path, STARTED + THEIRS, rows) == [(256, "gone", SNAPSHOT, 0)]


@pytest.mark.parametrize("left", [0, 1, 20, len(FINISHED) - 1])
@pytest.mark.parametrize("others", [b"", THEIRS, b"{", b"\xff"])
def test_a_line_of_which_a_crash_left_a_part_is_torn_and_one_of_which_nothing_is_left_is_gone(
    tmp_path: Path, left: int, others: bytes
) -> None:
    found = compared(tmp_path, FIRST + VERIFIED + CHANGED + FINISHED[:left] + others)
    ((row, state, line, there),) = found
    assert (row, line) == (512, FINISHED)
    if left:
        assert (state, there) == ("torn", left + (others[:1] == FINISHED[left : left + 1]))
    else:
        assert state in ("gone", "torn"), "somebody else's brace looks like ours"
        assert there == (1 if state == "torn" else 0)


def test_all_that_a_crash_took_is_told_in_the_order_in_which_it_was_written(tmp_path: Path) -> None:
    assert compared(tmp_path, STARTED) == [
        (256, "gone", SNAPSHOT, 0),
        (512, "gone", VERIFIED, 0),
        (512, "gone", CHANGED, 0),
        (512, "gone", FINISHED, 0),
    ]
    assert len(compared(tmp_path, b"")) == 5


@pytest.mark.parametrize(
    "there", [CHANGED.replace(b"status", b"Status"), b"x" * (len(CHANGED) - 1) + b"\n", THEIRS]
)
def test_a_line_before_one_that_stands_was_changed_for_no_crash_leaves_that(
    tmp_path: Path, there: bytes
) -> None:
    content = FIRST + VERIFIED + there.ljust(len(CHANGED), b" ")[: len(CHANGED)] + FINISHED
    assert compared(tmp_path, content) == [(512, "changed", CHANGED, 0)]


@pytest.mark.parametrize(
    "there",
    [
        FINISHED.replace(b"session_f", b"session_F"),
        FINISHED.replace(b'"hash":"bb"', b'"hash":"bb","more":1'),
        FINISHED.replace(b"runward", b"somebody"),
    ],
)
def test_the_last_line_that_somebody_edited_is_changed_and_not_torn(tmp_path: Path, there: bytes) -> None:
    assert compared(tmp_path, FIRST + VERIFIED + CHANGED + there) == [(512, "changed", FINISHED, 0)]


def test_a_line_in_whose_place_another_fact_stands_is_gone(tmp_path: Path) -> None:
    assert compared(tmp_path, FIRST + VERIFIED + OTHER_FACT)[0] == (512, "gone", CHANGED, 0)


def test_a_line_that_stands_elsewhere_is_moved_and_those_behind_it_are_looked_for(tmp_path: Path) -> None:
    found = compared(tmp_path, THEIRS + FIRST + SECOND)
    assert {state for _, state, _, _ in found} == {"moved"}
    assert [line for _, _, line, _ in found] == [STARTED, SNAPSHOT, VERIFIED, CHANGED, FINISHED]


def test_our_text_in_the_middle_of_somebodys_line_is_not_our_line(tmp_path: Path) -> None:
    found = compared(tmp_path, FIRST + b"they said " + SECOND)
    assert [(state, line) for _, state, line, _ in found] == [
        ("changed", VERIFIED),
        ("moved", CHANGED),
        ("moved", FINISHED),
    ]


@pytest.mark.parametrize("kind", ["nothing", "a directory", "a link", "a pipe"])
def test_where_no_file_stands_any_more_every_line_is_gone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "events.jsonl"
    match kind:
        case "a directory":
            path.mkdir()
        case "a link":
            (tmp_path / "elsewhere").write_bytes(FIRST + SECOND)
            path.symlink_to("elsewhere")
        case "a pipe":
            os.mkfifo(path)
    answer = compare(str(tmp_path), "events.jsonl", ROWS)
    assert isinstance(answer, Compared)
    assert [each.state for each in answer.altered] == ["gone"] * 5
    assert answer.altered[0] == AlteredLine(256, "gone", 0, STARTED)


def test_of_a_run_whose_directory_is_gone_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "another").mkdir()
    assert compare(str(tmp_path / "gone"), "events.jsonl", ROWS) == Gone()


def test_nothing_is_said_while_the_root_is_away_or_empty(tmp_path: Path) -> None:
    away = compare(str(tmp_path / "away" / "run"), "events.jsonl", ROWS)
    assert isinstance(away, Unreadable)
    assert "root is missing" in away.why
    (tmp_path / "empty").mkdir()
    empty = compare(str(tmp_path / "empty" / "run"), "events.jsonl", ROWS)
    assert empty == Unreadable("its root is empty"), "so a missing mount looks"


def test_a_journal_of_our_own_that_was_never_made_lacks_all_its_lines(tmp_path: Path) -> None:
    files = Files(tmp_path)
    answer = files.compare("sessions/codex/ab/abcd", "events.jsonl", ROWS)
    assert isinstance(answer, Compared)
    assert {(each.row, each.state) for each in answer.altered} == {(256, "gone"), (512, "gone")}
