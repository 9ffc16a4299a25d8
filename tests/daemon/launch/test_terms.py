"""The short way to the default root says the same as the settings' own reader."""

import os
from pathlib import Path

import pytest

from runward.daemon.configuration.settings import load_settings
from runward.daemon.launch.terms import begin_terms, default_root


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"XDG_STATE_HOME": "/var/xdg"},
        {"XDG_STATE_HOME": "relative"},
        {"XDG_STATE_HOME": ""},
        {"RUNWARD_STATE_DIR": "/var/lib/runward"},
        {"RUNWARD_STATE_DIR": "state/../here/"},
        {"RUNWARD_STATE_DIR": ""},
    ],
)
def test_the_default_root_is_the_settings_readers(tmp_path: Path, variables: dict[str, str]) -> None:
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "none"), **variables}
    settings = load_settings(None, environment, str(tmp_path)).value
    assert settings is not None
    assert settings.launch_root is not None

    assert default_root(environment, str(tmp_path)) == settings.launch_root.path


def test_a_state_directory_below_home_is_left_to_the_settings_reader(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "RUNWARD_STATE_DIR": "~/state"}

    assert begin_terms(None, None, None, environment, "/")().root == f"{tmp_path}/state/runs"


def test_a_reader_that_breaks_is_not_mistaken_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("runward.daemon.configuration.settings.load_settings", broken)
    wait = begin_terms("any", None, None, {"HOME": str(tmp_path)}, str(tmp_path))
    with pytest.raises(RuntimeError, match="could not be read: MemoryError"):
        wait()


def test_a_reader_that_is_killed_is_not_mistaken_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "runward.daemon.configuration.settings.load_settings", lambda *_: os.kill(os.getpid(), 9)
    )
    wait = begin_terms("any", None, None, {"HOME": str(tmp_path)}, str(tmp_path))
    with pytest.raises(RuntimeError, match="its reader was killed"):
        wait()
