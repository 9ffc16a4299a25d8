"""What is remembered between looks and can't be read any more harms what it is about, and nobody else."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.daemon.engine.test_daemon_in_process import begin, events_in, finish, verdicts
from tests.daemon.in_process import StillClock, ToldProcesses, daemon
from tests.daemon.watch.test_following import Home, attempts

from runward.handlers.layouts import native
from runward.handlers.layouts.native import Item
from runward.handlers.model.sessions import Document

RUBBISH = {
    "no JSON": b"rubbish",
    "another shape": b'{"not": ["ours", 1]}',
    "a wrong type": b'[[], "open", "one"]',
    "empty": b"",
    "no UTF-8": b'[[],"op\xff\xfeen"]',
    "far too deep": b"[" * 20_000,
}


def damage(base: Path, table: str, column: str, rubbish: bytes, where: str = "1") -> None:
    """Write over a column of the store, as a disk may."""
    with closing(sqlite3.connect(base / "state/runward.db", isolation_level=None)) as connection:
        for (trigger,) in connection.execute(
            "select name from sqlite_schema where type = 'trigger' and tbl_name = ?", (table,)
        ).fetchall():
            connection.execute(f"drop trigger {trigger}")
        changed = connection.execute(
            f"update {table} set {column} = cast(? as text) where {where}", (rubbish,)
        )
        assert changed.rowcount, "nothing was damaged"


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
async def test_a_run_whose_cursor_is_unreadable_is_looked_at_again_and_judged_once(
    tmp_path: Path, rubbish: bytes
) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        runs = {name: begin(tmp_path, name) for name in ("open", "over", "again", "beside")}
        finish(runs["over"])
        finish(runs["again"])
        await running.settle()
        (runs["again"] / "exit.json").unlink()
        (runs["again"] / "run.json").write_text('{"schema": "runward-run-v1", "kind": "flow"}')
        await running.settle()
        assert await verdicts(running) == {
            name: "completed" if name == "over" else "running" for name in runs
        }
    damage(tmp_path, "cursors", "state", rubbish, "directory != 'beside'")
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await running.settle()
        for name in ("open", "again", "beside"):
            finish(runs[name])
        await running.settle()
        assert await verdicts(running) == dict.fromkeys(runs, "completed")
        ended = await running.rows(
            "select lane, count(*) from events where type = 'AttemptEnded' group by lane order by lane"
        )
    assert [count for _, count in ended] == [2, 1, 1, 1]
    assert events_in(runs["open"]) == ["session_started", "status_changed", "session_finished"]


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
async def test_so_is_an_agents_session(tmp_path: Path, rubbish: bytes) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        await running.settle()
        assert await attempts(running) == [(1, "running", None, None)]
    damage(tmp_path, "cursors", "state", rubbish)
    home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]
        assert await running.rows("select message from problems") == []


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
async def test_a_place_whose_mark_is_unreadable_is_read_again(tmp_path: Path, rubbish: bytes) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        await home.rest(running)
    damage(tmp_path, "places", "signature", rubbish)
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
async def test_a_start_whose_order_is_unreadable_is_given_up_and_said_to_be(
    tmp_path: Path, rubbish: bytes
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        begin(tmp_path, "any")
        await running.settle()
    with closing(sqlite3.connect(tmp_path / "state/runward.db", isolation_level=None)) as connection:
        connection.execute(
            "insert into starts (key, event, session_key, name, directory, effect, state)"
            " values ('a-key', 1, 'native:runs/x', 'x', '/x', cast(? as text), 'owed')",
            (rubbish,),
        )
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        finish(begin(tmp_path, "beside"))
        await running.settle()
        assert await running.rows("select state, why from starts") == [
            ("failed", "its stored data can no longer be read: request it again if you need it")
        ]
        assert (await verdicts(running))["beside"] == "completed"


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
async def test_an_order_to_cancel_that_names_nobody_readable_is_carried_out_on_nobody(
    tmp_path: Path, rubbish: bytes
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        begin(tmp_path, "any")
        await running.settle()
    with closing(sqlite3.connect(tmp_path / "state/runward.db", isolation_level=None)) as connection:
        connection.execute(
            "insert into cancellations (event, session_key, attempt, directory, processes, said_by, reason)"
            " values (1, 'native:runs/any', 1, '/x', cast(? as text), 'me', '')",
            (rubbish,),
        )
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        finish(begin(tmp_path, "beside"))
        await running.settle()
        assert await running.rows("select count(*) from cancellations where carried_out_at is null") == [(0,)]
        assert (await verdicts(running))["beside"] == "completed"


async def test_a_mistake_of_ours_in_one_runs_look_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = native.scan

    def scan(root: str, path: str, documents: Sequence[Document]) -> Iterator[Item]:
        if path.endswith("/wrong"):
            raise ZeroDivisionError
        return ours(root, path, documents)

    monkeypatch.setattr(native, "scan", scan)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        finish(begin(tmp_path, "wrong"))
        finish(begin(tmp_path, "right"))
        await running.settle()
        assert await verdicts(running) == {"right": "completed"}
        monkeypatch.setattr(native, "scan", ours)
        await running.settle()
        assert await verdicts(running) == {"right": "completed", "wrong": "completed"}
