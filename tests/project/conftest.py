"""What several tests of the repository need."""

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def reachable_index() -> None:
    """A package index that can be reached."""
    words = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "click"]
    asked = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    if asked.returncode != 0:
        pytest.skip(f"no package index can be reached: {asked.stderr.strip().splitlines()[-1]}")
