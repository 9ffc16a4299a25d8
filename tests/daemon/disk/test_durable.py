"""Files that are there whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from runward.daemon.disk.durable import ReservedFile, write_durably, write_whole_file


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_content_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    write_durably(tmp_path, "file", b"content")

    assert (tmp_path / "file").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert names(tmp_path) == ["file"]


def test_what_can_be_written_again_waits_for_its_content_and_not_for_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(stat.S_ISREG(os.fstat(file).st_mode)))
    write_durably(tmp_path, "file", b"content")
    assert synced == [True, False], "the file, then its directory"
    write_whole_file(tmp_path, "file", b"another")
    assert synced == [True, False, True]
    assert (tmp_path / "file").read_bytes() == b"another"


def test_a_directory_may_be_an_open_descriptor_which_stays_open(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    write_durably(descriptor, "file", b"content")

    assert (tmp_path / "file").read_bytes() == b"content"
    os.close(descriptor)


def test_a_reader_of_the_old_file_keeps_it_whole(tmp_path: Path) -> None:
    write_durably(tmp_path, "file", b"old")
    with (tmp_path / "file").open("rb") as reader:
        write_durably(tmp_path, "file", b"new")
        assert reader.read() == b"old"

    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_link_under_the_name_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "file").symlink_to("target")

    write_durably(tmp_path, "file", b"content")

    assert (tmp_path / "target").read_bytes() == b"precious"
    assert not (tmp_path / "file").is_symlink()


@pytest.mark.parametrize("call", ["fsync", "rename", "write"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write_durably(tmp_path, "file", b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path, "file", b"new")
    monkeypatch.undo()

    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_file_and_directory_are_synced_in_the_order_that_makes_the_name_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(descriptor: int) -> None:
        calls.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def note_rename(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        calls.append("rename")
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    write_durably(tmp_path, "file", b"content")

    assert calls == ["file", "rename", "directory"]


@pytest.fixture
def directory(tmp_path: Path) -> int:
    return os.open(tmp_path, os.O_RDONLY)


def test_a_reserved_file_holds_its_room_and_becomes_the_file(tmp_path: Path, directory: int) -> None:
    reserved = ReservedFile(directory, "file", 4096)
    (waiting,) = tmp_path.iterdir()
    assert waiting.name.startswith(".file.")
    assert waiting.stat().st_blocks * 512 >= 4096
    taken = waiting.stat().st_ino

    reserved.write(b"content")

    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"content"
    assert (tmp_path / "file").stat().st_ino == taken, "no new room was needed"


def test_a_reserved_file_that_was_taken_away_is_written_anew(tmp_path: Path, directory: int) -> None:
    reserved = ReservedFile(directory, "file", 4096)
    next(tmp_path.iterdir()).unlink()
    reserved.write(b"content")

    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_reserved_file_that_was_exchanged_for_a_link_is_not_followed(
    tmp_path: Path, directory: int
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    reserved = ReservedFile(directory, "file", 4096)
    lure = next(path for path in tmp_path.iterdir() if path.name.startswith(".file."))
    lure.unlink()
    lure.symlink_to(target)
    reserved.write(b"content")

    assert names(tmp_path) == ["file", "target"]
    assert target.read_bytes() == b"precious"
    assert not (tmp_path / "file").is_symlink()


def test_content_beyond_the_reserved_room_is_written_anew(tmp_path: Path, directory: int) -> None:
    ReservedFile(directory, "file", 4).write(b"content")

    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_discarded_reservation_leaves_nothing(tmp_path: Path, directory: int) -> None:
    ReservedFile(directory, "file", 4096).discard()

    assert names(tmp_path) == []


def test_a_reserved_file_that_is_told_of_is_there_before_and_durable_after_that(
    tmp_path: Path, directory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved = ReservedFile(directory, "file", 4096)
    happened: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: happened.append("synced"))
    reserved.write(b"content", lambda: happened.append((tmp_path / "file").read_text()))

    assert happened == ["content", "synced", "synced"]
    assert names(tmp_path) == ["file"]


def test_one_that_was_taken_away_is_told_of_as_well(tmp_path: Path, directory: int) -> None:
    reserved = ReservedFile(directory, "file", 4096)
    next(tmp_path.iterdir()).unlink()
    told: list[str] = []
    reserved.write(b"content", lambda: told.append((tmp_path / "file").read_text()))

    assert told == ["content"]
