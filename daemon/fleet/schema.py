"""The schema of a fleet: tables that only gain, and functions that are replaced whole.

A file of `tables/` is named after the format that it came with, and never changes again. The files of `functions/` are read again
by each upgrade, so each can be read over itself. A function that hosts call keeps its name and its arguments: older programs use it.
"""

from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from runward.config.fleet import Database
from runward.daemon.fleet.connecting import FORMAT, Connection, DatabaseRefuses, format_of, in_time

READ: Final = (
    "format",
    "hosts",
    "sessions",
    "orders",
    "receipts",
    "heads",
    "skills",
    "events",
    "hears",
    "outcomes",
    "approvals",
)
"""The tables that hosts may read. They write none: functions do."""

MIGRATION_S: Final = 60.0
"""Seconds that the schema may take."""


def make_schema(connection: Connection, database: Database) -> bool:
    """Make the fleet's schema; returns whether there was none.

    Raises `DatabaseRefuses` and `psycopg.OperationalError`.
    """
    if _format_here(connection, database) is not None:
        return False
    try:
        _bring_from(connection, 0)
    except psycopg.errors.DuplicateSchema as error:
        raise DatabaseRefuses(
            f"{database.place} has a schema runward that does not belong to a fleet: use another database"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseRefuses(without_rights(database, "create a schema")) from error
    return True


def upgrade(connection: Connection, database: Database) -> int | None:
    """Bring the fleet to the format of this Runward; returns the format that it had, None if there is no fleet.

    Older programs still write: nothing that they use goes. Raises `DatabaseRefuses` and `psycopg.OperationalError`.
    """
    found = _format_here(connection, database)
    if found is None:
        return None
    try:
        _bring_from(connection, found)
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseRefuses(without_rights(database, "change the fleet's schema")) from error
    return found


def _format_here(connection: Connection, database: Database) -> int | None:
    with in_time(connection):
        found = format_of(connection, database)
    if found is None:
        return None
    version, _ = found
    if version > FORMAT:
        raise DatabaseRefuses(
            f"the fleet has format {version}, and this Runward knows {FORMAT}: install a newer one"
        )
    return version


def _bring_from(connection: Connection, version: int) -> None:
    with in_time(connection, MIGRATION_S), connection.transaction():
        if version:
            # Of two upgrades at once, the second one finds nothing to do.
            row = connection.execute("select version from runward.format for update").fetchone()
            version = version if row is None else int(row[0])
        for file in tables_after(version):
            connection.execute(file.read_bytes())
        connection.execute("update runward.format set version = %s", (FORMAT,))
        for file in sorted(Path(__file__).with_name("functions").glob("*.sql")):
            connection.execute(file.read_bytes())
        # Otherwise every login of the server could call them.
        connection.execute("revoke all on all functions in schema runward from public")
        logins = connection.execute(
            "select login from runward.hosts where removed_at is null order by login"
        ).fetchall()
        for (login,) in logins:
            grant(connection, login)


def tables_after(version: int) -> list[Path]:
    """The files of the tables that came after a format, in their order."""
    found = Path(__file__).with_name("tables").glob("*.sql")
    return [
        file
        for number, _, file in sorted((format_that_brought(each), each.name, each) for each in found)
        if number > version
    ]


def format_that_brought(file: Path) -> int:
    """The format that a file of tables came with, as its name says."""
    return int(file.name.partition("_")[0])


def grant(connection: Connection, login: str) -> None:
    """What the login of each host may do. None of this lets it write to a table."""
    readable = sql.SQL(", ").join(sql.Identifier("runward", table) for table in READ)
    to = sql.Identifier(login)
    connection.execute(sql.SQL("grant usage on schema runward to {}").format(to))
    connection.execute(sql.SQL("grant select on {} to {}").format(readable, to))
    connection.execute(sql.SQL("grant execute on all functions in schema runward to {}").format(to))


def without_rights(database: Database, what: str) -> str:
    """That the login of an administrator is not allowed to do something."""
    return (
        f"the login {database.user} may not {what} in {database.place}: log in as its owner, with CREATEROLE"
    )
