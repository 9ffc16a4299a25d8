"""The chain shows a change of what was recorded, or by the lines that lie with the run."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.daemon.in_process import StillClock, ToldProcesses, daemon

from runward.daemon.store.hash_chain import broken_event, event_hash, lines_off_the_chain

KEY = "native:runs/a"


async def live(base: Path) -> None:
    async with daemon(base, StillClock(), ToldProcesses()) as running:
        (base / "runs" / "a").mkdir()
        (base / "runs" / "a" / "run.json").write_text('{"schema": "runward-run-v1"}')
        (base / "runs" / "a" / "exit.json").write_text('{"exit_code": 0}')
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store after one run, which keeps nobody from changing anything."""
    anyio.run(live, tmp_path)
    with closing(sqlite3.connect(tmp_path / "state" / "runward.db", isolation_level=None)) as connection:
        for (trigger,) in connection.execute(
            "select name from sqlite_master where type = 'trigger'"
        ).fetchall():
            connection.execute(f'drop trigger "{trigger}"')
        yield connection


def test_a_session_whose_record_nobody_changed_has_no_broken_event(store: sqlite3.Connection) -> None:
    keys = [key for (key,) in store.execute("select key from events where lane = ? order by seq", (KEY,))]
    assert keys == [f"{KEY}#1/started", f"{KEY}#1/ended", f"{KEY}#1/finished"]
    assert broken_event(store, KEY) is None
    assert lines_off_the_chain(store, KEY) == []


@pytest.mark.parametrize(
    "change",
    [
        "payload = replace(payload, '\"exited\"', '\"signalled\"') || ' '",
        "recorded_at = recorded_at + 1",
        "type = 'AttemptStarted'",
        "cause = 'somebody'",
        "depth = 7",
        "hash = '" + "0" * 64 + "'",
    ],
)
def test_an_event_that_was_changed_is_named(store: sqlite3.Connection, change: str) -> None:
    key = f"{KEY}#1/ended"
    (number,) = store.execute("select seq from events where key = ?", (key,)).fetchone()
    store.execute(f"update events set {change} where seq = ?", (number,))
    broken = broken_event(store, KEY)
    assert broken is not None
    assert (broken.seq, broken.key) == (number, key)
    assert "its hash is" in broken.why


def test_an_event_that_was_taken_out_is_missed_at_the_next_one(store: sqlite3.Connection) -> None:
    store.execute("pragma foreign_keys = off")
    store.execute("delete from events where seq = 2")
    assert broken_event(store, KEY) == (3, f"{KEY}#1/finished", "the event before it is gone")


def test_an_event_that_was_changed_with_its_hash_is_missed_at_the_next_one(store: sqlite3.Connection) -> None:
    facts = store.execute(
        "select key, type, version, recorded_at + 1, cause, depth, payload from events where seq = 2"
    ).fetchone()
    (before,) = store.execute("select hash from events where seq = 1").fetchone()
    changed = (facts[3], event_hash(before, *facts))
    store.execute("update events set recorded_at = ?, hash = ? where seq = 2", changed)
    broken = broken_event(store, KEY)
    assert broken is not None
    assert broken.seq == 3


def test_each_session_answers_for_its_own_events(store: sqlite3.Connection) -> None:
    store.execute("update events set key = replace(key, '/a#', '/b#'), lane = 'native:runs/b' where seq = 2")
    broken = broken_event(store, "native:runs/b")
    assert broken is not None
    assert broken.seq == 2
    assert broken_event(store, KEY) is None
    assert broken_event(store, "native:runs/nobody") is None


def test_a_chain_that_was_made_anew_is_told_by_the_lines_of_its_events(store: sqlite3.Connection) -> None:
    previous = "0" * 64
    rows = store.execute(
        "select seq, key, type, version, recorded_at + 1, cause, depth, payload from events order by seq"
    ).fetchall()
    for seq, *facts in rows:
        previous = event_hash(previous, *facts)
        store.execute("update events set recorded_at = ?, hash = ? where seq = ?", (facts[3], previous, seq))
    assert broken_event(store, KEY) is None
    assert {name for _, name in lines_off_the_chain(store, KEY)} == {"events.jsonl"}


def test_a_line_of_which_no_json_is_left_is_off_the_chain(store: sqlite3.Connection) -> None:
    store.execute("update journal_lines set content = cast('[1]' as blob) where name = 'events.jsonl'")
    assert {name for _, name in lines_off_the_chain(store, KEY)} == {"events.jsonl"}
