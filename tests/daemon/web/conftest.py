"""A listener for each test that wants one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.web.serving import Served
from tests.daemon.web.serving import served as serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as made:
        yield made
