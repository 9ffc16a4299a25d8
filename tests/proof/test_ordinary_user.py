"""What users meet, they meet without root's rights: where the tests are root's, some of them are played as an ordinary user's."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest
from tests.unprivileged import AS_USER, USER, python_for_all

ROOT: Final = Path(__file__).parents[2]

SAMPLE: Final = (
    "tests/daemon/launch/test_channel.py",
    "tests/daemon/launch/test_launch_end.py",
    "tests/daemon/processes/test_cancel.py",
    "tests/daemon/cli/test_session_cancel.py",
    "tests/simulation/test_exchange_histories.py::test_the_laws_hold_in_some_histories_with_an_exchange",
)
"""Where processes look into each other, and where it counts whose a directory is: what root may do anyway."""

LEAST: Final = 60
"""So many tests at least are in the sample: an empty one would pass."""


@pytest.mark.prove
@pytest.mark.longest
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.getuid() != 0, reason="all tests are an ordinary user's here")
def test_launching_and_cancelling_work_for_an_ordinary_user() -> None:
    modules = "pytest, hypothesis, xdist, runward.daemon.cli"
    python = python_for_all(modules, {"PYTHONPATH": str(ROOT / "src")})
    home = Path(tempfile.mkdtemp(prefix="runward-ordinary-"))
    try:
        os.chown(home, USER, USER)
        words = [python, "-m", "pytest", "-q", "-n", "2", "-m", "not prove", "-p", "no:cacheprovider"]
        words += ["-p", "no:randomly", f"--rootdir={ROOT}", f"--basetemp={home}/pytest", *SAMPLE]
        played = subprocess.run(
            [*AS_USER, *words],
            cwd=ROOT,
            env={"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(home)
    assert played.returncode == 0, played.stdout[-8000:] + played.stderr[-2000:]
    passed = re.search(r"(\d+) passed", played.stdout)
    assert passed is not None, played.stdout[-2000:]
    assert int(passed[1]) >= LEAST, played.stdout[-2000:]
