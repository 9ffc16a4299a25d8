"""What an administrator of a fleet does: invite hosts, and remove them."""

import json
import os
import secrets
from datetime import UTC
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from runward.config.fleet import Database, database_of
from runward.daemon.disk.durable import make_durably, write_durably
from runward.daemon.fleet.connecting import (
    Connection,
    DatabaseRefuses,
    check_format,
    connect,
    in_one_line,
    in_time,
)
from runward.daemon.fleet.invitation import Invitation, login_of
from runward.daemon.fleet.schema import grant, without_rights

_PLACE: Final = "fleet"
_NAME: Final = "administration.json"
_CA: Final = "ca.pem"


class Administration(NamedTuple):
    """The fleet that was initialised last on this machine: its database, and a file of certificates to check it by."""

    database: Database
    ca_file: str | None

    def connect(self) -> Connection:
        """Raises `DatabaseUnreachable` and `DatabaseRefuses`."""
        return connect(self.database, None, self.ca_file)


def administration(state: Path) -> Administration | None:
    """What `keep` kept; None if it never did. Raises `OSError`."""
    try:
        kept = json.loads((state / _PLACE / _NAME).read_bytes())
    except FileNotFoundError:
        return None
    ca_file = state / _PLACE / _CA
    return Administration(database_of(kept["database"]), str(ca_file) if ca_file.exists() else None)


def keep(state: Path, database: Database, certificates: bytes | None) -> None:
    """Remember which fleet `invite` is about: no secret is among it. Raises `OSError`."""
    make_durably(state, _PLACE)
    if certificates is None:
        (state / _PLACE / _CA).unlink(missing_ok=True)
    else:
        write_durably(state / _PLACE, _CA, certificates)
    write_durably(state / _PLACE, _NAME, json.dumps({"database": database.address()}).encode())


def invite(connection: Connection, known: Administration, name: str, labels: tuple[str, ...]) -> Invitation:
    """A login for a new host, and the invitation with its secret. An earlier invitation that nobody used is void.

    Raises `DatabaseRefuses`, `OSError` and `psycopg.OperationalError`.
    """
    login, secret = login_of(name), secrets.token_urlsafe(24)
    hashed = hashed_for(connection, login, secret)
    with in_time(connection):
        check_format(connection, known.database)
    try:
        with in_time(connection), connection.transaction():
            _admit(connection, name, login, labels, hashed)
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseRefuses(without_rights(known.database, "make a login for a host")) from error
    ca = None if known.ca_file is None else Path(known.ca_file).read_text()
    return Invitation(name, known.database._replace(user=login), secret, ca)


def _admit(connection: Connection, name: str, login: str, labels: tuple[str, ...], hashed: str) -> None:
    row = connection.execute(
        "select coalesce(removed_at, joined_at), removed_at from runward.hosts where name = %s for update",
        (name,),
    ).fetchone()
    if row is not None and row[0] is not None:
        since = f"{row[0].astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        what = (
            f"is taken, since {since}" if row[1] is None else f"was that of a host that was removed, {since}"
        )
        raise DatabaseRefuses(f"the name {name} {what}: choose another")
    if row is not None:
        # Its removal may have been interrupted.
        connection.execute(_of_login("alter role {} login password {}", login, hashed))
        connection.execute(
            "update runward.hosts set labels = %s, invited_at = clock_timestamp() where name = %s",
            (list(labels), name),
        )
        return
    if connection.execute(_HAS_LOGIN, (login,)).fetchone() is not None:
        raise DatabaseRefuses(
            f"the database's server has a login {login} that does not belong to this fleet: choose another name"
        )
    connection.execute(_of_login("create role {} login noinherit password {}", login, hashed))
    grant(connection, login)
    connection.execute(
        "insert into runward.hosts (name, login, labels) values (%s, %s, %s)", (name, login, list(labels))
    )


_HAS_LOGIN: Final = "select 1 from pg_roles where rolname = %s"

_REMOVE: Final = (
    "update runward.hosts set removed_at = coalesce(removed_at, clock_timestamp()), connections = connections + 1"
    " where name = %s"
)
_WITHDRAW: Final = (
    "update runward.orders set state = 'withdrawn', cancelled = true where origin = %s and state = 'open'"
)
# Nobody had taken it, so it never began. In a database that may be older than what its hosts did, that isn't known.
_DECLINE: Final = """
    update runward.orders wanted
        set state = 'declined', declined = wanted.declined || jsonb_build_object(removed.name, 'it was removed from the fleet')
        from runward.hosts removed
        where removed.name = %s and wanted.state = 'open' and not wanted.cancelled
            and runward.is_for(wanted, removed) and not exists (
                select from runward.hosts other
                where other.joined_at is not null and other.removed_at is null and runward.is_for(wanted, other)
            )
            and not exists (select from runward.unheard)
            and exists (select from runward.identity where known is null or known = runward.identity_here())
"""
_DISCONNECT: Final = "select pg_terminate_backend(pid, 3000) from pg_stat_activity where usename = %s"
"""Each has 3 s to end: until then it may hold what keeps its login from being dropped."""


def remove(connection: Connection, known: Administration, name: str) -> bool:
    """End the login of a host, at once and for ever; False if there is none.

    What it ordered and nobody has taken is withdrawn. What it alone could have taken is declined, so the chain runs that wait for it
    continue. What it reported stays. If this is interrupted, the same call completes it. Raises `DatabaseRefuses` and
    `psycopg.OperationalError`.
    """
    try:
        with in_time(connection):
            check_format(connection, known.database)
            row = connection.execute("select login from runward.hosts where name = %s", (name,)).fetchone()
            if row is None:
                return False
            login = str(row[0])
            has_login = connection.execute(_HAS_LOGIN, (login,)).fetchone() is not None
            if has_login:
                _shut_out(connection, login)
            with connection.transaction():
                connection.execute(_REMOVE, (name,))
                connection.execute(_WITHDRAW, (name,))
                connection.execute(_DECLINE, (name,))
            if has_login:
                # With its rights, and what it may have left here: a large object, for one.
                connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(login)))
                connection.execute(sql.SQL("drop role {}").format(sql.Identifier(login)))
    except psycopg.errors.DependentObjectsStillExist as error:
        raise DatabaseRefuses(
            f"nobody can log in as {name} any more, but its login can't be dropped: {in_one_line(error)}"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseRefuses(without_rights(known.database, "end the login of a host")) from error
    return True


def _shut_out(connection: Connection, login: str) -> None:
    """End the connections of a login, and let it make no other. Whatever it holds locked is free then: its own row here, for one."""
    # Who may end the connections of a login: its members.
    connection.execute(sql.SQL("grant {} to current_user").format(sql.Identifier(login)))
    # It may hold itself locked, too, by changing its password.
    connection.execute(_DISCONNECT, (login,))
    connection.execute(sql.SQL("alter role {} nologin").format(sql.Identifier(login)))
    # Once more: until then it could log in again.
    connection.execute(_DISCONNECT, (login,))


def _of_login(statement: str, login: str, hashed: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(login), sql.Literal(hashed))


def hashed_for(connection: Connection, login: str, secret: str) -> str:
    """The hash of a login's password. The password itself would be in the server's log."""
    return os.fsdecode(connection.pgconn.encrypt_password(secret.encode(), login.encode(), b"scram-sha-256"))
