"""A launcher for each test that wants one, also an ordinary user's, and a process."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import SOURCES, Launcher
from tests.unprivileged import AS_USER, USER, python_for_all


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until the test kills it."""
    started = subprocess.Popen(["sleep", "1000"])
    yield started
    started.kill()
    started.wait()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ordinary(tmp_path: Path) -> Iterator[Launcher]:
    """A launcher that an ordinary user runs; where the tests are not root's, that is any."""
    if os.getuid() != 0:
        launcher = Launcher(tmp_path)
    else:
        # pytest's own directories are root's alone, and so may this interpreter be.
        place = Path(tempfile.mkdtemp())
        python = python_for_all("runward.daemon.cli", {"PYTHONPATH": str(SOURCES)})
        launcher = Launcher(place, [*AS_USER, python])
        for directory in (place, launcher.work):
            os.chown(directory, USER, USER)
    yield launcher
    launcher.close()
    if os.getuid() == 0:
        shutil.rmtree(place)
