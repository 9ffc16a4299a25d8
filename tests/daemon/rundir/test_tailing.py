"""Reading a growing file: each line once, however it comes, and nothing that isn't a regular file."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.rundir.tailing import MAXIMUM_LINE, Line, NotRegular, Tail, ends_with, open_in_run


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
