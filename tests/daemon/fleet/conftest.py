"""One PostgreSQL server for the tests of a process, a database for each test, and machines."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Fleet
from tests.daemon.fleet.database import Server, server
from tests.daemon.fleet.places import invited, new_place

from runward.config.fleet import database_of
from runward.daemon.fleet.administration import keep
from runward.daemon.fleet.invitation import invitation_of
from runward.daemon.store.ownership import prepare


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture
def database(postgresql: Server) -> Iterator[str]:
    """One with the schema of a fleet."""
    with postgresql.fleet() as name:
        yield name


@pytest.fixture
def office(tmp_path: Path, postgresql: Server, database: str) -> Place:
    """The administrator's machine, which has made the fleet."""
    made = new_place(tmp_path / "office")
    made.environment |= postgresql.environment
    prepare(made.state)
    keep(made.state, database_of(postgresql.address(database)), postgresql.ca.read_bytes())
    return made


@pytest.fixture
def laptop(tmp_path: Path) -> Place:
    return new_place(tmp_path / "laptop")


@pytest.fixture
def fleet(postgresql: Server, database: str, office: Place) -> Fleet:
    mallory = invitation_of(invited(office, "mallory"))
    victim = invitation_of(invited(office, "victim", "--label", "gpu"))
    with postgresql.admin(database) as admin:
        admin.execute("update runward.hosts set joined_at = now()")
        admin.execute(
            "insert into runward.sessions (host, key, version, started_at, body) values ('victim', %s, 5, 1.0, %s)",
            ("native:runs/1", json.dumps({"status": "failed"})),
        )
    return Fleet(postgresql, database, mallory, victim)
