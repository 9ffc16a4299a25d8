"""The record of old sessions is pruned: what goes, what stays, and that nothing is judged twice."""

import json
import shutil
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish
from tests.daemon.watch.test_following import KEY, Home

from runward.config.bundle import BundleRules
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.store.hash_chain import BrokenChain, ChainedEvent, Head, follow
from runward.daemon.store.transaction import Statement
from runward.handlers.bundle.parts import PARTS
from runward.handlers.model.requests import PruneRequested

DAY: Final = 86_400.0
OF_SESSIONS: Final = (
    "sessions",
    "attempts",
    "files",
    "status_history",
    "cancellations",
    "starts",
    "hooks",
    "links",
    "journal_lines",
)


async def run(base: Path, running: Daemon, name: str, *, ended: bool = True) -> Path:
    directory = begin(base, name)
    await running.settle()
    if ended:
        finish(directory)
        await running.settle()
    await running.supervisor.assembly.outbox.sweep()
    return directory


async def prune(running: Daemon, older_than: float, name: str = "please") -> None:
    put(running.state, name, dump_request(PruneRequested(name, running.clock.now(), older_than)))
    running.supervisor.assembly.worker.inbox_waits = True
    await running.work()
    while await running.supervisor.assembly.pruner.drain():
        pass
    await running.work()


async def tombs(running: Daemon) -> list[str]:
    return [str(key) for (key,) in await running.rows("select session_key from tombstones order by 1")]


async def sessions(running: Daemon) -> list[str]:
    return [str(key) for (key,) in await running.rows("select key from sessions order by 1")]


async def end_of_chain(running: Daemon) -> Head | BrokenChain:
    rows = await running.rows(
        "select seq, hash, key, type, version, recorded_at, cause, depth, payload from events order by seq"
    )
    gone = await running.rows("select first, last, hash from absent_events")
    pruned = {int(str(first)): Head(int(str(last)), str(digest)) for first, last, digest in gone}
    return follow([ChainedEvent(*row) for row in rows], pruned=pruned)  # type: ignore[arg-type] # the schema's own types


async def test_what_belongs_to_old_sessions_goes_and_a_tombstone_stays(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        directory = await run(tmp_path, running, "old")
        ((last, digest),) = await running.rows("select seq, hash from events order by seq desc limit 1")
        before = sorted(path.name for path in directory.iterdir())
        await prune(running, DAY)
        assert await tombs(running) == ["native:runs/old"]
        ((status, attempt, event, digest_kept),) = await running.rows(
            "select status, attempt, event, hash from tombstones"
        )
        assert (status, attempt, event, digest_kept) == ("completed", 1, last, digest)
        for table in OF_SESSIONS:
            assert await running.rows(f"select * from {table}") == [], table
        assert await running.rows("select type from events") == [("PruneRequested",)]
        assert await running.rows("select handler, state from jobs") == [("requests/prune", "done")]
        assert sorted(path.name for path in directory.iterdir()) == before, "a run's directory is its own"
        assert isinstance(await end_of_chain(running), Head)


async def test_a_pruned_run_that_still_lies_there_is_not_judged_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        await prune(running, DAY)
        running.supervisor.assembly.rounds.request_scan(everything=True)
        await running.settle()
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await running.settle()
        assert await sessions(running) == []
        assert await running.rows("select type from events") == [("PruneRequested",)]


async def test_a_pruned_run_that_comes_back_as_it_was_is_not_judged_again(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        directory = await run(tmp_path, running, "old")
        shutil.copytree(directory, tmp_path / "kept")
        shutil.rmtree(directory)
        await running.settle()
        await prune(running, DAY)
        (tmp_path / "kept").rename(directory)
        await running.settle()
        assert await sessions(running) == []


async def test_what_is_not_remembered_of_a_pruned_run_is_known_by_its_tombstone(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        await prune(running, DAY)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await running.store.run([Statement("delete from cursors", [()])], "test")
        await running.settle()
        assert await sessions(running) == []
        assert await running.rows("select type from events") == [("PruneRequested",)]
        assert running.supervisor.assembly.queue.tally.refused == []


async def test_running_young_and_owed_sessions_stay(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        for name in ("held", "owed", "old"):
            await run(tmp_path, running, name)
        await run(tmp_path, running, "running", ended=False)
        young = begin(tmp_path, "young")
        (young / "exit.json").write_text(json.dumps({"exit_code": 0, "finished_at": "2026-09-21T00:00:00Z"}))
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        hold = "update jobs set state = 'held' where lane = 'native:runs/held' and handler = 'sessions/ended'"
        owe = (
            'update journal_lines set "offset" = null where id = (select max(id) from journal_lines'
            " where directory like '%/owed')"
        )
        await running.store.run([Statement(hold, [()]), Statement(owe, [()])], "test")
        await prune(running, 30 * DAY)
        assert await tombs(running) == ["native:runs/old"]
        assert isinstance(await end_of_chain(running), Head)


async def test_stretches_of_gone_events_grow_together(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        directories = [await run(tmp_path, running, f"run-{number}", ended=False) for number in range(4)]
        for directory in directories[:3]:
            finish(directory)
            await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        await prune(running, DAY, "first")
        assert len(await tombs(running)) == 3
        assert await running.rows("select first, last from absent_events") == [(1, 3), (5, 10)]
        end = await end_of_chain(running)
        finish(directories[3])
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        running.clock.move(30 * DAY)
        await prune(running, DAY, "second")
        assert await running.rows("select first, last from absent_events") == [(1, 13)]
        assert end == Head(11, end.hash) if isinstance(end, Head) else None
        assert isinstance(await end_of_chain(running), Head)


async def test_where_all_events_are_gone_the_next_one_follows_from_the_last(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        running.supervisor.assembly.pruner.keep(8 * DAY)
        await live(running, 9)
        assert await running.rows("select count(*) from events") == [(0,)]
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await run(tmp_path, running, "new")
        assert await running.rows("select min(seq) from events") == [(4,)]
        assert await end_of_chain(running) == Head(
            6, str((await running.rows("select hash from events where seq = 6"))[0][0])
        )


async def test_a_pruned_session_that_is_resumed_goes_on_under_its_contract(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.playbooks["/home/dev/app"] = "review"
    home.transcript.prompt("do it")
    home.transcript.text("done")
    async with home.open() as running:
        home.write()
        await home.rest(running)
        await running.supervisor.assembly.outbox.sweep()
        contract = await running.rows("select artifact_contract_json, contract_basis from sessions")
        assert len(await running.rows("select 1 from attempts")) == 1
        home.clock.move(100 * DAY)
        await prune(running, DAY)
        assert await tombs(running) == [KEY]
        home.transcript.now = home.clock.wall - 10
        home.transcript.prompt("go on")
        home.transcript.text("done again")
        home.write()
        await home.rest(running)
        assert await running.rows("select artifact_contract_json, contract_basis from sessions") == contract
        assert await running.rows("select attempt, status from sessions") == [(2, "failed")]
        assert await running.rows("select attempt from attempts order by 1") == [(1,), (2,)]
        await running.supervisor.assembly.outbox.sweep()
        home.clock.move(100 * DAY)
        await prune(running, DAY, "again")
        assert await running.rows("select session_key, attempt from tombstones") == [(KEY, 2)]


async def live(running: Daemon, days: int) -> None:
    """Days go by, in each of which the daemon looks for what is old."""
    for _ in range(days):
        running.clock.move(DAY)
        await running.settle()  # pruning waits for what is going on
        await running.supervisor.assembly.pruner.drain()


async def test_retention_prunes_what_is_older_and_never_prunes_nothing(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        assert await running.rows("select finished_at < 1790000000.0 - 100 * 86400 from sessions") == [(1,)]
        running.supervisor.assembly.pruner.keep(400 * DAY)
        for days, retention, kept in ((10, 30, 1), (19, 30, 1), (2, None, 1), (0, 400, 1), (0, 30, 0)):
            running.supervisor.assembly.pruner.keep(None if retention is None else retention * DAY)
            await live(running, days)
            await running.supervisor.assembly.pruner.drain()
            assert len(await sessions(running)) == kept


async def test_a_clock_that_is_far_ahead_at_a_start_prunes_nothing_however_often_it_is_started(
    tmp_path: Path,
) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        running.supervisor.assembly.pruner.keep(365 * DAY)
        await run(tmp_path, running, "kept")
        await live(running, 30)
        assert running.supervisor.assembly.pruner.degraded() == []
    right = clock.wall
    clock.wall += 548 * DAY
    for _ in range(2):
        async with daemon(tmp_path, clock, ToldProcesses()) as running:
            running.supervisor.assembly.pruner.keep(365 * DAY)
            await run(tmp_path, running, f"later-{clock.wall}")
            await live(running, 3)
            assert await tombs(running) == []
            (told,) = running.supervisor.assembly.pruner.degraded()
            assert told.startswith("pruning is paused: the clock is far ahead of 20")
            assert "`runward prune` works meanwhile" in told
    clock.wall = right + 6 * DAY
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        running.supervisor.assembly.pruner.keep(365 * DAY)
        await live(running, 30)
        assert await tombs(running) == []
        assert running.supervisor.assembly.pruner.degraded() == []


async def test_a_clock_that_goes_on_for_a_week_is_believed_and_a_person_at_once(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        running.supervisor.assembly.pruner.keep(60 * DAY)
        await run(tmp_path, running, "one")
        await live(running, 30)
        clock.move(500 * DAY)
        await live(running, 6)
        assert await tombs(running) == []
        await prune(running, 400 * DAY)
        assert await tombs(running) == ["native:runs/one"]
        assert len(running.supervisor.assembly.pruner.degraded()) == 1
        await run(tmp_path, running, "two")
        await live(running, 2)
        assert running.supervisor.assembly.pruner.degraded() == []
        await live(running, 60)
        assert await tombs(running) == ["native:runs/one", "native:runs/two"]


async def test_requests_of_old_go_too(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        for name in ("one", "two"):
            await prune(running, DAY, name)
        clock.move(10 * DAY)
        await prune(running, DAY, "three")
        assert await running.rows("select key from events") == [("three",)]
        assert await running.rows("select count(*) from decisions") == [(1,)]
        assert await running.rows("select count(*) from prunings") == [(1,)]


@pytest.mark.parametrize("age", [0.0, -5.0])
async def test_what_is_of_now_is_not_pruned(tmp_path: Path, age: float) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await run(tmp_path, running, "old")
        await prune(running, age)
        assert await tombs(running) == []
        assert await running.rows("select verdict from decisions where subject = 'prune'") == [("refused",)]


async def test_free_pages_are_given_back_to_the_disk(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        for number in range(40):
            finish(begin(tmp_path, f"run-{number:03d}"))
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        ((before,),) = await running.rows("pragma page_count")
        await prune(running, DAY)
        assert await running.rows("pragma freelist_count") == [(0,)]
        ((after,),) = await running.rows("pragma page_count")
        assert int(str(after)) < int(str(before)) - 40


async def test_a_pruned_sessions_replay_and_summary_go_from_our_own_state_and_its_receipt_stays(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.bundled = lambda _: BundleRules()
    home.transcript.prompt("do it")
    home.transcript.text("done")
    async with home.open() as running:
        home.write()
        native = await run(tmp_path, running, "old")
        await home.rest(running)
        await running.supervisor.assembly.outbox.sweep()
        await running.supervisor.assembly.bundles.drain()
        ((directory,),) = await running.rows(f"select directory from receipts where session_key = '{KEY}'")
        place = running.state / str(directory)
        assert _parts_in(place) == _parts_in(native) == ["PR_SUMMARY.md", "RECEIPT.json", "REPLAY.jsonl"]
        (place / "PR_SUMMARY.md").unlink()  # as where a daemon was killed in the middle of it
        receipts = await running.rows("select * from receipts")
        home.clock.move(100 * DAY)
        await prune(running, DAY)
        assert KEY in await tombs(running)
        assert _parts_in(place) == ["RECEIPT.json"]
        assert (place / "events.jsonl").exists()
        assert len(_parts_in(native)) == 3, "the run directory is the user's"
        assert await running.rows("select * from receipts") == receipts


async def test_a_session_whose_bundle_is_not_in_its_place_yet_is_not_pruned(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.bundled = lambda _: BundleRules()
    home.transcript.prompt("do it")
    home.transcript.text("done")
    async with home.open() as running:
        home.write()
        await home.rest(running)
        await running.supervisor.assembly.outbox.sweep()
        assert await running.rows("select placed_at from receipts") == [(None,)]
        home.clock.move(100 * DAY)
        await prune(running, DAY)
        assert await tombs(running) == []
        await running.supervisor.assembly.bundles.drain()
        await prune(running, DAY, "again")
        assert await tombs(running) == [KEY]


def _parts_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir() if each.name in PARTS)
