"""One fork server for all proofs of a worker, and a place for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.proof.place import Place
from tests.proof.processes import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    started = Forks()
    yield started
    started.close()


@pytest.fixture
def place(tmp_path: Path, forks: Forks) -> Iterator[Place]:
    made = Place(tmp_path, forks)
    yield made
    made.close()
