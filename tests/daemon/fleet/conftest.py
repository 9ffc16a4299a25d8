"""One PostgreSQL server for the tests of a process, a database for each test, and machines."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.database import Server, server
from tests.daemon.fleet.places import new_place


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture
def database(postgresql: Server) -> Iterator[str]:
    with postgresql.database() as name:
        yield name


@pytest.fixture
def office(tmp_path: Path, postgresql: Server, database: str) -> Place:
    """The administrator's machine, which made the fleet."""
    made = new_place(tmp_path / "office")
    made.environment |= postgresql.environment
    told = made.call("fleet", "init", postgresql.address(database), "--ca", str(postgresql.ca))
    assert (told.code, told.err) == (0, "")
    return made


@pytest.fixture
def laptop(tmp_path: Path) -> Place:
    return new_place(tmp_path / "laptop")
