"""`make demo-fleet` plays to its end, within the width of a usual terminal."""

import subprocess
import sys

import pytest
from tests.daemon.fleet.database import programs
from tests.demo.telling import COLUMNS
from tests.docs.pages import ROOT

pytestmark = pytest.mark.prove


def test_the_demo_of_a_fleet_goes_as_expected() -> None:
    programs()  # skips where PostgreSQL is not installed
    told = subprocess.run(
        [sys.executable, "-m", "tests.demo.fleet"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr + told.stdout
    assert told.stdout.endswith(
        "The step ran once, on gpu-box. All that was owed arrived once, after the outage.\n"
    )
    assert [line for line in told.stdout.splitlines() if len(line) > COLUMNS and "/tmp" not in line] == []
    # A person sees each command's answer, not its refusal.
    assert "runward: " not in told.stdout
