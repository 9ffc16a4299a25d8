"""One daemon a state directory: the lock for the living, the epoch for anyone who wakes up late."""

import fcntl
import os
from pathlib import Path

import pytest

from runward.daemon.disk.epoch import read_epoch, write_epoch
from runward.daemon.store.ownership import StateDirectoryHeld, hold, holder, prepare


def test_the_state_directory_is_for_this_user_alone(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    prepare(state)
    prepare(state)
    for directory in (state, state / "inbox", state / "log"):
        assert directory.stat().st_mode & 0o777 == 0o700


def test_only_one_holds_the_lock_and_says_who(tmp_path: Path) -> None:
    held = hold(tmp_path)
    with pytest.raises(StateDirectoryHeld, match=f"daemon {os.getpid()}") as refused:
        hold(tmp_path)
    assert refused.value.pid == os.getpid()
    assert holder(tmp_path) == os.getpid()
    held.release()
    assert holder(tmp_path) is None
    hold(tmp_path).release()


def test_nobody_holds_a_directory_that_has_no_lock(tmp_path: Path) -> None:
    assert holder(tmp_path) is None


def test_asking_who_holds_the_lock_takes_nothing(tmp_path: Path) -> None:
    hold(tmp_path).release()
    before = len(os.listdir("/proc/self/fd"))
    assert holder(tmp_path) is None
    assert len(os.listdir("/proc/self/fd")) == before
    hold(tmp_path).release()


def test_whoever_only_asks_keeps_no_daemon_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(tmp_path).release()
    asking = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)  # where `holder` is for a moment
    waited: list[None] = []

    def ask_no_more() -> None:
        os.close(asking)
        waited.append(None)

    monkeypatch.setattr(os, "sched_yield", ask_no_more)
    held = hold(tmp_path)
    assert len(waited) == 1
    assert holder(tmp_path) == os.getpid()
    held.release()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("keep")
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        hold(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "keep"


@pytest.mark.parametrize("epochs", [(1, 2), (9, 10), (10**15, 3)])
def test_an_epoch_is_read_as_it_was_written_last(tmp_path: Path, epochs: tuple[int, ...]) -> None:
    for epoch in epochs:
        write_epoch(tmp_path, epoch)
        assert read_epoch(tmp_path) == epoch
    assert (tmp_path / "epoch").stat().st_mode & 0o777 == 0o600


def test_an_epoch_that_was_never_written_is_an_error_and_not_zero(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_epoch(tmp_path)
