"""Whom a fleet waits for whose database is older than its hosts know, and who is left out."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.fleet import Database
from runward.daemon.fleet.connecting import Connection, check_format, in_time


class Waited(NamedTuple):
    """A host that has yet to say again what it knows. `unheard_s` are the seconds since it was heard of; None: it never was, or is not known."""

    host: str
    unheard_s: float | None


_WAITED: Final = (
    "select w.host, extract(epoch from clock_timestamp() - h.last_seen)::float8"
    " from runward.waited_for() as w(host) left join runward.hosts h on h.name = w.host order by 1"
)
_LEAVE_OUT: Final = (
    "update runward.unheard set is_left_out = true"
    " where host = any(%s) and host in (select runward.waited_for())"
)


def waited_for(connection: Connection, database: Database) -> list[Waited]:
    """The hosts for whom all others wait. Raises `DatabaseRefuses` and `psycopg.Error`."""
    with in_time(connection):
        check_format(connection, database)
        return [Waited(*row) for row in connection.execute(_WAITED).fetchall()]


def leave_out(connection: Connection, hosts: Sequence[str]) -> None:
    """Wait for these hosts no longer. Raises `psycopg.Error`."""
    with in_time(connection), connection.transaction():
        connection.execute("select from runward.identity for update")
        connection.execute(_LEAVE_OUT, ([*hosts],))
        connection.execute("select runward.take_on()")
