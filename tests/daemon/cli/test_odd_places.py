"""Commands among what is not a file where a file should be, and in a directory that is not there any more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place

RUNWARD = Path(sys.executable).with_name("runward")
PATIENCE_S = 30
"""Seconds that a command may take: one that waits for the writer of a FIFO takes for ever."""


def run(place: Place, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(RUNWARD), *arguments],
        env=place.environment,
        cwd=cwd or place.directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture
def littered(place: Place) -> Place:
    """A place whose playbooks and agents have an editor's lock, a FIFO, a directory and a link to nothing beside them."""
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    for directory, suffix in (("playbooks", ".playbook.yaml"), ("agents", ".md")):
        within = place.directory / directory
        (within / f".#review{suffix}").symlink_to("somebody@somewhere.1234:567")
        (within / f"nothing{suffix}").symlink_to("not-there")
        (within / f"folder{suffix}").mkdir()
        os.mkfifo(within / f"pipe{suffix}")
    return place


@pytest.mark.parametrize("arguments", [("play", "list"), ("play", "list", "--json"), ("daemon", "--check")])
def test_what_is_no_file_among_playbooks_is_passed_over(littered: Place, arguments: tuple[str, ...]) -> None:
    answer = run(littered, *arguments)
    assert answer.returncode == 0, answer.stderr
    assert "review" in answer.stdout or arguments == ("daemon", "--check")
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("name", ["nothing", "folder", "pipe"])
def test_what_is_no_file_is_no_playbook_by_its_name_either(littered: Place, name: str) -> None:
    assert run(littered, "play", "check", name).returncode == 3


def test_a_fifo_is_no_settings_file_and_no_drop_in(place: Place) -> None:
    os.mkfifo(place.directory / "pipe.toml")
    answer = run(place, "--config", "pipe.toml", "play", "list")
    assert answer.returncode == 78
    assert "pipe.toml: is not a regular file" in answer.stderr
    (place.directory / "runward.toml.d").mkdir()
    os.mkfifo(place.directory / "runward.toml.d" / "local.toml")
    answer = run(place, "daemon", "--check")
    assert answer.returncode == 78
    assert "local.toml: is not a regular file" in answer.stderr


def in_a_deleted_directory(
    place: Place, *arguments: str, config: str = ""
) -> subprocess.CompletedProcess[str]:
    deleted = place.directory / "deleted"
    deleted.mkdir()
    return subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", str(RUNWARD), *arguments],
        env=place.environment | {"RUNWARD_CONFIG": config or str(place.directory / "runward.toml")},
        cwd=deleted,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments", [("session", "list"), ("status", "--json"), ("config", "show"), ("play", "list"), ("log",)]
)
def test_a_command_that_names_no_path_works_in_a_deleted_directory(
    place: Place, arguments: tuple[str, ...]
) -> None:
    answer = in_a_deleted_directory(place, *arguments)
    assert answer.returncode in (0, 1, 3), answer.stderr
    assert "Errno" not in answer.stderr


@pytest.mark.parametrize("arguments", [("run", "--", "true"), ("play", "run", "review")])
def test_what_would_run_in_a_deleted_directory_is_refused(place: Place, arguments: tuple[str, ...]) -> None:
    answer = in_a_deleted_directory(place, *arguments)
    assert answer.returncode == 2
    assert "the working directory is gone: cd to one that exists" in answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("backup", "x.db"),
        ("restore", "x.db"),
        ("contract", "verify", "--root", "."),
        ("inspect", "transcript.jsonl"),
        ("session", "list", "--cwd"),
        ("chain", "define", "chain.yaml"),
        ("--config", "runward.toml", "status"),
    ],
)
def test_a_relative_path_in_a_deleted_directory_is_refused(place: Place, arguments: tuple[str, ...]) -> None:
    answer = in_a_deleted_directory(place, *arguments)
    assert answer.returncode == 2, answer.stderr
    assert "the working directory is gone: cd to one that exists, or write an absolute path" in answer.stderr


def test_so_is_a_relative_path_in_the_environment(place: Place) -> None:
    answer = in_a_deleted_directory(place, "session", "list", config="runward.toml")
    assert answer.returncode == 2, answer.stderr
    assert "RUNWARD_CONFIG=runward.toml: the working directory is gone" in answer.stderr
