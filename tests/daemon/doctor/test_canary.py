"""The canary: real runs under a real daemon of the doctor's own."""

import os
import tempfile
from pathlib import Path

import pytest
from tests.daemon.doctor.examined import findings, installation

from runward.daemon.doctor import checks
from runward.daemon.doctor.findings import Finding

pytestmark = [pytest.mark.prove, pytest.mark.timeout(360)]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def walked(tmp_path: Path, **environment: str) -> Finding:
    given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | environment
    (found,) = findings(checks.examine_canary, installation(tmp_path / "state", environment=given))
    return found


def test_the_road_is_walked_and_nothing_is_left_of_it(tmp_path: Path, temporary: Path) -> None:
    # What the command's own environment says of the real installation must not reach the canary.
    found = walked(tmp_path, RUNWARD_STATE_DIR=str(tmp_path / "state"), RUNWARD_FAULT="outbox.before:1")
    assert found.result == "ok", found
    assert found.message.startswith("3 runs were launched, judged correctly and verified with their receipts")
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "state").exists()


def test_a_road_that_is_broken_is_said_to_be(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(checks.EXPECTED, checks.DELIVERS, ("failed", "missing"))
    found = walked(tmp_path)
    assert (found.result, found.message) == (
        "failed",
        "the run delivers was judged ('completed', 'passed'), but ('failed', 'missing') is right",
    )
    assert found.fix
    assert list(temporary.iterdir()) == []


def test_a_receipt_that_holds_over_changed_bytes_breaks_the_road(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_change", lambda place, name: None)
    found = walked(tmp_path)
    assert (found.result, found.message) == (
        "failed",
        "the replay of the run delivers was changed, but its receipt is still valid",
    )


def test_a_run_that_cannot_be_started_breaks_the_road(tmp_path: Path, temporary: Path) -> None:
    found = walked(tmp_path, PATH=str(tmp_path))
    assert found.result == "failed"
    assert found.message.startswith("the run that lacks should exit with 1, but exited with 127")
    assert list(temporary.iterdir()) == []


def test_each_containment_is_tried_on_a_run(tmp_path: Path, temporary: Path) -> None:
    given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    found = findings(checks.examine_containment, installation(tmp_path / "state", environment=given))
    assert "subreaper" in found[-1].message
    assert all(each.message.startswith("no ") and each.fix for each in found[:-1])
    assert list(temporary.iterdir()) == []


def test_in_a_step_of_github_it_leaves_the_runner_alone(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "output").touch()
    found = walked(tmp_path, GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(tmp_path / "output"))
    assert found.result == "ok", found
    assert (tmp_path / "output").read_text() == ""
