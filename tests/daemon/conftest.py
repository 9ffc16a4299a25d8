"""A launcher for each test that wants one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import Launcher


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    yield made
    made.close()
