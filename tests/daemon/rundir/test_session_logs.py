"""Reading logs that grow, on a real file system: every line once, whatever happens to the file."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.daemon.rundir.grown_logs import growing as open_log
from tests.daemon.rundir.grown_logs import read
from tests.project.repository import ROOT

from runward.daemon.rundir import session_logs
from runward.daemon.rundir.growing import RECOGNISED_BY
from runward.daemon.rundir.opening import NotRegular
from runward.daemon.rundir.session_logs import (
    FROM_THE_BEGINNING,
    LONGEST_KEPT,
    UNREAD,
    CannotUnpack,
    Cursor,
    Growing,
    PlacedLines,
)
from runward.handlers.layouts.call_readers import PlacedLine


class Reader:
    """Somebody who reads one log again and again, keeping only the place as it is stored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cursor = UNREAD

    def look(self, most_bytes: int = session_logs.MOST_BYTES) -> tuple[str, list[bytes]]:
        """What happened, and all the lines that there are now."""
        portion = read(str(self.path), self.cursor, most_bytes)
        happened, lines = portion.happened, list(portion.lines)
        while portion.more:
            portion = read(str(self.path), portion.cursor, most_bytes)
            lines += portion.lines
        self.cursor = portion.cursor
        assert [line.number for line in lines] == [
            self.cursor.lines - len(lines) + 1 + index for index in range(len(lines))
        ]
        return happened, [line.content for line in lines]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    return path


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_lines_are_given_once_and_an_unfinished_one_when_it_is_whole(log: Path) -> None:
    reader = Reader(log)
    assert reader.look() == ("grew", [b'{"a":1}', b'{"b":2}'])
    assert reader.look() == ("same", [])
    append(log, b'{"c":')
    assert reader.look() == ("same", [])
    append(log, b'3}\n{"d"')
    assert reader.look() == ("grew", [b'{"c":3}'])
    append(log, b":4}\n\n")
    assert reader.look() == ("grew", [b'{"d":4}', b""])


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_last_line_that_only_lacks_its_newline_counts(tmp_path: Path, is_packed: bool) -> None:
    content = b'{"a":1}\n{"b":{"c":"}"}}'
    path = tmp_path / ("log.jsonl.zst" if is_packed else "log.jsonl")
    path.write_bytes(zstandard.compress(content) if is_packed else content)
    reader = Reader(path)
    assert reader.look() == ("grew", [b'{"a":1}', b'{"b":{"c":"}"}}'])
    assert reader.look() == ("same", [])
    further = b'\n{"d":4}\n'
    append(path, zstandard.compress(further) if is_packed else further)
    assert reader.look() == ("grew", [b'{"d":4}'])
    assert reader.cursor.lines == 3


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        (b"", ""),
        (b" \t\r", ""),
        (b'{"c":3}\r', ""),
        (
            b'{"c":',
            "ends in 5 bytes that are not a complete JSON object, without a newline: they are ignored",
        ),
        (b"17", "ends in 2 bytes that are not a complete JSON object"),
        (b'{"c":3}{"d"', "ends in 11 bytes that are not a complete JSON object"),
        (b"\0" * 3, "ends in 3 NUL bytes, without a newline: they are ignored"),
        (b'{"c":3}\0\0', "ends in 2 NUL bytes"),
    ],
)
def test_what_a_log_ends_in_instead_of_a_line_is_named(log: Path, tail: bytes, problem: str) -> None:
    append(log, tail)
    with open_log(str(log), UNREAD) as opened:
        lines = opened.portion().lines
        assert opened.torn().startswith(problem)
        assert bool(opened.torn()) == bool(problem)
    assert [line.content for line in lines[2:]] == (
        [b'{"c":3}'] if tail.startswith(b'{"c":3}') and b"{" not in tail[1:] else []
    )


def test_an_empty_file_becomes_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.touch()
    reader = Reader(path)
    assert reader.look() == ("same", [])
    append(path, b"one\n")
    assert reader.look() == ("grew", [b"one"])


def test_a_truncated_log_is_read_from_its_beginning(log: Path) -> None:
    reader = Reader(log)
    reader.look()
    log.write_bytes(b"new\n")
    assert reader.look() == ("truncated", [b"new"])
    assert reader.look() == ("same", [])


def test_a_log_that_another_file_replaced_is_read_from_its_beginning(log: Path, tmp_path: Path) -> None:
    reader = Reader(log)
    reader.look()
    (tmp_path / "other").write_bytes(b'{"a":1}\n{"b":2}\n{"c":3}\n')
    os.replace(tmp_path / "other", log)
    assert reader.look() == ("replaced", [b'{"a":1}', b'{"b":2}', b'{"c":3}'])


def test_a_log_that_was_written_anew_in_place_is_read_from_its_beginning(log: Path) -> None:
    reader = Reader(log)
    reader.look()
    log.write_bytes(b'{"a":1}\n{"x":2}\n{"c":3}\n')
    assert reader.look() == ("rewritten", [b'{"a":1}', b'{"x":2}', b'{"c":3}'])


def test_a_log_that_is_gone_keeps_its_place_and_goes_on_when_it_is_moved_back(
    log: Path, tmp_path: Path
) -> None:
    reader = Reader(log)
    reader.look()
    log.rename(tmp_path / "elsewhere")
    place = reader.cursor
    with pytest.raises(FileNotFoundError):
        reader.look()
    assert reader.cursor == place
    (tmp_path / "elsewhere").rename(log)
    append(log, b"more\n")
    assert reader.look() == ("grew", [b"more"])


def test_a_log_that_was_renamed_is_the_same_log(log: Path, tmp_path: Path) -> None:
    reader = Reader(log)
    reader.look()
    reader.path = log.rename(tmp_path / "archived.jsonl")
    append(reader.path, b"more\n")
    assert reader.look() == ("grew", [b"more"])


def test_only_regular_files_are_read_and_nothing_blocks(tmp_path: Path, log: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to(log)
    (tmp_path / "directory.jsonl").mkdir()
    for name in ("pipe.jsonl", "directory.jsonl"):
        with pytest.raises(NotRegular):
            read(str(tmp_path / name), UNREAD)
    with pytest.raises(OSError, match="symbolic links"):
        read(str(tmp_path / "link.jsonl"), UNREAD)


@pytest.mark.parametrize("most_bytes", [session_logs.MOST_BYTES, 1000, 1])
def test_a_line_that_is_longer_than_a_portion_is_read_whole(log: Path, most_bytes: int) -> None:
    append(log, b"x" * 5000 + b"\nend\n")
    _, lines = Reader(log).look(most_bytes)
    assert lines == [b'{"a":1}', b'{"b":2}', b"x" * 5000, b"end"]


@pytest.mark.parametrize("pause", [False, True], ids=["in one reading", "while it is written"])
def test_a_line_over_the_limit_is_cut_and_what_follows_is_read(log: Path, pause: bool) -> None:
    reader = Reader(log)
    append(log, b"x" * (LONGEST_KEPT + 7))
    if pause:
        reader.look()
    append(log, b"y" * 3_000_000)
    if pause:
        assert reader.look() == ("grew", [])
    append(log, b"y\nend\n")
    _, lines = reader.look()
    portion = read(str(log), UNREAD, 1 << 30)
    assert [(line.number, len(line.content), line.is_cut) for line in portion.lines] == [
        (1, 7, False),
        (2, 7, False),
        (3, LONGEST_KEPT, True),
        (4, 3, False),
    ]
    assert lines[-1] == b"end"
    assert reader.cursor == portion.cursor


def test_a_line_of_just_the_limit_is_whole(log: Path) -> None:
    log.write_bytes(b"x" * LONGEST_KEPT + b"\n")
    (line,) = read(str(log), UNREAD).lines
    assert (len(line.content), line.is_cut) == (LONGEST_KEPT, False)


def test_a_hole_of_a_terabyte_is_passed_over(log: Path) -> None:
    reader = Reader(log)
    os.truncate(log, 1 << 40)
    append(log, b"\nend\n")
    _, lines = reader.look()
    assert lines[:2] == [b'{"a":1}', b'{"b":2}']
    assert lines[-1] == b"end"
    assert len(lines) == 4
    append(log, b"more\n")
    assert reader.look() == ("grew", [b"more"])


def pack(path: Path, content: bytes, *, frames: int = 1) -> None:
    packer = zstandard.ZstdCompressor()
    size = max(1, -(-len(content) // frames))
    path.write_bytes(
        b"".join(packer.compress(content[at : at + size]) for at in range(0, max(1, len(content)), size))
    )


def test_a_packed_log_gives_the_lines_of_the_plain_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    pack(path, b"one\ntwo\nthree\n", frames=2)
    reader = Reader(path)
    assert reader.look(4) == ("grew", [b"one", b"two", b"three"])
    assert reader.look() == ("same", [])


def test_a_packed_log_that_grows_by_a_frame_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    pack(path, b"one\ntw")
    reader = Reader(path)
    assert reader.look() == ("grew", [b"one"])
    append(path, zstandard.ZstdCompressor().compress(b"o\nthree\n"))
    assert reader.look() == ("grew", [b"two", b"three"])
    pack(path, b"on\ntwo\n")
    happened, lines = reader.look()
    assert happened in FROM_THE_BEGINNING
    assert lines == [b"on", b"two"]


def test_a_packed_log_that_grows_while_it_is_read_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    pack(path, b"one\n")
    with open_log(str(path), UNREAD) as log:
        first = log.portion(4)
        append(path, zstandard.compress(b"two\n"))
        following = log.portion()
    assert [line.content for line in (*first.lines, *following.lines)] == [b"one", b"two"]
    append(path, zstandard.compress(b"three\n"))
    assert [line.content for line in read(str(path), following.cursor).lines] == [b"three"]


def test_a_packed_log_that_breaks_off_gives_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    lines = [b"%d %s" % (number, os.urandom(50).hex().encode()) for number in range(20_000)]
    pack(path, b"\n".join(lines) + b"\n")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    reader = Reader(path)
    _, read_lines = reader.look()
    assert 0 < len(read_lines) < len(lines)
    assert read_lines == lines[: len(read_lines)]
    pack(path, b"\n".join(lines) + b"\n")
    assert reader.look() == ("grew", lines[len(read_lines) :])


def test_what_is_no_packed_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "log.zst").write_bytes(b"no zstd at all")
    with pytest.raises(CannotUnpack, match="can't be unpacked"):
        read(str(tmp_path / "log.zst"), UNREAD)


def test_a_packed_file_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    (tmp_path / "log.zst").write_bytes(packer.compress(b"x\n" * 1_000_000) + packer.flush())
    with pytest.raises(CannotUnpack, match="memory"):
        read(str(tmp_path / "log.zst"), UNREAD)


def test_a_packed_file_that_unpacks_without_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_logs, "MOST_UNPACKED", 3_000_000)
    pack(tmp_path / "log.zst", b"x" * 30_000_000)
    with pytest.raises(CannotUnpack, match="unpacks to more than"):
        Reader(tmp_path / "log.zst").look()


pieces = st.lists(st.sampled_from([b"\n", b"a", b"bc\n", b"\0\0", b"}{", b"long" * 20, b"\n\n"]), max_size=12)


@given(
    st.lists(st.tuples(st.booleans(), pieces, st.sampled_from([1, 3, 64, 1000])), max_size=12), st.booleans()
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_of_appends_and_readings_gives_every_line_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    steps: list[tuple[bool, list[bytes], int]],
    short: bool,
) -> None:
    monkeypatch.setattr(session_logs, "LONGEST_KEPT", 70 if short else LONGEST_KEPT)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"")
    reader = Reader(path)
    got: list[bytes] = []
    for reads, content, most_bytes in steps:
        append(path, b"".join(content))
        if reads:
            got += reader.look(most_bytes)[1]
    got += reader.look()[1]
    *whole, rest = path.read_bytes().split(b"\n")
    if short and len(rest) > 70:
        whole.append(rest)
    assert got == [line[:70] if short else line for line in whole]


unended = st.lists(st.sampled_from([b"\n", b'{"a":1}', b'{"b":', b"2}", b"\0", b" "]), max_size=6)


@given(st.lists(st.tuples(unended, st.sampled_from([1, 3, 64])), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_whose_newline_comes_late_or_never_are_given_once_under_their_numbers(
    tmp_path: Path, steps: list[tuple[list[bytes], int]]
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"")
    cursor, written, place = UNREAD, b"", 0
    for content, most_bytes in steps:
        append(path, b"".join(content))
        written += b"".join(content)
        more = True
        while more:
            portion = read(str(path), cursor, most_bytes)
            cursor, more = portion.cursor, portion.more
            for line in portion.lines:
                start = written.index(line.content, place)
                assert written[place:start].strip(b"\0 \n") == b"", "nothing is left out"
                assert line.number == written.count(b"\n", 0, start) + 1 or not line.content
                place = start + len(line.content)
        assert b"\n" not in written[place:].strip(b"\0 \n")


@given(pieces, pieces, st.integers(0, 200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_written_in_place_of_a_log_is_read_to_its_end(
    tmp_path: Path, before: list[bytes], after: list[bytes], cut: int
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(before))
    reader = Reader(path)
    _, seen = reader.look()
    path.write_bytes((b"".join(before) + b"".join(after))[cut:])
    happened, lines = reader.look()
    known = [] if happened in FROM_THE_BEGINNING else seen
    whole = path.read_bytes().split(b"\n")[:-1]
    assert known + lines == whole or (happened not in FROM_THE_BEGINNING and cut > 0)


@given(pieces, st.sampled_from(["grown", "truncated", "rewritten", "replaced"]), st.integers(1, 80), pieces)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_readers_of_a_log_recognise_it_by_what_is_before_the_cursor(
    tmp_path: Path, before: list[bytes], change: str, place: int, after: list[bytes]
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"begin\n" + b"".join(before) + b"\n")
    old, inode = path.read_bytes(), path.stat().st_ino
    cursor = read(str(path), UNREAD).cursor
    content = bytearray(old)
    if change == "truncated":
        del content[-place:]
    elif change == "rewritten":
        content[-min(place, len(content))] ^= 1
    elif change == "replaced":
        path.rename(tmp_path / "moved.jsonl")
    path.write_bytes(content + b"".join(after))
    new = path.read_bytes()
    first = max(0, len(old) - RECOGNISED_BY)
    is_known = path.stat().st_ino == inode and new[first : len(old)] == old[first:]
    with path.open("rb") as file:
        portion = read(str(path), cursor)
        placed = PlacedLines(file.fileno(), cursor)
        lines = [line for line in placed.lines() if isinstance(line, PlacedLine)]
        assert Growing(file.fileno(), cursor).is_another() == placed.is_another() == (not is_known)
    assert [(line.number, line.content) for line in lines] == [line[:2] for line in portion.lines]
    assert placed.cursor == portion.cursor


_MEASURE = """\
    import sys
    from runward.daemon.rundir.session_logs import UNREAD
    from tests.daemon.rundir.grown_logs import growing
    lines = size = cut = 0
    with growing(sys.argv[1], UNREAD) as log:
        more = True
        while more:
            portion = log.portion()
            lines += len(portion.lines)
            cut += sum(line.is_cut for line in portion.lines)
            more = portion.more
    # Not getrusage: its maximum is inherited from the process that started this one.
    (peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(lines, cut, int(peak.split()[1]) // 1024)
"""


def _measured(path: Path) -> tuple[int, int, int]:
    """The lines of a log, how many were cut, and the MiB that a process of its own took for reading it."""
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_MEASURE), str(path)],
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    lines, cut, memory = map(int, said.stdout.split())
    return lines, cut, memory


@pytest.mark.prove
def test_a_gigabyte_of_lines_takes_less_than_100_mb(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    block = (b"x" * 499 + b"\n") * 2000
    with path.open("wb") as file:
        for _ in range(1000):
            file.write(block)
    lines, cut, memory = _measured(path)
    assert (lines, cut) == (2_000_000, 0)
    assert memory < 100


@pytest.mark.prove
def test_a_line_of_a_gigabyte_takes_less_than_100_mb(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("wb") as file:
        for _ in range(1000):
            file.write(b"x" * 1_000_000)
        file.write(b"\nend\n")
    lines, cut, memory = _measured(path)
    assert (lines, cut) == (2, 1)
    assert memory < 100


@pytest.mark.prove
def test_a_gigabyte_that_was_packed_takes_less_than_100_mb(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    block = (b"x" * 499 + b"\n") * 2000
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as packer:
        for _ in range(1000):
            packer.write(block)
    lines, cut, memory = _measured(path)
    assert (lines, cut) == (2_000_000, 0)
    assert memory < 100


def test_a_portion_reads_only_about_as_much_as_it_may(log: Path) -> None:
    append(log, b"line\n" * 100_000)
    descriptor = os.open(log, os.O_RDONLY)
    try:
        reading = Growing(descriptor, UNREAD)
        portion = reading.portion(1000)
        assert portion.more
        assert portion.cursor.offset <= 1000
        assert portion.cursor == Cursor(*portion.cursor)
    finally:
        os.close(descriptor)
