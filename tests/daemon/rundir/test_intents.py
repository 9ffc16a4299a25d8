"""Reading `intents.jsonl`: from where the last reading ended, and nothing that is not what it was."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.daemon.rundir.intents import INTENTS, IntentCursor, IntentLine, IntentsRead, read_intents
from runward.handlers.exchange.intent import LONGEST_LINE

START = IntentCursor()


def read(run: Path, cursor: IntentCursor = START, most: int = 100, is_over: bool = False) -> IntentsRead:
    found = read_intents(str(run), cursor, most, is_over)
    assert found is not None
    return found


def texts(found: IntentsRead) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in found.lines]


def test_lines_are_read_once_and_the_unfinished_one_when_it_is_finished(tmp_path: Path) -> None:
    file = tmp_path / INTENTS
    file.write_bytes(b"one\n\ntwo\nthr")
    first = read(tmp_path)
    assert texts(first) == [(1, "one"), (2, ""), (3, "two")]
    assert texts(read(tmp_path, first.cursor)) == []
    with file.open("ab") as appended:
        appended.write(b"ee\nfour")
    second = read(tmp_path, first.cursor)
    assert texts(second) == [(4, "three")]
    last = read(tmp_path, second.cursor, is_over=True)
    assert texts(last) == [(5, "four")], "the run is over: no newline will come"
    assert texts(read(tmp_path, last.cursor, is_over=True)) == []


def test_no_more_lines_are_read_than_there_is_room_for(tmp_path: Path) -> None:
    (tmp_path / INTENTS).write_bytes(b"x\n" * 10)
    first = read(tmp_path, most=4)
    assert (len(first.lines), first.more) == (4, True)
    rest = read(tmp_path, first.cursor, most=100)
    assert ([line.number for line in rest.lines], rest.more) == ([5, 6, 7, 8, 9, 10], False)


def test_a_line_that_is_no_text_or_too_long_is_a_line_with_a_complaint(tmp_path: Path) -> None:
    long = b"x" * (LONGEST_LINE + 1)
    (tmp_path / INTENTS).write_bytes(
        b"\xff\n" + long + b"\n" + b"y" * LONGEST_LINE + b"\n" + b"z" * 10_000_000 + b"\nend\n"
    )
    found = read(tmp_path)
    said = [(line.complaint or "")[:25] for line in found.lines]
    while found.more:
        found = read(tmp_path, found.cursor)
        said += [(line.complaint or "")[:25] for line in found.lines]
    too_long = "the line is longer than 1"
    assert said == ["the line is not UTF-8 (by", too_long, "", too_long, ""]
    assert found.lines[-1].text == "end"


def test_nothing_is_read_where_there_is_nothing(tmp_path: Path) -> None:
    assert read_intents(str(tmp_path), START, 10, False) is None
    assert read_intents(str(tmp_path / "gone"), START, 10, False) is None


@pytest.mark.parametrize(
    ("stands", "why"),
    [
        ("link", "is a link"),
        ("dangling", "is a link"),
        ("fifo", "not a regular file"),
        ("directory", "not a regular file"),
        ("socket", "not a regular file"),
    ],
)
def test_what_is_not_a_regular_file_is_read_no_further(tmp_path: Path, stands: str, why: str) -> None:
    import socket

    place = tmp_path / INTENTS
    if stands == "link":
        (tmp_path / "secret").write_text("a\n")
        place.symlink_to(tmp_path / "secret")
    elif stands == "dangling":
        place.symlink_to("/nowhere")
    elif stands == "fifo":
        os.mkfifo(place)
    elif stands == "directory":
        place.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    found = read(tmp_path)
    assert (found.lines, why in str(found.problem)) == ((), True), found


def test_a_file_that_was_changed_before_the_cursor_is_read_no_further(tmp_path: Path) -> None:
    file = tmp_path / INTENTS
    file.write_bytes(b"one\ntwo\n")
    cursor = read(tmp_path).cursor
    file.write_bytes(b"one\n")
    assert "truncated" in str(read(tmp_path, cursor).problem)
    file.write_bytes(b"one\nTWO\nthree\n")
    assert "rewritten" in str(read(tmp_path, cursor).problem)
    file.write_bytes(b"one\ntwo\nthree\n")
    assert texts(read(tmp_path, cursor)) == [(3, "three")]
    other = tmp_path / "other"
    other.write_bytes(b"one\ntwo\nthree\n")
    other.rename(file)
    assert texts(read(tmp_path, cursor)) == [(3, "three")], "appended by replacing the file"
    other.write_bytes(b"one\nTWO\nthree\n")
    other.rename(file)
    assert "rewritten" in str(read(tmp_path, cursor).problem)
    file.unlink()
    assert "taken away" in str(read(tmp_path, cursor).problem)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.binary(max_size=6).filter(lambda line: b"\n" not in line), max_size=12),
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(1, 4),
)
def test_however_it_grows_each_line_is_read_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int], most: int
) -> None:
    run = tmp_path_factory.mktemp("run")
    content = b"".join(line + b"\n" for line in lines)
    cursor = START
    found: list[IntentLine] = []
    for end in [*sorted(cuts), len(content), *[len(content)] * 12]:
        with (run / INTENTS).open("ab") as file:
            file.write(content[file.tell() : end])
        now = read(run, cursor, most)
        cursor = now.cursor
        found += now.lines
    assert [line.number for line in found] == list(range(1, len(lines) + 1))
    assert [line.text if line.complaint is None else None for line in found] == [
        _text(line) for line in lines
    ]


def _text(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("is_over", [False, True])
def test_a_line_without_an_end_is_a_problem_however_large_it_is(tmp_path: Path, is_over: bool) -> None:
    file = tmp_path / INTENTS
    file.write_bytes(b"one\n")
    os.truncate(file, 1 << 42)  # a hole that would take hours to read
    first = read(tmp_path, is_over=is_over)
    assert texts(first) == [(1, "one")]
    second = read(tmp_path, first.cursor, is_over=is_over)
    assert (texts(second), second.cursor) == ([], first.cursor)
    assert "longer than 64 MiB" in str(second.problem)
