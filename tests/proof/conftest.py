"""One fork server for all proofs of a worker, and places for them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.proof.place import Place
from tests.proof.processes import Forks

MEMORY = Path("/dev/shm")
"""A tmpfs on every Linux that has one: what a kill leaves is the same there, and a sync costs nothing."""


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    started = Forks()
    yield started
    started.close()


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty directory whose syncs are free."""
    if not MEMORY.is_dir():
        yield tmp_path_factory.mktemp("proof")
        return
    directory = Path(tempfile.mkdtemp(prefix="runward-proof-", dir=MEMORY))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def place(tmp_path: Path, forks: Forks) -> Iterator[Place]:
    made = Place(tmp_path, forks)
    yield made
    made.close()
