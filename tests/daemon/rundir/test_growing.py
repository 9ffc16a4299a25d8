"""Reading a growing file: each line once, however it comes, and nothing that isn't a regular file."""

import os
from collections import defaultdict
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.rundir import growing
from runward.daemon.rundir.growing import (
    MAXIMUM_LINE,
    RECOGNISED_BY,
    FileBytes,
    Line,
    Lines,
    Position,
    Tail,
    ends_with,
    whole_lines,
)
from runward.daemon.rundir.opening import NotRegular, open_in_run

PIECES = st.lists(
    st.sampled_from([b"\n", b"a", b"bc\n", b"\0\0", b"long" * 20, b"\n\n", b"x" * 200]), max_size=20
)
SIZES = st.lists(st.integers(1, 150), min_size=1, max_size=10)
LONGEST = 100


class Dealt:
    """Bytes that come in pieces of these sizes, again and again."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        self._left = content
        self._sizes = cycle(sizes)
        self.most = len(content) + 1

    def read(self, most: int) -> bytes:
        size = min(next(self._sizes), most)
        piece, self._left = self._left[:size], self._left[size:]
        return piece

    def pass_over_hole(self) -> int:
        return 0


def _all(lines: Lines, most: int) -> list[tuple[int, int, bytes, int]]:
    """Each line: its number, where it begins, what is kept of it, and its length."""
    found: list[tuple[int, int, bytes, int]] = []
    while (whole := lines.read(most)) is not None:
        for index, content in enumerate(whole.contents):
            start = whole.position_after(index).offset
            found.append((whole.number + index, start, content, whole.length(index)))
            assert (whole.length(index) > LONGEST) == (index in whole.cut)
    return found


def _model(content: bytes) -> list[tuple[int, int, bytes, int]]:
    found: list[tuple[int, int, bytes, int]] = []
    start = 0
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        found.append((number, start, line[:LONGEST], len(line)))
        start += len(line) + 1
    return found


@given(pieces=PIECES, sizes=SIZES)
def test_the_lines_are_the_same_in_whatever_pieces_the_bytes_come(
    pieces: list[bytes], sizes: list[int]
) -> None:
    content = b"".join(pieces)
    source = Dealt(content, sizes)
    lines = Lines(source, LONGEST)
    assert _all(lines, source.most) == _model(content)
    end = content.rfind(b"\n") + 1
    number = content.count(b"\n")
    assert lines.position == Position(end, number, content[max(0, end - RECOGNISED_BY) : end])
    assert (lines.length, lines.unfinished) == (len(content) - end, content[end:][:LONGEST])


@given(pieces=PIECES, sizes=SIZES, stop=st.integers(0, 20))
def test_reading_goes_on_after_any_line(pieces: list[bytes], sizes: list[int], stop: int) -> None:
    content = b"".join(pieces)
    source = Dealt(content, sizes)
    lines, count = Lines(source, LONGEST), 0
    position = lines.position
    while count < stop and (whole := lines.read(source.most)) is not None:
        given = min(stop - count, len(whole.contents))
        position, count = whole.position_after(given), count + given
    start = position.offset
    assert position.last == content[max(0, start - RECOGNISED_BY) : start]
    following = Dealt(content[start:], [LONGEST])
    assert _all(Lines(following, LONGEST, position), following.most) == _model(content)[count:]


@given(pieces=PIECES, sizes=SIZES, resume=st.booleans())
def test_a_line_that_is_given_as_soon_as_it_is_too_long_is_given_once(
    pieces: list[bytes], sizes: list[int], resume: bool
) -> None:
    content = b"".join(pieces)
    source = Dealt(content, sizes)
    lines = Lines(source, LONGEST)
    found: list[bytes] = []
    while (whole := lines.read(source.most)) is not None:
        found += whole.contents
        if lines.is_too_long:
            found.append(lines.give_cut())
            if resume:
                lines = Lines(source, LONGEST, lines.position)
    model = [line[:LONGEST] for line in content.split(b"\n")]
    if len(content) - content.rfind(b"\n") - 1 <= LONGEST:
        model.pop()
    assert found == model
    assert lines.position.lines == len(model)
    assert lines.position.offset + lines.length == len(content)
    end = lines.position.offset
    assert lines.position.last == content[max(0, end - RECOGNISED_BY) : end]


@given(
    pieces=PIECES,
    sizes=SIZES,
    gives=st.lists(st.integers(0, 99), max_size=30),
)
def test_a_line_that_is_given_before_its_newline_goes_on_under_its_number(
    pieces: list[bytes], sizes: list[int], gives: list[int]
) -> None:
    content = b"".join(pieces)
    source = Dealt(content, sizes)
    lines = Lines(source, len(content))
    parts: defaultdict[int, bytes] = defaultdict(bytes)
    while (whole := lines.read(source.most)) is not None:
        for number, part in enumerate(whole.contents, whole.number):
            parts[number] += part
        if length := min(gives.pop() if gives else 0, lines.length):
            part = lines.unfinished[:length]
            lines.give_unended(length)
            parts[lines.position.lines] += part
            end = lines.position.offset
            assert lines.position.last == content[max(0, end - RECOGNISED_BY) : end]
    parts[lines.position.lines + (not lines.position.unended)] += lines.unfinished
    assert parts == dict(enumerate(content.split(b"\n"), 1))
    assert lines.position.offset + lines.length == len(content)


@given(
    before=st.sampled_from([b"", b"a\n", b"a\nbc", b"x" * 99]),
    hole=st.integers(0, 80_000),
    after=st.sampled_from([b"", b"\n", b"z", b"\nend\n"]),
    most=st.integers(20, 5000),
)
def test_a_hole_gives_what_as_many_zeros_give(
    before: bytes, hole: int, after: bytes, most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("hole") / "lines"
    path.write_bytes(before)
    os.truncate(path, len(before) + hole)
    with path.open("ab") as file:
        file.write(after)
    content = path.read_bytes()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        lines = Lines(FileBytes(descriptor), LONGEST)
        assert _all(lines, most) == _model(content)
    finally:
        os.close(descriptor)
    end = content.rfind(b"\n") + 1
    assert (lines.position.offset, lines.length) == (end, len(content) - end)
    assert lines.position.last == content[max(0, end - RECOGNISED_BY) : end]


@given(pieces=PIECES, less=st.integers(0, 300), chunk=st.integers(1, 300))
def test_the_lines_before_a_byte_have_their_places(
    pieces: list[bytes], less: int, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("whole") / "lines"
    path.write_bytes(b"".join(pieces))
    content = path.read_bytes()[: max(0, path.stat().st_size - less)]
    with path.open("rb") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "_LARGE_CHUNK", chunk)
        read = list(whole_lines(file.fileno(), len(content), LONGEST))
    unended = [] if content.endswith(b"\n") or not content else [b"\n"]
    model = [
        (start, line + b"\n")
        for _, start, line, length in _model(content + b"".join(unended))
        if length <= LONGEST
    ]
    assert read == model


def _opener(path: Path) -> Callable[[], int]:
    return lambda: os.open(path, os.O_RDONLY)


def _texts(tail: Tail) -> list[bytes]:
    return [line.content for line in tail.lines()]


@given(pieces=st.lists(st.binary(max_size=40), max_size=8))
def test_however_the_bytes_come_each_line_is_read_once(
    pieces: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("tail") / "lines"
    path.touch()
    tail = Tail(_opener(path))
    read: list[Line] = []
    with path.open("ab", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
            read += tail.lines()
    last = tail.unfinished()
    tail.close()
    *whole, rest = b"".join(pieces).split(b"\n")
    assert [line.content for line in read] == whole
    assert [line.number for line in read] == list(range(1, len(whole) + 1))
    assert (last.content if last is not None else b"") == rest


def test_a_line_that_is_too_long_is_cut_and_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * (MAXIMUM_LINE + 1) + b"\n" + b"y" * MAXIMUM_LINE + b"\nz\n")
    tail = Tail(_opener(path))
    cut, full, short = tail.lines()
    tail.close()
    assert (len(cut.content), cut.is_cut) == (MAXIMUM_LINE, True)
    assert (len(full.content), full.is_cut) == (MAXIMUM_LINE, False)
    assert (short.content, short.is_cut, short.number) == (b"z", False, 3)


@pytest.mark.parametrize("hole", [1 << 20, 1 << 40])
def test_a_hole_is_as_many_zeros_and_costs_no_time(tmp_path: Path, hole: int) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo")
    os.truncate(path, hole)
    with path.open("ab") as file:
        file.write(b"three\nfour\n")
    os.truncate(path, hole + hole)
    tail = Tail(_opener(path))
    first, cut, last = tail.lines()
    rest = tail.unfinished()
    tail.close()
    assert (first.content, last.content, last.number) == (b"one", b"four", 3)
    assert (cut.content[:5], cut.is_cut) == (b"two\0\0", True)
    assert len(cut.content) == MAXIMUM_LINE
    assert rest is not None
    assert set(rest.content) == {0}


def test_a_small_hole_is_kept_in_its_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 300_000)
    with path.open("ab") as file:
        file.write(b"x\n")
    tail = Tail(_opener(path))
    (line,) = tail.lines()
    tail.close()
    assert line == Line(1, bytes(300_000) + b"x")


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n")
    tail = Tail(_opener(path))
    assert _texts(tail) == [b"one", b"two"]
    os.truncate(path, 0)
    with path.open("ab") as file:
        file.write(b"new\n")
    assert _texts(tail) == [b"new"]
    tail.close()


def test_another_file_at_the_path_is_read_after_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"old\n")
    tail = Tail(_opener(path))
    assert _texts(tail) == [b"old"]
    assert not tail.moved_on()
    path.rename(tmp_path / "lines.1")
    assert not tail.moved_on()
    path.write_bytes(b"new\n")
    assert tail.moved_on()
    assert [(line.number, line.content) for line in tail.lines()] == [(1, b"new")]
    tail.close()


def test_a_link_a_pipe_and_a_directory_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"secret\n")
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError, match="symbolic links"):
        open_in_run(str(tmp_path), "link")
    for name in ("pipe", "directory"):
        with pytest.raises(NotRegular):
            open_in_run(str(tmp_path), name)
    (tmp_path / "run").symlink_to(tmp_path)
    with pytest.raises(OSError, match="Not a directory"):
        open_in_run(str(tmp_path / "run"), "target")


def test_the_end_of_a_file_is_compared(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    assert ends_with(str(tmp_path), "lines", b"two\n")
    assert not ends_with(str(tmp_path), "lines", b"three\n")
    assert not ends_with(str(tmp_path), "nowhere", b"")
