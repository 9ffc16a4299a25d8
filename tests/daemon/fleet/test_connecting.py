"""Connections: nothing waits longer than it may, and none is made without knowing whom it leads to."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.daemon.fleet.database import ADMIN, Server, free_port
from tests.waiting import wait_for

from runward.config.fleet import Database
from runward.daemon.fleet import connecting
from runward.daemon.fleet.connecting import (
    DatabaseRefuses,
    DatabaseUnreachable,
    check_format,
    connect,
    in_time,
)


def _database(server: Server, host: str = "127.0.0.1") -> Database:
    return Database(ADMIN, host, server.port, "postgres")


def _secret(server: Server) -> str:
    return server.environment["PGPASSWORD"]


def test_a_statement_that_takes_too_long_fails(postgresql: Server) -> None:
    with connect(_database(postgresql), _secret(postgresql), str(postgresql.ca)) as connection:
        began = time.monotonic()
        with pytest.raises(psycopg.OperationalError), in_time(connection, 0.2):
            connection.execute("select pg_sleep(60)")
        assert time.monotonic() - began < 30
        assert connection.closed


def test_a_statement_in_time_leaves_the_connection_as_it_is(postgresql: Server) -> None:
    with connect(_database(postgresql), _secret(postgresql), str(postgresql.ca)) as connection:
        with in_time(connection, 30):
            connection.execute("select 1")
        assert connection.execute("select 2").fetchone() == (2,)


def test_nothing_stays_on_the_server_that_a_later_transaction_would_need(postgresql: Server) -> None:
    """Behind a transaction pooler, that one may be another connection's."""
    with connect(_database(postgresql), _secret(postgresql), str(postgresql.ca)) as connection:
        for _ in range(20):
            connection.execute("select %s", (1,))
        left = connection.execute("select count(*) from pg_prepared_statements")
        assert left.fetchone() == (0,)


def test_a_connection_over_the_network_is_encrypted(postgresql: Server) -> None:
    with connect(_database(postgresql), _secret(postgresql), str(postgresql.ca)) as connection:
        assert connection.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone() == (
            True,
        )


def test_a_unix_socket_needs_no_certificates(postgresql: Server) -> None:
    with connect(_database(postgresql, str(postgresql.directory)), _secret(postgresql), None) as connection:
        assert connection.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone() == (
            False,
        )


def _connects_with(monkeypatch: pytest.MonkeyPatch, **weaker: str | None) -> None:
    """Have each connection made with these options instead of those that guard it."""
    made = psycopg.connect
    monkeypatch.setattr(psycopg, "connect", lambda **options: made(**{**options, **weaker}))


def test_a_server_whose_certificate_another_authority_signed_is_refused(
    monkeypatch: pytest.MonkeyPatch, postgresql: Server
) -> None:
    def attempt() -> None:
        connect(_database(postgresql), _secret(postgresql), str(postgresql.foreign_ca)).close()

    with pytest.raises(DatabaseRefuses, match="can't be trusted"):
        attempt()
    _connects_with(monkeypatch, sslmode="require", sslrootcert=None)
    attempt()


def test_the_systems_certificates_count_if_no_others_are_named(postgresql: Server) -> None:
    with pytest.raises(DatabaseRefuses, match="can't be trusted"):
        connect(_database(postgresql), _secret(postgresql), None)


def test_a_certificate_for_another_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, postgresql: Server
) -> None:
    def attempt() -> None:
        # It is for 127.0.0.1 alone.
        connect(_database(postgresql, "localhost"), _secret(postgresql), str(postgresql.ca)).close()

    with pytest.raises(DatabaseRefuses, match="can't be trusted"):
        attempt()
    _connects_with(monkeypatch, sslmode="verify-ca")
    attempt()


def test_a_server_without_tls_is_refused(monkeypatch: pytest.MonkeyPatch, postgresql: Server) -> None:
    with _without_tls(postgresql):
        with pytest.raises(DatabaseRefuses, match="can't be trusted"):
            connect(_database(postgresql), _secret(postgresql), str(postgresql.ca))
        _connects_with(monkeypatch, sslmode="prefer", sslrootcert=None)
        connect(_database(postgresql), _secret(postgresql), str(postgresql.ca)).close()


@contextmanager
def _without_tls(server: Server) -> Iterator[None]:
    """The server offers none, and takes passwords without it."""
    rules = server.directory / "data/pg_hba.conf"
    before = rules.read_text()
    rules.write_text(before.replace("hostssl", "host"))
    try:
        _set(server, "ssl", "off")
        yield
    finally:
        rules.write_text(before)
        _set(server, "ssl", "on")


def _set(server: Server, name: str, value: str) -> None:
    with server.admin("postgres") as admin:
        admin.execute(f"alter system set {name} = {value}".encode())
        admin.execute("select pg_reload_conf()")

    def is_in_force() -> bool:
        with server.admin("postgres") as admin:
            return admin.execute(f"show {name}".encode()).fetchone() == (value,)

    wait_for(is_in_force, f"{name} = {value}")


def test_a_fleet_of_a_newer_format_is_not_written(
    monkeypatch: pytest.MonkeyPatch, postgresql: Server, database: str
) -> None:
    meant = _database(postgresql)._replace(name=database)
    with connect(meant, _secret(postgresql), str(postgresql.ca)) as connection:
        check_format(connection, meant)
        # A newer one that this program may write, too.
        connection.execute("update runward.format set version = 9")
        check_format(connection, meant)
        connection.execute("update runward.format set oldest_writer = 9")
        with pytest.raises(
            DatabaseRefuses, match=f"the fleet has format 9, and this Runward knows {connecting.FORMAT}"
        ):
            check_format(connection, meant)
        monkeypatch.setattr(connecting, "FORMAT", 9)
        check_format(connection, meant)


def test_a_wrong_password_is_no_reason_to_try_again(postgresql: Server) -> None:
    with pytest.raises(DatabaseRefuses, match="refuses the login admin"):
        connect(_database(postgresql), "wrong", str(postgresql.ca))


def test_a_port_where_nobody_listens_is_one(postgresql: Server) -> None:
    with pytest.raises(DatabaseUnreachable):
        connect(_database(postgresql)._replace(port=free_port()), "x", str(postgresql.ca))


def test_a_server_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, postgresql: Server) -> None:
    monkeypatch.setattr(connecting, "OLDEST_SERVER", 99)
    with pytest.raises(DatabaseRefuses, match="is older than PostgreSQL 99"):
        connect(_database(postgresql), _secret(postgresql), str(postgresql.ca))
