"""Hashing what lies under a root: whole files, nothing outside, nothing that blocks, nothing that never ends."""

import errno
import hashlib
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.rundir import hashes
from runward.daemon.rundir.hashes import file_hashes
from runward.daemon.rundir.opening import Halted
from runward.handlers.model.files import FileHash, RootHashes, Unreadable


def go_on(read: int) -> bool:
    return True


def hashed(root: Path, *paths: str, go_on: Callable[[int], bool] = go_on) -> list[FileHash]:
    answer = file_hashes(str(root), "", paths, go_on)
    assert isinstance(answer, RootHashes)
    assert answer.exists
    return list(answer.files)


def of(path: Path) -> FileHash:
    status = path.stat()
    return FileHash(
        "hashed", status.st_size, status.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()
    )


def write(path: Path, content: bytes = b"fine\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_each_file_is_hashed_with_the_size_and_time_that_it_has(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.md"), write(tmp_path / "deep/er/two.bin", os.urandom(3000))
    assert hashed(tmp_path, "one.md", "deep/er/two.bin") == [of(one), of(two)]
    assert hashed(tmp_path, "./one.md/", "deep//er/./two.bin") == [of(one), of(two)], (
        "as a verification reads it"
    )


@given(content=st.binary(min_size=1, max_size=80), chunk=st.integers(1, 32))
def test_a_file_is_hashed_the_same_in_chunks_of_any_size(content: bytes, chunk: int) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashes, "CHUNK", chunk)
        path = write(Path(directory) / "file", content)
        read: list[int] = []

        def count(length: int) -> bool:
            read.append(length)
            return True

        assert hashed(path.parent, "file", go_on=count) == [of(path)]
        assert sum(read) == len(content)
        assert max(read) <= chunk


def test_a_link_that_stays_inside_is_followed_and_one_that_leads_outside_is_not(tmp_path: Path) -> None:
    inside = write(tmp_path / "root/real/file")
    outside = write(tmp_path / "secret")
    root = tmp_path / "root"
    (root / "link").symlink_to("real/file")
    (root / "absolute").symlink_to(inside)
    (root / "directory").symlink_to("real")
    (root / "out").symlink_to("../secret")
    (root / "away").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    found = hashed(root, "link", "absolute", "directory/file", "out", "away", "loop")
    assert found[:3] == [of(inside)] * 3
    assert [each.state for each in found[3:]] == ["outside", "outside", "not_regular"]
    assert all(each.sha256 is None for each in found[3:])


def test_what_is_no_regular_file_is_not_opened_to_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        found = hashed(tmp_path, "fifo", "directory", "socket", "/dev/zero"[1:])
    assert [each.state for each in found] == ["not_regular", "not_regular", "not_regular", "absent"]


def test_a_file_that_is_empty_or_gone_has_no_hash(tmp_path: Path) -> None:
    write(tmp_path / "empty", b"")
    write(tmp_path / "file")
    found = hashed(tmp_path, "empty", "absent", "file/below", "x" * 300)
    assert [each.state for each in found] == ["empty", "absent", "absent", "absent"]


def test_a_file_that_may_not_be_read_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "closed")
    opened = os.open

    def refused(name: str, flags: int, *, dir_fd: int | None = None) -> int:
        if name == "closed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return opened(name, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refused)  # root would be let in
    assert hashed(tmp_path, "closed") == [FileHash("denied")]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes() + b"more"),
        lambda path: os.truncate(path, 5),
        lambda path: os.utime(path, ns=(1, 1)),
    ],
    ids=["grows", "shrinks", "is touched"],
)
def test_a_file_that_is_written_to_meanwhile_is_said_to_be_changing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(hashes, "CHUNK", 4)
    path = write(tmp_path / "file", b"twelve bytes")
    chunks: list[int] = []

    def meanwhile(read: int) -> bool:
        chunks.append(read)
        if len(chunks) == 2:
            change(path)
        return True

    assert hashed(tmp_path, "file", go_on=meanwhile) == [FileHash("changing")]


def test_whoever_writes_on_and_on_keeps_no_reader_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "CHUNK", 4)
    path = write(tmp_path / "file", b"twelve bytes")
    chunks: list[int] = []

    def meanwhile(read: int) -> bool:
        chunks.append(read)
        with path.open("ab") as file:
            file.write(b"as much again")
        return True

    assert hashed(tmp_path, "file", go_on=meanwhile) == [FileHash("changing")]
    assert sum(chunks) == 12


def test_a_file_that_gives_way_to_a_link_or_a_fifo_at_the_last_moment_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = write(tmp_path / "secret")
    root = tmp_path / "root"
    opened = os.open
    swaps: list[Callable[[Path], object]] = [lambda path: path.symlink_to(secret), os.mkfifo, os.mkdir]
    states: list[str] = []
    for swap in swaps:
        path = write(root / f"file{len(states)}")

        def swapped(
            name: str,
            flags: int,
            *,
            dir_fd: int | None = None,
            path: Path = path,
            swap: Callable[[Path], object] = swap,
        ) -> int:
            if name == path.name:
                path.unlink()
                swap(path)
            return opened(name, flags, dir_fd=dir_fd)

        monkeypatch.setattr(os, "open", swapped)
        states += [each.state for each in hashed(root, path.name)]
    assert states == ["changing", "not_regular", "not_regular"]


def test_halting_ends_in_the_middle_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "CHUNK", 1)
    write(tmp_path / "file", b"x" * 1000)
    chunks: list[int] = []

    def halt(read: int) -> bool:
        chunks.append(read)
        return len(chunks) < 10

    before = os.listdir("/proc/self/fd")
    with pytest.raises(Halted):
        file_hashes(str(tmp_path), "", ["file"], halt)
    assert len(chunks) == 10
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_giant_is_not_read_at_all(tmp_path: Path) -> None:
    path = tmp_path / "giant"
    path.touch()
    os.truncate(path, hashes.MOST + 1)
    asked: list[int] = []

    def count(read: int) -> bool:
        asked.append(read)
        return True

    assert [each.state for each in hashed(tmp_path, "giant", go_on=count)] == ["too_large"]
    assert asked == []


def test_many_sparse_files_cost_no_more_than_the_bound_of_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "MOST", 1 << 20)
    names = [f"giant-{number}" for number in range(500)]
    for name in names:
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 1 << 19)
    small = write(tmp_path / "small")
    total = 0

    def count(read: int) -> bool:
        nonlocal total
        total += read
        return True

    found = hashed(tmp_path, *names, go_on=count)
    assert [each.state for each in found] == ["hashed"] * 2 + ["too_large"] * 498
    assert total == 1 << 20
    assert hashed(tmp_path, names[0], "small")[1] == of(small)


@given(st.lists(st.tuples(st.sampled_from([1, 4096, 10_000]), st.booleans(), st.booleans()), max_size=8))
def test_holes_hash_like_the_zeros_that_they_are(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, bool, bool]]
) -> None:
    path = tmp_path_factory.mktemp("holes") / "file"
    with path.open("wb") as file:
        for length, is_hole, ends_in_zero in pieces:
            if is_hole:
                file.seek(length * 10, os.SEEK_CUR)
            else:
                file.write(b"x" * length + b"\0" * ends_in_zero)
        file.truncate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashes, "CHUNK", 4096)
        found = hashed(path.parent, "file")
    assert found == [of(path)] if path.stat().st_size else [FileHash("empty")]


def test_holes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"x")
        file.truncate(64 << 20)
    preadv, reads = os.preadv, []

    def counting(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        reads.append(offset)
        return preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", counting)
    assert hashed(tmp_path, "file") == [of(path)]
    assert reads == [0]


def test_files_that_are_written_to_meanwhile_count_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "MOST", 100)
    names = [write(tmp_path / f"file-{number}", b"x" * 40).name for number in range(5)]

    def touch(read: int) -> bool:
        for name in names:
            os.utime(tmp_path / name, ns=(0, time.time_ns()))
        return True

    states = [each.state for each in hashed(tmp_path, *names, go_on=touch)]
    assert states == ["changing"] * 2 + ["too_large"] * 3


def test_a_file_that_can_not_be_read_is_no_reason_to_leave_the_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = write(tmp_path / "bad"), write(tmp_path / "good")
    preadv, number = os.preadv, bad.stat().st_ino

    def broken(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if os.fstat(descriptor).st_ino == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", broken)
    assert hashed(tmp_path, "bad", "good") == [FileHash("unreadable"), of(good)]


def test_a_root_that_is_gone_or_a_link_has_no_files_and_one_that_can_not_be_reached_says_nothing(
    tmp_path: Path,
) -> None:
    run = tmp_path / "runs/a"
    write(run / "artifacts/file")
    root = str(run / "artifacts")
    answer = file_hashes(root, str(run), ["file"], go_on)
    assert answer == RootHashes(True, (of(run / "artifacts/file"),))
    (run / "artifacts").rename(tmp_path / "elsewhere")
    assert file_hashes(root, str(run), ["file"], go_on) == RootHashes(False)
    (run / "artifacts").symlink_to(tmp_path / "elsewhere")
    assert file_hashes(root, str(run), ["file"], go_on) == RootHashes(False)
    (tmp_path / "runs").rename(tmp_path / "away")
    assert file_hashes(root, str(run), ["file"], go_on) == Unreadable("No such file or directory")
