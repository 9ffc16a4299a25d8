"""What the database tells a host at once: that an order has changed which concerns it, or what hosts accept. It is only a hint."""

from typing import Final

from psycopg import sql

from runward.daemon.fleet.connecting import Connection, in_time

CHANNEL: Final = "runward_orders_"
"""What the channel begins with that tells of a host's orders; its name follows."""

OFFERS_CHANNEL: Final = "runward_offers"
"""What tells all hosts that one of them accepts something else."""


class Notices:
    """Those of one connection."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._is_told = False
        self._offers_changed = False

    def listen(self, connection: Connection) -> None:
        """From now on. Raises `psycopg.Error`."""
        connection.add_notify_handler(lambda notice: self._take(notice.channel))
        with in_time(connection):
            for channel in (CHANNEL + self._host, OFFERS_CHANNEL):
                connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    def are_there(self, connection: Connection) -> bool:
        """Whether anything was told since the last call, as far as it has arrived. Raises `psycopg.Error`."""
        connection.pgconn.consume_input()
        while (notice := connection.pgconn.notifies()) is not None:
            self._take(notice.relname.decode())
        is_told, self._is_told = self._is_told, False
        return is_told

    def offers_changed(self) -> bool:
        """Whether a host accepts something else since the last call, as far as that has arrived."""
        changed, self._offers_changed = self._offers_changed, False
        return changed

    def _take(self, channel: str) -> None:
        self._is_told = True
        if channel == OFFERS_CHANNEL:
            self._offers_changed = True
