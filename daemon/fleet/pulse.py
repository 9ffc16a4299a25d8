"""A sign of life of a host, which the database answers with what there is to look for."""

from collections.abc import Sequence
from typing import NamedTuple

from runward.daemon.fleet.connecting import Connection, in_time


class Pulse(NamedTuple):
    """Where there is something to look for; how many changes of orders there were; whether hosts still say again what they know."""

    words: list[str]
    changes: int
    is_older: bool


def give_pulse(connection: Connection, number: int, owes: int, problems: Sequence[str]) -> Pulse:
    """Say how much this host owes, and what keeps it from its work. Raises `psycopg.Error`."""
    with in_time(connection):
        row = connection.execute(
            "select words, changes, is_older from runward.pulse(%s, %s, %s)", (number, owes, [*problems])
        ).fetchone()
    assert row is not None, "a function returns a row"
    return Pulse(*row)
