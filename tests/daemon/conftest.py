"""A launcher for each test that wants one, and a process."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import Launcher


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
