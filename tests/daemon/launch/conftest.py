"""A launcher of an ordinary user."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import SOURCES, Launcher


@pytest.fixture
def ordinary(tmp_path: Path) -> Iterator[Launcher]:
    """A launcher that an ordinary user runs; where the tests are not root's, that is any."""
    if os.getuid() != 0:
        launcher = Launcher(tmp_path)
    else:
        # pytest's own directories are root's alone, and so may this interpreter be.
        place = Path(tempfile.mkdtemp())
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        launcher = Launcher(place, [*prefix, _python_for_all(prefix)])
        for directory in (place, launcher.work):
            os.chown(directory, 65534, 65534)
    yield launcher
    launcher.close()
    if os.getuid() == 0:
        shutil.rmtree(place)


def _python_for_all(prefix: list[str]) -> str:
    ask = "import sys, runward.daemon.cli; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        # By a shell: setpriv(1) itself still finds what only root may see.
        words = [*prefix, "sh", "-c", 'exec "$@"', "sh", python, "-c", ask]
        result = subprocess.run(words, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, check=False)
        if result.returncode == 0:
            return python
    pytest.skip("no Python 3.11 here that an ordinary user may run")
