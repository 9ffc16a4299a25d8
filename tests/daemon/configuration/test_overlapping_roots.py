"""Roots that overlap through links, which their paths' texts don't tell."""

import os
from pathlib import Path

import pytest

from runward.config.problem import Problem
from runward.daemon.configuration.settings import load_settings


def _problems(tmp_path: Path, *roots: str, state: str = "state") -> tuple[Problem, ...]:
    text = f'state_dir = "{state}"\n'
    for number, path in enumerate(roots):
        text += f'[[roots]]\nname = "r{number}"\npath = "{path}"\n'
    settings = tmp_path / "runward.toml"
    settings.write_text(text)
    return load_settings(str(settings), {"HOME": str(tmp_path)}, str(tmp_path)).problems


@pytest.mark.parametrize("other", ["link", "link/below", "beside/link"])
def test_roots_that_overlap_through_a_link_are_refused_and_both_are_named(tmp_path: Path, other: str) -> None:
    (tmp_path / "runs" / "below").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    (tmp_path / "link").symlink_to("runs")
    (tmp_path / "beside" / "link").symlink_to(tmp_path / "runs" / "below")
    for roots in (("runs", other), (other, "runs")):
        (problem,) = _problems(tmp_path, *roots)
        assert problem.render().startswith(f"{tmp_path}/runward.toml:5")
        assert f"{tmp_path}/{roots[0]}" in problem.message
        assert f"{tmp_path}/{roots[1]}" in problem.message


def test_a_root_that_is_not_there_yet_overlaps_what_it_would_lie_in(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "link").symlink_to("runs")
    assert len(_problems(tmp_path, "runs", "link/later")) == 1


def test_roots_beside_one_another_are_right_through_links_too(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "disk" / name).mkdir(parents=True)
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    assert _problems(tmp_path, "one", "two", "nowhere", "also-nowhere") == ()


def test_a_root_that_is_the_state_directory_by_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state" / "runs").mkdir(parents=True)
    (tmp_path / "link").symlink_to("state")
    (problem,) = _problems(tmp_path, "link")
    assert "the state directory" in problem.message
    assert _problems(tmp_path, "link/runs") == ()
    (tmp_path / "holds").symlink_to(tmp_path)
    assert len(_problems(tmp_path, "holds")) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root looks through everything")
def test_what_can_not_be_looked_into_overlaps_nothing(tmp_path: Path) -> None:
    (tmp_path / "closed" / "runs").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    try:
        assert _problems(tmp_path, "closed/runs", "others") == ()
    finally:
        (tmp_path / "closed").chmod(0o755)
