"""What is pruned of the exchange: the intents of old sessions go with them, and what came of them stays."""

import json
from pathlib import Path

from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import finish
from tests.daemon.parts.test_exchange import append, begin, read, settle, told, write
from tests.daemon.parts.test_pruning import DAY, end_of_chain, prune, sessions, tombs

from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.store.hash_chain import Head
from runward.handlers.model.exchange import ActionRequested

ASKED = "select key from events where type in ('IntentMade', 'ActionRequested') order by seq"
WEEK = 7 * DAY


async def work(running: Daemon) -> None:
    for _ in range(3):
        await settle(running)


async def test_the_intents_of_an_old_run_go_with_it_and_none_is_carried_out_again(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"), read("note"))
        await work(running)
        put(
            running.state, "r1", dump_request(ActionRequested("r1", 1.0, "writer", '{"action_type": "noop"}'))
        )
        running.supervisor.assembly.worker.inbox_waits = True
        finish(run)
        await work(running)
        kept = "select key, seq, result from actions order by seq"
        actions = await running.rows(kept)
        assert len(actions) == len(await running.rows(ASKED)) == 3
        running.clock.move(WEEK)
        await prune(running, DAY)
        assert (await tombs(running), await running.rows(ASKED)) == (["native:runs/run"], [])
        assert await running.rows(kept) == actions, "what came of them stays"
        assert isinstance(await end_of_chain(running), Head)
        (run / "exit.json").unlink()
        again = {"schema": "runward-run-v1", "started_at": "2026-02-04T04:05:06Z", "agent": "writer"}
        (run / "run.json").write_text(json.dumps(again))
        append(run, write("note", "again"))
        await work(running)
        assert await running.rows("select attempt, status from sessions") == [(2, "running")]
        assert told(run) == [(1, True), (2, True), (3, True)], "it goes on after what it had read"
        assert await running.rows("select version from shared_artifacts where id = 'note'") == [(2,)]
        assert await running.rows("select lane, error from jobs where state <> 'done'") == []


async def test_the_intents_of_a_run_stay_as_long_as_its_session(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"))
        await work(running)
        running.clock.move(WEEK)
        await prune(running, DAY)
        assert await running.rows(ASKED) == [("native:runs/run#intent/1",)], "its replay will tell them"
        finish(run)
        await work(running)
        await prune(running, DAY, "once more")
        assert (await sessions(running), await running.rows(ASKED)) == ([], [])
