"""Directories and the names that change in them: trees that come, go, move and are moved back."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import wait_for

from runward.daemon.watch.directories import Directories


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.fixture
def watched(tree: Path) -> Iterator[Directories]:
    directories = Directories([str(tree)])
    yield directories
    directories.close()


def told(directories: Directories, path: Path) -> None:
    """Until a change of this path is told."""
    stop = threading.Event()
    wait_for(lambda: str(path) in directories.wait(1.0, 0.005, 0.02, stop), f"{path}")


def test_what_changes_at_any_depth_is_told_by_its_path(tree: Path, watched: Directories) -> None:
    (tree / "a" / "b" / "c").mkdir(parents=True)
    told(watched, tree / "a")
    (tree / "a" / "b" / "c" / "file").write_text("x")
    told(watched, tree / "a" / "b" / "c" / "file")
    assert len(watched) == 4


def test_a_directory_that_is_moved_is_told_of_under_its_new_name(tree: Path, watched: Directories) -> None:
    (tree / "a" / "b").mkdir(parents=True)
    told(watched, tree / "a")
    (tree / "a").rename(tree / "z")
    told(watched, tree / "z")
    (tree / "z" / "b" / "file").write_text("x")
    told(watched, tree / "z" / "b" / "file")
    assert len(watched) == 3


def test_what_is_moved_out_or_deleted_is_watched_no_more(
    tree: Path, tmp_path: Path, watched: Directories
) -> None:
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "c").mkdir()
    told(watched, tree / "c")
    (tree / "a").rename(tmp_path / "a")
    (tree / "c").rmdir()
    told(watched, tree / "c")
    (tmp_path / "a" / "b" / "file").write_text("x")
    (tree / "last").write_text("x")
    told(watched, tree / "last")
    assert len(watched) == 1


def test_a_link_is_followed_at_the_top_and_nowhere_below(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tree / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "top").symlink_to(tree)
    directories = Directories([str(tmp_path / "top")])
    assert len(directories) == 1
    (tree / "file").write_text("x")
    told(directories, tmp_path / "top" / "file")
    directories.close()


def test_no_more_watches_are_taken_than_allowed(tree: Path) -> None:
    for number in range(10):
        (tree / str(number)).mkdir()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        Directories([str(tree)], most=5)
    directories = Directories([str(tree)], most=11)
    lacked = directories.lacks
    (tree / "more").mkdir()
    told(directories, tree / "more")
    assert (lacked, directories.lacks) == (False, True)
    directories.close()


def test_a_first_directory_that_is_flat_tells_of_its_own_names_alone(tree: Path, tmp_path: Path) -> None:
    (tree / "a").mkdir()
    directories = Directories([], [str(tree), str(tmp_path / "nowhere")])
    (tree / "a" / "file").write_text("x")
    (tree / "b").mkdir()
    told(directories, tree / "b")
    assert len(directories) == 1
    directories.close()


def test_who_waits_is_stopped(watched: Directories) -> None:
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    assert watched.wait(60.0, 0.005, 0.02, stop) == set()


def test_a_deep_tree_that_is_moved_again_and_again_is_not_walked_each_time(
    tree: Path, watched: Directories
) -> None:
    deep = tree / "a"
    for number in range(200):
        deep = deep / str(number)
    deep.mkdir(parents=True)
    told(watched, tree / "a")
    for _ in range(100):
        (tree / "a").rename(tree / "b")
        (tree / "b").rename(tree / "a")
    (deep / "file").write_text("x")
    told(watched, deep / "file")
    assert len(watched) == 202
