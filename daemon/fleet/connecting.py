"""Connections to a fleet's database: whom it talks to is checked, and nothing waits longer than five seconds for it."""

import math
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Final, TypeAlias

import psycopg

from runward.config.fleet import Database, database_of
from runward.config.settings import FleetSettings
from runward.daemon.configuration.secret_file import SecretUnusable, secret_of

PATIENCE_S: Final = 5.0
"""Seconds that the database may take for what it is asked at once. It is measured here: a silent network reports nothing."""

FORMAT: Final = 3
"""The version of the schema that this program knows."""

OLDEST_SERVER: Final = 15
"""The oldest version of PostgreSQL."""

REFUSED: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
"""What the database refuses for what is in it, however often it is said."""

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


class DatabaseUnreachable(Exception):
    """The database did not answer; the message says why. Later it may."""


class DatabaseRefuses(Exception):
    """The database, or what is in it, does not allow this; the message says why, and what to do."""


_OF_LOGIN: Final = ("authentication failed", "no pg_hba.conf entry", "is not permitted to log in")
_OF_CERTIFICATE: Final = ("certificate", "does not support SSL")


def connect(database: Database, secret: str | None, ca_file: str | None) -> Connection:
    """A connection where each statement commits. Raises `DatabaseUnreachable` and `DatabaseRefuses`.

    Without a secret, libpq looks for one (PGPASSWORD, ~/.pgpass). Without a file, the system's certificates count.
    """
    try:
        connection = psycopg.connect(
            user=database.user,
            host=database.host,
            port=database.port,
            dbname=database.name,
            password=secret,
            connect_timeout=int(PATIENCE_S),
            application_name="runward",
            gssencmode="disable",
            autocommit=True,
            # A transaction pooler gives the next transaction another connection, which knows no statement of the last one.
            prepare_threshold=None,
            sslmode="disable" if database.is_socket else "verify-full",
            sslrootcert=None if database.is_socket else ca_file or "system",
        )
    except psycopg.OperationalError as error:
        why = in_one_line(error)
        if any(words in why for words in _OF_LOGIN):
            raise DatabaseRefuses(f"{database.place} refuses the login {database.user}: {why}") from error
        if any(words in why for words in _OF_CERTIFICATE):
            raise DatabaseRefuses(f"{database.place} can't be trusted: {why}") from error
        raise DatabaseUnreachable(f"{database.place} can't be reached: {why}") from error
    if connection.info.server_version < OLDEST_SERVER * 10_000:
        connection.close()
        raise DatabaseRefuses(f"{database.place} is older than PostgreSQL {OLDEST_SERVER}: upgrade it")
    return connection


def in_one_line(error: Exception) -> str:
    """What an exception says, on one line."""
    return " ".join(str(error).split())


@contextmanager
def in_time(connection: Connection, seconds: float = PATIENCE_S) -> Iterator[None]:
    """Shut the connection if what is done with it here takes longer: then that fails, as if the server had gone."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        _DEADLINES.set(end, monotonic() + seconds)
        try:
            yield
        finally:
            _DEADLINES.lift(end)


class _Deadlines:
    """Connections that are shut at some moment, by one thread: one for each statement would take longer than most statements."""

    def __init__(self) -> None:
        self._at: dict[socket.socket, float] = {}
        """In monotonic seconds."""
        self._changed = threading.Condition()
        self._looks_at = 0.0
        """When the thread looks next, or before; infinite while it waits until there is a deadline, and 0 without a thread."""

    def set(self, end: socket.socket, at: float) -> None:
        with self._changed:
            self._at[end] = at
            if self._looks_at == 0.0:
                self._looks_at = at
                threading.Thread(target=self._run, name="deadlines", daemon=True).start()
            elif at < self._looks_at:
                self._changed.notify()

    def lift(self, end: socket.socket) -> None:
        with self._changed:
            self._at.pop(end, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = monotonic()
                for end in [end for end, at in self._at.items() if at <= now]:
                    del self._at[end]
                    with suppress(OSError):  # its peer has shut it meanwhile
                        end.shutdown(socket.SHUT_RDWR)
                # Most deadlines are lifted long before: while it sleeps for one, the next ones need not wake it.
                self._looks_at = min(self._at.values(), default=math.inf)
                self._changed.wait(None if self._looks_at == math.inf else self._looks_at - now)


_DEADLINES: Final = _Deadlines()


def as_host(settings: FleetSettings) -> Connection:
    """A connection with the login of this host to a fleet whose format it knows.

    Raises `DatabaseUnreachable` and `DatabaseRefuses`.
    """
    try:
        secret = secret_of(settings.password_file).decode()
    except SecretUnusable as error:
        raise DatabaseRefuses(f"fleet.password_file: {error}") from error
    database = database_of(settings.database)
    if settings.ca_file is not None and not os.path.isfile(settings.ca_file):
        raise DatabaseRefuses(f"fleet.ca_file: there is no file {settings.ca_file}")
    connection = connect(database, secret, settings.ca_file)
    try:
        with in_time(connection):
            check_format(connection, database)
    except psycopg.OperationalError as error:
        connection.close()
        raise DatabaseUnreachable(f"{database.place} does not answer: {in_one_line(error)}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def check_format(connection: Connection, database: Database) -> None:
    """Raises `DatabaseRefuses` unless the fleet has what this program uses, and takes what it writes; `psycopg.OperationalError`."""
    found = format_of(connection, database)
    if found is None:
        raise DatabaseRefuses(f"{database.place} has no fleet: `runward fleet init` makes one")
    version, oldest_writer = found
    if oldest_writer > FORMAT:
        raise DatabaseRefuses(
            f"the fleet has format {version}, and this Runward knows {FORMAT}: install a newer one"
        )
    if version < FORMAT:
        raise DatabaseRefuses(
            f"the fleet has format {version}, and this Runward needs {FORMAT}: run `runward fleet upgrade` where the fleet was made"
        )


def format_of(connection: Connection, database: Database) -> tuple[int, int] | None:
    """The fleet's format, and the oldest one whose programs may write. None if there is no fleet."""
    try:
        row = connection.execute("select version, oldest_writer from runward.format").fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseRefuses(
            f"the login {database.user} does not belong to the fleet in {database.place}: it needs an invitation"
        ) from error
    return None if row is None else (int(row[0]), int(row[1]))
