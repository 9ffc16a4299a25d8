"""How a host joins a fleet: the secret of its invitation is replaced by its own, and its settings are written."""

import secrets
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from runward.config.settings import FleetSettings
from runward.daemon.configuration.secret_file import SecretUnusable, secret_of
from runward.daemon.disk.durable import sync_directory, write_durably
from runward.daemon.faults import point
from runward.daemon.fleet.administration import hashed_for
from runward.daemon.fleet.connecting import (
    Connection,
    DatabaseRefuses,
    as_host,
    check_format,
    connect,
    in_one_line,
    in_time,
)
from runward.daemon.fleet.invitation import Invitation

SETTINGS: Final = "fleet.toml"
SECRET: Final = "fleet.secret"  # noqa: S105  # the name of a file
CERTIFICATES: Final = "fleet.ca.pem"


def join(invitation: Invitation, directory: Path) -> None:
    """Use the invitation, and write the host's settings into this directory.

    The secret is on the disk before the database knows it, and the settings come last. So whenever this is interrupted, the
    same command completes it. Raises `DatabaseUnreachable`, `DatabaseRefuses`, `OSError` and `psycopg.OperationalError`.
    """
    _write_certificates(invitation, directory)
    try:
        if not _was_interrupted(invitation, directory):
            _take_own_secret(invitation, directory)
    except BaseException:
        # Nothing that is not in use stays: but a secret that may be the login's does, and then the certificates do, too.
        if not (directory / SECRET).exists():
            (directory / CERTIFICATES).unlink(missing_ok=True)
        raise
    point("join.changed")
    write_durably(directory, SETTINGS, _settings(invitation).encode())


def _write_certificates(invitation: Invitation, directory: Path) -> None:
    if invitation.ca is not None:
        write_durably(directory, CERTIFICATES, invitation.ca.encode())


def _ca_file(invitation: Invitation, directory: Path) -> str | None:
    return None if invitation.ca is None else str(directory / CERTIFICATES)


def _was_interrupted(invitation: Invitation, directory: Path) -> bool:
    """Whether the secret of an earlier try is the login's already."""
    try:
        secret_of(str(directory / SECRET))
    except SecretUnusable:
        return False
    settings = FleetSettings(
        host=invitation.name,
        database=invitation.database.address(),
        password_file=str(directory / SECRET),
        ca_file=_ca_file(invitation, directory),
    )
    try:
        as_host(settings).close()
    except DatabaseRefuses:
        # That try ended before the database knew it: then the invitation is still good, or another host used it.
        return False
    return True


def _take_own_secret(invitation: Invitation, directory: Path) -> None:
    database = invitation.database
    try:
        connection = connect(database, invitation.secret, _ca_file(invitation, directory))
    except DatabaseRefuses as error:
        if "authentication failed" not in str(error):
            raise
        raise DatabaseRefuses(
            f"the invitation of {invitation.name} was used, replaced, or is not from this fleet:"
            f" `runward fleet invite {invitation.name}` makes a new one ({error})"
        ) from error
    with connection:
        with in_time(connection):
            check_format(connection, database)
        secret = secrets.token_urlsafe(32)
        write_durably(directory, SECRET, f"{secret}\n".encode())
        point("join.secret")
        try:
            _change_secret(connection, database.user, secret)
        except DatabaseRefuses:
            (directory / SECRET).unlink()
            sync_directory(directory)
            raise


def _change_secret(connection: Connection, login: str, secret: str) -> None:
    """Both or nothing: the invitation is used, and its secret is no longer the login's."""
    hashed = hashed_for(connection, login, secret)
    try:
        with in_time(connection), connection.transaction():
            connection.execute("select runward.join_fleet()")
            connection.execute(
                sql.SQL("alter role {} password {}").format(sql.Identifier(login), sql.Literal(hashed))
            )
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise DatabaseRefuses(
            f"{login} can't join: {in_one_line(error)}: ask for a new invitation"
        ) from error


def _settings(invitation: Invitation) -> str:
    lines = [
        "# Written by `runward fleet join`. With this file, this host reports to its fleet.",
        "[fleet]",
        f'host = "{invitation.name}"',
        f'database = "{invitation.database.address()}"',
        f'password_file = "{SECRET}"',
    ]
    if invitation.ca is not None:
        lines.append(f'ca_file = "{CERTIFICATES}"')
    lines.append("titles = false")
    return "\n".join(lines) + "\n"
