"""A person says that the host that took an order will not come back."""

from typing import Final, NamedTuple

from runward.daemon.fleet.connecting import Connection, in_time

MOST_NOTE: Final = 1000

_FIND: Final = "select origin, id from runward.orders where id = %s and (%s = '' or origin = %s) order by origin limit 21"
_GIVE_UP: Final = "select runward.give_up_order(%s, %s, %s)"


class GivenUp(NamedTuple):
    """The order, and its state now: `given_up` if it is."""

    origin: str
    id: str
    state: str


def give_up(connection: Connection, name: str, note: str) -> GivenUp | list[str]:
    """Give up the order of this id, or of `ORIGIN/ID`; or the names of those that it may mean, none or several.

    Raises `psycopg.Error`.
    """
    origin, _, order = name.rpartition("/")
    with in_time(connection):
        found = connection.execute(_FIND, (order, origin, origin)).fetchall()
        if len(found) != 1:
            return [f"{each}/{order}" for each, _ in found]
        ((origin, order),) = found
        row = connection.execute(_GIVE_UP, (origin, order, note)).fetchone()
    state = None if row is None else row[0]
    return [] if state is None else GivenUp(origin, order, str(state))
