"""The actions of a session as calls, read from the store beside the daemon's own connection."""

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from runward.daemon.store import reading, reading_told_actions
from runward.handlers.bundle.calls import Told


def told_actions(state: Path, key: str, count: int) -> Generator[Told]:
    """The first `count` actions of a session as calls, with their results. Raises `sqlite3.Error` and
    `StoreUnreadable`."""
    if count:
        with closing(reading.open_to_read(str(state / reading.STORE))) as connection:
            yield from reading_told_actions.told_actions(connection, key, count)
