"""What no fleet can do without: two processes that exchange the rows of orders over psycopg, without daemons, stores or runs.

Called as `bare_orders.py origin CONNINFO COUNT BATCH` and `bare_orders.py taker CONNINFO COUNT`. Each prints `ready`, and at
the end a JSON object: by order, the nanoseconds (monotonic) at which the origin began to place it, or the taker had taken it.
The origin waits for the end of each batch of one before it places the next order. Both sync as the server does.
"""

import json
import sys
import time

import psycopg

ORIGIN, TAKER = "one", "other"
_MOST_AT_ONCE = 100
_PLACE = "select runward.place_order(%s, %s, %s, '{}', 'nothing', '{}', null)"
_TAKE = "select origin, id, takes from runward.take_orders(%s, %s)"
_END = 'select runward.end_order(%s, %s, %s, %s, \'{"status": "completed"}\')'
_OVER = "select id from runward.orders where origin = %s and settled_at is null and state = 'ended'"
_SETTLE = "select runward.settle_order(%s, %s)"

Connection = psycopg.Connection[tuple[object, ...]]


def origin(connection: Connection, number: int, count: int, batch: int) -> dict[str, int]:
    """Place orders, and settle those that are over, until all are."""
    placed: dict[str, int] = {}
    over = 0
    for first in range(0, count, batch):
        ids = [str(each) for each in range(first, min(first + batch, count))]
        placed |= dict.fromkeys(ids, time.monotonic_ns())
        with connection.pipeline(), connection.transaction():
            for each in ids:
                connection.execute(_PLACE, (number, each, TAKER))
        while batch == 1 and over < len(placed):
            over += _settle(connection, number)
    while over < count:
        over += _settle(connection, number)
    return placed


def _settle(connection: Connection, number: int) -> int:
    found = connection.execute(_OVER, (ORIGIN,)).fetchall()
    if not found:
        _wait(connection)
        return 0
    with connection.pipeline(), connection.transaction():
        for (each,) in found:
            connection.execute(_SETTLE, (number, each))
    return len(found)


def taker(connection: Connection, number: int, count: int) -> dict[str, int]:
    """Take and end orders until there were so many."""
    taken: dict[str, int] = {}
    while len(taken) < count:
        found = connection.execute(_TAKE, (number, _MOST_AT_ONCE)).fetchall()
        if not found:
            _wait(connection)
            continue
        taken |= {str(order): time.monotonic_ns() for _, order, _ in found}
        with connection.pipeline(), connection.transaction():
            for of, order, take in found:
                connection.execute(_END, (number, of, order, take))
    return taken


def _wait(connection: Connection) -> None:
    """For a notice: one that came with the last answer counts."""
    list(connection.notifies(timeout=0.5, stop_after=1))


def main(role: str, conninfo: str, *numbers: str) -> None:
    name = ORIGIN if role == "origin" else TAKER
    with psycopg.connect(conninfo, autocommit=True) as connection:
        row = connection.execute("select runward.greet(1, 'bare')").fetchone()
        assert row is not None
        number = int(str(row[0]))
        connection.execute(f"listen runward_orders_{name}".encode())
        print("ready", flush=True)
        sys.stdin.readline()
        play = origin if role == "origin" else taker
        print(json.dumps(play(connection, number, *map(int, numbers))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
