"""Finding run directories by a path, and when they last changed."""

import os
from pathlib import Path

import pytest

from runward.daemon.rundir.inspecting import CannotList, last_change, run_directories


def _run(path: Path) -> Path:
    path.mkdir()
    (path / "run.json").write_text("{}")
    return path


def test_a_run_is_itself_and_a_directory_of_runs_each_of_them(tmp_path: Path) -> None:
    b, a = _run(tmp_path / "b"), _run(tmp_path / "a")
    (tmp_path / "other").mkdir()
    assert run_directories(str(a), "run.json") == [str(a)]
    assert run_directories(str(a / "run.json"), "run.json") == [str(a)]
    assert run_directories(str(tmp_path), "run.json") == [str(a), str(b)]


def test_a_link_that_was_named_is_followed_and_one_that_was_found_is_not(tmp_path: Path) -> None:
    run = _run(tmp_path / "run")
    (tmp_path / "link").symlink_to(run)
    assert run_directories(str(tmp_path / "link"), "run.json") == [str(run)]
    assert run_directories(str(tmp_path), "run.json") == [str(run)]


def test_a_missing_path_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_directories(str(tmp_path / "nowhere"), "run.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
def test_a_directory_that_may_not_be_listed_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(CannotList):
        run_directories(str(tmp_path / "closed"), "run.json")


def test_the_last_change_is_that_of_the_newest_entry(tmp_path: Path) -> None:
    run = _run(tmp_path / "run")
    (run / "old").write_text("")
    os.utime(run / "run.json", (2000, 2000))
    os.utime(run / "old", (1000, 1000))
    assert last_change(str(run)) == 2000
    assert last_change(str(tmp_path / "nowhere")) is None
