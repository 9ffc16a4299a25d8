"""Sessions that are long over are packed, and nobody sees a difference but by the size of the store."""

from pathlib import Path
from typing import Final

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish
from tests.daemon.parts.test_pruning import DAY, end_of_chain, prune, run, tombs
from tests.daemon.watch.test_following import KEY, Home

from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.store.hash_chain import Head
from runward.daemon.store.packed_document import COLUMNS, unpack
from runward.daemon.store.transaction import Row, Statement
from runward.handlers.model.requests import SessionCancelRequested

SETTLED: Final = Statement("update daemon set settled = (select max(id) from journal_lines)", [()])


async def pack(running: Daemon) -> int:
    """Pack what is old enough; returns how many sessions are packed then."""
    await running.supervisor.assembly.outbox.sweep()
    await running.store.run([SETTLED], "test")
    running.clock.move(3 * DAY)
    await running.supervisor.assembly.packer.drain()
    assert running.supervisor.assembly.packer.degraded() == []
    ((count,),) = await running.rows("select count(*) from packed")
    assert isinstance(count, int)
    return count


async def everything(running: Daemon) -> dict[str, list[Row]]:
    """All rows of all tables that are packed."""
    return {
        table: sorted(
            await running.rows("select " + ", ".join(f'"{name}"' for name in names) + f" from {table}"),
            key=repr,
        )
        for table, names in COLUMNS.items()
    }


async def whole_sessions(running: Daemon) -> list[Row]:
    return await running.rows("select * from sessions order by key")


async def unpack_all(running: Daemon) -> None:
    """As something that is said of each session does."""
    from runward.daemon.store import packing

    keys = [str(key) for (key,) in await running.rows("select session_key from packed order by 1")]
    for key in keys:
        await running.store.run(await packing.unpacked(running.store, [key]), "test")


async def test_packing_and_unpacking_leave_everything_as_it_was(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        directories = [begin(tmp_path, f"run-{number}") for number in range(5)]
        await running.settle()
        for directory in directories[1:]:
            finish(directory)
            await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        rows, sessions = await everything(running), await whole_sessions(running)
        assert await pack(running) == 4, "one runs"
        assert {str(lane) for (lane,) in await running.rows("select lane from events")} == {
            "native:runs/run-0"
        }
        assert await running.rows("select count(*) from files") == [(0,)]
        assert isinstance(await end_of_chain(running), Head)
        await unpack_all(running)
        assert await everything(running) == rows
        assert await whole_sessions(running) == sessions
        assert await running.rows("select * from absent_events") == []
        assert isinstance(await end_of_chain(running), Head)


async def test_the_chain_goes_on_over_what_is_packed(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await run(tmp_path, running, "one")
        assert await pack(running) == 1
        assert await running.rows("select count(*) from events") == [(0,)]
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await run(tmp_path, running, "two")
        assert isinstance(await end_of_chain(running), Head)
        await unpack_all(running)
        assert isinstance(await end_of_chain(running), Head)
        assert len(await running.rows("select 1 from events")) == 6


async def test_what_is_young_running_or_not_settled_is_not_packed(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        running.clock.move(3 * DAY)
        await running.supervisor.assembly.packer.drain()
        assert await running.rows("select count(*) from packed") == [(0,)], "a crash may take its lines back"
        await running.store.run([SETTLED], "test")
        hold = "update jobs set state = 'held' where handler = 'sessions/ended'"
        await running.store.run([Statement(hold, [()])], "test")
        await running.supervisor.assembly.packer.drain()
        assert await running.rows("select count(*) from packed") == [(0,)], "it is still owed something"


async def test_a_packed_session_that_is_resumed_is_unpacked_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.playbooks["/home/dev/app"] = "review"
    home.transcript.prompt("do it")
    home.transcript.text("done")
    async with home.open() as running:
        home.write()
        await home.rest(running)
        before = await running.rows("select artifact_contract_json, contract_basis from sessions")
        assert await pack(running) == 1
        home.transcript.now = home.clock.wall - 10
        home.transcript.prompt("go on")
        home.transcript.text("done again")
        home.write()
        await home.rest(running)
        assert await running.rows("select artifact_contract_json, contract_basis from sessions") == before
        assert await running.rows("select attempt from attempts order by 1") == [(1,), (2,)]
        assert await running.rows("select count(*) from packed") == [(0,)]
        assert await running.rows("select packed from sessions") == [(0,)]
        assert isinstance(await end_of_chain(running), Head)
        assert await pack(running) == 1
        home.clock.move(100 * DAY)
        await prune(running, DAY)
        assert await tombs(running) == [KEY]
        assert await running.rows("select count(*) from packed") == [(0,)]
        assert await running.rows("select kept ->> 'attempt_started_at' > 0 from tombstones") == [(1,)]
        assert isinstance(await end_of_chain(running), Head)


async def test_an_end_that_is_told_again_is_known_though_it_is_packed(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        assert await pack(running) == 1
        await running.store.run([Statement("delete from cursors", [()])], "test")
        running.supervisor.assembly.rounds.request_scan(everything=True)
        running.supervisor.assembly.roots["runs"].seen.clear()
        await running.settle()
        assert await running.rows("select count(*) from events") == [(3,)]
        assert await running.rows("select attempt, status from attempts") == [(1, "completed")]


async def test_a_request_about_a_packed_session_is_answered(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        assert await pack(running) == 1
        key = "native:runs/old"
        put(
            running.state,
            "stop",
            dump_request(SessionCancelRequested("stop", running.clock.now(), key, 1, "no use")),
        )
        running.supervisor.assembly.worker.inbox_waits = True
        await running.work()
        assert await running.rows("select verdict from decisions where handler = 'requests/cancel'") == [
            ("refused",)
        ]


async def test_a_packed_session_is_pruned_like_any_other(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        ((last, digest),) = await running.rows("select seq, hash from events order by seq desc limit 1")
        assert await pack(running) == 1
        await prune(running, DAY)
        assert await running.rows("select session_key, event, hash from tombstones") == [
            ("native:runs/old", last, digest)
        ]
        assert await running.rows("select count(*) from packed") == [(0,)]
        assert isinstance(await end_of_chain(running), Head)


async def test_what_cannot_be_unpacked_is_said_and_keeps_nobody_else_back(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        assert await pack(running) == 1
        await running.store.run([Statement("update packed set document = x'00'", [()])], "test")
        request = SessionCancelRequested("stop", running.clock.now(), "native:runs/old", 1, "no use")
        put(running.state, "stop", dump_request(request))
        running.supervisor.assembly.worker.inbox_waits = True
        await running.work()
        ((subject, why),) = running.supervisor.assembly.queue.tally.refused
        assert (subject, "can't be read" in why) == ("native:runs/old", True)
        await run(tmp_path, running, "new")
        assert ("native:runs/new", "completed") in await running.rows("select key, status from sessions")


@pytest.mark.parametrize("content", [b"", b"\0" * 10, b"no document"])
def test_bytes_that_are_no_document_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="can't be read"):
        unpack(content)


async def test_sessions_are_counted_by_status_without_counting_them(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "one")
        await run(tmp_path, running, "two", ended=False)
        counted = "select status, sessions from session_counts where sessions > 0 order by 1"
        assert await running.rows(counted) == [("completed", 1), ("running", 1)]
        await pack(running)
        await prune(running, DAY)
        assert await running.rows(counted) == [("running", 1)]
