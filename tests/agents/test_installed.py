"""An agent that can't be had is said to be, with the reason, and nobody is asked for it twice."""

from pathlib import Path

import pytest
from tests.agents.installed import NotToBeHadError, Pinned, program

SOME = Pinned("@runward/there-is-no-such-package", "0.0.1", "*")


@pytest.fixture(autouse=True)
def its_own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUNWARD_AGENTS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def npm_that(does: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir(exist_ok=True)
    for name in ("npm", "node"):
        (directory / name).write_text(f"#!/bin/sh\n{does}\n")
        (directory / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


def test_without_npm_there_is_no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotToBeHadError, match="npm or node is not installed"):
        program(SOME)


def test_a_registry_that_fails_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    npm_that(f"echo once >> {asked}; echo ENOTFOUND >&2; exit 1", tmp_path / "bin", monkeypatch)
    for _ in range(2):
        with pytest.raises(NotToBeHadError, match=r"npm can't install .*0.0.1: ENOTFOUND"):
            program(SOME)
    assert asked.read_text() == "once\n"


def test_what_is_installed_half_is_not_taken(
    tmp_path: Path, its_own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_that("exit 0", tmp_path / "bin", monkeypatch)
    with pytest.raises(NotToBeHadError, match="no program for this machine"):
        program(SOME)
    assert not list(its_own_cache.glob("there-is-no-such-package-*[0-9]")), (
        "npm forgives a part that is optional"
    )
