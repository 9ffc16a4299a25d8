"""The parts of many bundles on the disk: what is synced, how often, and whose failure is told."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runward.daemon.engine.background import BATCH
from runward.daemon.rundir import parts_syncing
from runward.daemon.rundir.journals import MANY
from runward.daemon.rundir.parts_syncing import sync_parts


def written(base: Path, count: int) -> dict[str, list[str]]:
    """As many directories, with a part in each."""
    for number in range(count):
        (base / str(number)).mkdir()
        (base / str(number) / "part").write_bytes(b"x")
    return {str(base / str(number)): ["part"] for number in range(count)}


class FileSystem:
    """Counts how often it is synced, and refuses it if told to."""

    def __init__(self, error: OSError | None = None) -> None:
        self.syncs = 0
        self.error = error

    def sync(self, descriptor: int) -> None:
        os.fstat(descriptor)
        self.syncs += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are synced one by one."""
    paths: list[str] = []

    def fsync(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_few_parts_are_synced_one_by_one(tmp_path: Path, synced: list[str]) -> None:
    system = FileSystem()
    assert sync_parts(written(tmp_path, 3), system.sync) == {}
    assert synced == [str(tmp_path / str(number) / "part") for number in range(3)]
    assert system.syncs == 0


def test_many_parts_are_synced_with_their_file_system(tmp_path: Path, synced: list[str]) -> None:
    system = FileSystem()
    assert sync_parts(written(tmp_path, MANY + 1), system.sync) == {}
    assert (synced, system.syncs) == ([], 1)


def test_the_names_in_a_directory_are_synced_with_it(tmp_path: Path, synced: list[str]) -> None:
    assert sync_parts({str(tmp_path): []}, FileSystem().sync) == {}
    assert synced == [str(tmp_path)]


def test_the_names_of_a_full_batch_of_bundles_are_synced_with_their_file_system(
    tmp_path: Path, synced: list[str]
) -> None:
    system = FileSystem()
    assert sync_parts(dict.fromkeys(written(tmp_path, BATCH), ()), system.sync) == {}
    assert (synced, system.syncs) == ([], 1)


def test_each_directory_is_told_that_its_file_system_refused(tmp_path: Path) -> None:
    parts = written(tmp_path, MANY + 1)
    system = FileSystem(OSError(errno.EIO, os.strerror(errno.EIO)))
    assert sync_parts(parts, system.sync) == dict.fromkeys(
        parts, "its file system isn't synced: Input/output error"
    )


def test_of_few_directories_only_the_one_whose_file_is_refused_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/1/part"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert sync_parts(written(tmp_path, 3), FileSystem().sync) == {
        str(tmp_path / "1"): "not synced: Input/output error"
    }


def removed(directory: Path) -> None:
    (directory / "part").unlink()
    directory.rmdir()


def replaced_by_a_link(directory: Path) -> None:
    removed(directory)
    directory.symlink_to("/")


def with_a_link_for_a_part(directory: Path) -> None:
    (directory / "part").unlink()
    (directory / "part").symlink_to("/etc/passwd")


def with_a_pipe_for_a_part(directory: Path) -> None:
    (directory / "part").unlink()
    os.mkfifo(directory / "part")


def with_a_directory_for_a_part(directory: Path) -> None:
    (directory / "part").unlink()
    (directory / "part").mkdir()


@pytest.mark.parametrize("count", [3, MANY + 1])
@pytest.mark.parametrize(
    "change",
    [
        removed,
        replaced_by_a_link,
        with_a_link_for_a_part,
        with_a_pipe_for_a_part,
        with_a_directory_for_a_part,
    ],
)
def test_what_a_run_did_to_its_own_parts_holds_up_no_others(
    tmp_path: Path, change: Callable[[Path], None], count: int
) -> None:
    parts = written(tmp_path, count)
    change(tmp_path / "0")
    system = FileSystem()
    assert sync_parts(parts, system.sync) == {}
    assert system.syncs == (count > MANY)


def test_where_no_directory_can_be_opened_to_sync_them_all_each_file_is_synced(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(directories: object) -> None:
        return None

    monkeypatch.setattr(parts_syncing, "_one_of", closed)
    system = FileSystem()
    assert sync_parts(written(tmp_path, MANY + 1), system.sync) == {}
    assert (len(synced), system.syncs) == (MANY + 1, 0)
