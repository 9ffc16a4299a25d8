"""The head of the chain of events goes to the log: at the start, and every hour."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.daemon.in_process import StillClock

from runward.daemon.log import log_into
from runward.daemon.parts.log_lines import HEAD_PERIOD, ChainHead
from runward.daemon.store.connection import connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store

EVENT = (
    "insert into events (seq, key, type, version, lane, at, recorded_at, depth, payload, hash)"
    " values (?1, 'k' || ?1, 'ChainFired', 1, 'chain:c', 1.0, 1.0, 0, '{}', ?2)"
)


Line = dict[str, object]


def record(path: Path, seq: int, digest: str) -> None:
    """An event in the store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(EVENT, (seq, digest))


def head_part(store: Store, clock: StillClock) -> tuple[ChainHead, list[Line]]:
    """The part over a real store, and what it says."""
    said: list[Line] = []
    return ChainHead(store, clock, log_into(said.append)), said


def lines(said: list[Line]) -> list[tuple[str, object, object]]:
    """The event, number and hash of each line."""
    return [(str(each["event"]), each.get("seq"), each.get("hash")) for each in said]


async def test_the_head_is_logged_at_the_start_and_every_hour_after_that(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    record(path, 1, "a" * 64)
    store = Store(await connect(path))
    clock = StillClock()
    try:
        part, said = head_part(store, clock)
        await part.drain()
        record(path, 2, "b" * 64)
        clock.move(HEAD_PERIOD - 1)
        await part.drain()
        assert lines(said) == [("chain.head", 1, "a" * 64)], "an hour is not over"
        assert part.pause() == 1
        clock.move(1)
        await part.drain()
        assert lines(said)[1:] == [("chain.head", 2, "b" * 64)]
        clock.move(HEAD_PERIOD)
        await part.drain()
        assert lines(said)[2:] == [("chain.head", 2, "b" * 64)], "also if nothing is new"
    finally:
        await store.close()


async def test_a_store_without_events_has_no_head(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    store = Store(await connect(path))
    try:
        part, said = head_part(store, StillClock())
        await part.drain()
        assert not said
        assert part.pause() == HEAD_PERIOD, "it does not turn round and round"
    finally:
        await store.close()


async def test_a_store_that_refuses_is_asked_again_after_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    migrate(path)
    record(path, 1, "a" * 64)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("alter table events rename to elsewhere")
    store = Store(await connect(path))
    clock = StillClock()
    try:
        part, said = head_part(store, clock)
        await part.drain()
        assert [each["level"] for each in said] == ["warning"]
        assert part.pause() == 60
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("alter table elsewhere rename to events")
        clock.move(60)
        await part.drain()
        assert lines(said)[1:] == [("chain.head", 1, "a" * 64)]
    finally:
        await store.close()
