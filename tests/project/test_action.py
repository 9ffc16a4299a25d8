"""The GitHub Action, played step by step by a fake runner."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from tests.daemon.cli.fake_runner import FakeRunner
from tests.preloaded import commands as preloaded
from tests.project.played_action import Played, play
from tests.project.repository import ROOT

PLAYBOOK = """\
name: review
artifacts:
  expected:
    - {id: review, path: review.md}
"""
DELIVER = 'echo "all is well" > "$RUNWARD_ARTIFACTS_DIR/review.md"'
STAND_IN = f"""\
#!/bin/sh
# uv, as far as the action uses it: Runward is there already.
case "$1 $2" in
    "tool install") test -f "$4/pyproject.toml" ;;
    "tool dir") dirname "$0" ;;
    *) shift 3; exec {shlex.quote(sys.executable)} "$@" ;;
esac
"""


class Repository:
    """A user's repository, whose workflow uses the action."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self.directory = directory / "work"
        self.directory.mkdir()
        (self.directory / "review.playbook.yaml").write_text(PLAYBOOK)
        (directory / "temp").mkdir()
        self.uploaded: dict[str, list[str]] = {}
        environment = {
            "HOME": str(directory),
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        self.runner = FakeRunner(directory / "temp", environment)

    def play(self, **inputs: str) -> Played:
        """The action with these inputs."""
        others = {"astral-sh/setup-uv": lambda given: None, "actions/upload-artifact": self._upload}
        named = {name.replace("_", "-"): value for name, value in inputs.items()}
        return play(ROOT, named, self.runner, self.directory, others)

    def _upload(self, given: Mapping[str, str]) -> None:
        self.uploaded[given["name"]] = sorted(os.listdir(self.directory / given["path"]))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (
        ("runward", f'#!/bin/sh\nexec {shlex.join(preloaded.argv())} "$@"\n'),
        ("uv", STAND_IN),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return Repository(tmp_path, programs)


def test_a_command_that_delivers_is_judged_and_its_bundle_uploaded(repository: Repository) -> None:
    played = repository.play(command=DELIVER, playbook="review.playbook.yaml", junit="report.xml")
    assert not played.is_failed, played
    assert (played.outputs["status"], played.outputs["delivery"]) == ("completed", "passed")
    assert re.fullmatch("sha256:[0-9a-f]{64}", played.outputs["receipt-hash"])
    assert (
        played.outputs["receipt-hash"] in (repository.directory / "runward-bundle/RECEIPT.json").read_text()
    )
    assert repository.uploaded == {"runward-bundle": ["PR_SUMMARY.md", "RECEIPT.json", "REPLAY.jsonl"]}
    assert (repository.directory / "report.xml").exists()


@pytest.mark.prove
@pytest.mark.usefixtures("reachable_index")
def test_it_installs_itself_with_uv(tmp_path: Path) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if uv is None:
        pytest.skip("there is no uv")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").symlink_to(uv)
    repository = Repository(tmp_path, tmp_path / "bin")
    # How this machine reaches its index.
    repository.runner.environment = dict(os.environ) | repository.runner.environment
    played = repository.play(command=DELIVER, playbook="review.playbook.yaml")
    assert not played.is_failed, played
    assert (tmp_path / ".local/bin/runward").exists()
    assert (played.outputs["status"], played.outputs["delivery"]) == ("completed", "passed")


def test_a_command_that_does_not_deliver_fails_the_job_and_is_uploaded_all_the_same(
    repository: Repository,
) -> None:
    played = repository.play(command="echo ::error::forged", playbook="review.playbook.yaml", upload="mine")
    assert played.is_failed
    assert played.results["Run"] == "failure"
    assert played.results["Judge"] == "success"
    assert played.steps["Run"].errors() == ["review (review.md): absent"]
    assert (played.outputs["status"], played.outputs["delivery"]) == ("failed", "missing")
    assert "mine" in repository.uploaded


def test_nothing_in_an_input_is_a_command_of_ours(repository: Repository) -> None:
    name = '$(touch hacked)"; touch hacked; "'
    played = repository.play(command="true", playbook=name)
    assert played.is_failed
    assert played.results["Judge"] == "skipped"
    assert os.listdir(repository.directory) == ["review.playbook.yaml"]
    assert played.outputs == {"session": "", "status": "", "delivery": "", "receipt-hash": ""}


def test_nothing_is_uploaded_without_a_name(repository: Repository) -> None:
    assert not repository.play(command="true", upload="").is_failed
    assert repository.uploaded == {}


def test_each_input_is_documented_and_used() -> None:
    text = (ROOT / "action.yml").read_text()
    page = (ROOT / "docs/ci.md").read_text()
    for name, each in yaml.safe_load(text)["inputs"].items():
        assert each["description"]
        assert f"inputs.{name} " in text, name
        assert f"`{name}`" in page, name
