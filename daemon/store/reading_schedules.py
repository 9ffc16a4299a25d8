"""Schedules and firings, as commands read them from the store."""

import sqlite3
from typing import NamedTuple


class FiringRow(NamedTuple):
    """The result of a firing of a chain. Times are Unix seconds."""

    chain: str
    at: float
    fired_by: str
    event: str
    result: str
    why: str
    run: str | None
    due_at: float | None


class ScheduleRow(NamedTuple):
    """When a chain is due next: `due` is None if nothing more comes, `since` is when its times were first read."""

    since: float
    due: float | None
    runs: int


_FIRING = ", ".join(FiringRow._fields)


def schedules(connection: sqlite3.Connection) -> dict[str, ScheduleRow]:
    """All schedules that a daemon waits for, by chain."""
    rows = connection.execute("select chain, since, due, runs from schedules where words is not null")
    return {chain: ScheduleRow(*row) for chain, *row in rows}


def last_firing(
    connection: sqlite3.Connection, chain: str, *, is_scheduled: bool = False
) -> FiringRow | None:
    """The result of the last firing of a chain, or the last one of its schedule."""
    rows = connection.execute(
        f"select {_FIRING} from firings where chain = ? and (due_at is not null or not ?) order by at desc, id desc limit 1",  # noqa: S608 # our own words
        (chain, is_scheduled),
    )
    return next((FiringRow(*row) for row in rows), None)


def newest_firings(connection: sqlite3.Connection, chain: str, limit: int) -> list[FiringRow]:
    """What became of the newest firings of a chain, the newest first."""
    rows = connection.execute(
        f"select {_FIRING} from firings where chain = ? order by at desc, id desc limit ?",  # noqa: S608 # our own words
        (chain, limit),
    )
    return [FiringRow(*row) for row in rows]
