"""The hosts of a fleet under measurement: a PostgreSQL server with its usual durability, and settings of hosts that joined it."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest import mock

import psycopg
import pytest
from tests.bench.figure import CannotMeasure
from tests.daemon.fleet.database import Server, free_port, server

from runward.config.fleet import database_of
from runward.daemon.fleet.administration import Administration, invite
from runward.daemon.fleet.invitation import login_of
from runward.daemon.fleet.joining import CERTIFICATES, SECRET, SETTINGS, join

_USUAL: Final[Mapping[str, str]] = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "log_min_messages": "log",
}
"""What tests switch off, and what has its log say which statements were asked."""


@dataclass
class FleetOfBench:
    """A fleet in a database of its own. `directory` has what hosts were given."""

    server: Server
    name: str
    directory: Path

    def admin(self) -> "psycopg.Connection[tuple[object, ...]]":
        return self.server.admin(self.name)

    def joined(self, name: str, further: str = "") -> str:
        """The settings of a host that has joined under this name. `further` is added to its `[fleet]`."""
        with mock.patch.dict("os.environ", self.server.environment):
            known = Administration(database_of(self.server.address(self.name)), str(self.server.ca))
            with known.connect() as connection:
                invitation = invite(connection, known, name, ())
        place = self.directory / name
        place.mkdir()
        join(invitation, place)
        text = (place / SETTINGS).read_text()
        for file in (SECRET, CERTIFICATES):
            text = text.replace(f'"{file}"', f'"{place / file}"')
        return f"{text}{further}"

    def conninfo(self, name: str) -> str:
        """How a program other than the daemon logs in as this host."""
        secret = (self.directory / name / SECRET).read_text().strip()
        return (
            f"host=127.0.0.1 port={self.server.port} dbname={self.name} user={login_of(name)} password={secret}"
            f" sslmode=verify-full sslrootcert={self.directory / name / CERTIFICATES}"
        )

    def at_port(self, settings: str, port: int) -> str:
        """The settings of a host whose database should be at another port."""
        return settings.replace(f":{self.server.port}/", f":{port}/")


@contextmanager
def fleet_of_bench(directory: Path) -> Iterator[FleetOfBench]:
    """Raises `CannotMeasure` where PostgreSQL is not installed."""
    place = directory / "fleet"
    place.mkdir()
    try:
        with server() as running:
            with running.admin("postgres") as admin:
                for name, value in _USUAL.items():
                    admin.execute(f"alter system set {name} = '{value}'".encode())
                admin.execute("select pg_reload_conf()")
            with running.fleet() as name:
                yield FleetOfBench(running, name, place)
    except pytest.skip.Exception as missing:
        raise CannotMeasure(str(missing)) from missing


@contextmanager
def silence() -> Iterator[int]:
    """A port where connections are taken, and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield int(listening.getsockname()[1])


def nobody() -> int:
    """A port where nobody listens."""
    return free_port()
