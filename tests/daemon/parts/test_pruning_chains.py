"""Chain runs and the record of old sessions: a run that is not over keeps its sessions, and goes after them."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish
from tests.daemon.parts.test_packing import pack
from tests.daemon.parts.test_pruning import DAY, end_of_chain, prune, sessions, tombs

from runward.config.chain import Chain, read_chain
from runward.config.playbook import Playbook
from runward.config.step import Callables
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.parts.answering import NoChains
from runward.daemon.store.hash_chain import Head
from runward.daemon.store.transaction import Statement
from runward.handlers.model.chains import EventOccurred
from runward.handlers.model.invocations import Play

TEXT = """\
name: two
trigger: {event: asked}
steps:
  - {id: first, skill: work}
  - {id: second, skill: work}
"""
OF_CHAIN_RUNS = ("chain_runs", "chain_steps", "invocations", "firings", "approvals", "artifacts", "starts")


class OneChain(NoChains):
    """A place with one chain, of two steps."""

    def listening(self, event: str) -> tuple[Chain, ...]:
        chain = read_chain(TEXT, "two.yaml", Callables(("work",))).value
        assert chain is not None
        return (chain,) if event == "asked" else ()

    def chain(self, name: str) -> Chain | str:
        return self.listening("asked")[0]


def settled(base: Path, clock: StillClock, processes: ToldProcesses) -> AbstractAsyncContextManager[Daemon]:
    def playable(name: str) -> Play:
        return Play(Playbook(name, ("work",)), root_name="runs", root_path=str(base / "runs"))

    return daemon(base, clock, processes, playable=playable, chains=OneChain())


async def fire(running: Daemon, name: str = "go") -> None:
    put(running.state, name, dump_request(EventOccurred(name, running.clock.now(), "asked", name, {})))
    running.supervisor.assembly.worker.inbox_waits = True
    await running.work()


async def step(base: Path, running: Daemon, number: int) -> None:
    """The run of this step begins and ends."""
    directory = begin(base, running.processes.started[number].name)
    await running.settle()
    finish(directory)
    await running.settle()
    await running.supervisor.assembly.outbox.sweep()


async def test_a_chain_run_keeps_its_sessions_until_it_is_over_and_goes_once_they_are_gone(
    tmp_path: Path,
) -> None:
    clock = StillClock()
    async with settled(tmp_path, clock, ToldProcesses()) as running:
        await fire(running)
        await step(tmp_path, running, 0)
        clock.move(10 * DAY)
        await prune(running, DAY, "early")
        await running.supervisor.assembly.packer.drain()
        assert await sessions(running) == [running.processes.started[0].session]
        assert await tombs(running) == []
        assert await running.rows("select count(*) from packed") == [(0,)]
        await step(tmp_path, running, 1)
        assert await running.rows("select status from chain_runs") == [("completed",)]
        clock.move(1.5 * DAY)
        await prune(running, 2 * DAY, "between")
        assert len(await tombs(running)) == 2, "the sessions say themselves that they ended long ago"
        assert await running.rows("select count(*) from invocations") == [(3,)]
        assert await running.rows("select count(*) from events where type = 'ChainFired'") == [(1,)]
        clock.move(10 * DAY)
        await prune(running, DAY, "late")
        for table in OF_CHAIN_RUNS:
            assert await running.rows(f"select * from {table}") == [], table
        await prune(running, DAY, "again")
        assert await running.rows("select type from events where type <> 'PruneRequested'") == []
        assert isinstance(await end_of_chain(running), Head)


async def test_a_chain_run_whose_step_was_never_seen_goes_too(tmp_path: Path) -> None:
    clock = StillClock()
    async with settled(tmp_path, clock, ToldProcesses()) as running:
        await fire(running)
        (order,) = running.processes.started
        running.supervisor.assembly.worker.findings.clear()
        await running.supervisor.assembly.starts.look_for_unseen()
        await running.work()
        assert await running.rows("select status from invocations order by skill") == [
            ("failed",),
            ("failed",),
        ], order
        clock.move(10 * DAY)
        await prune(running, DAY)
        for table in OF_CHAIN_RUNS:
            assert await running.rows(f"select * from {table}") == [], table


async def test_sessions_of_a_chain_run_that_is_over_are_packed(tmp_path: Path) -> None:
    clock = StillClock()
    async with settled(tmp_path, clock, ToldProcesses()) as running:
        await fire(running)
        await step(tmp_path, running, 0)
        await step(tmp_path, running, 1)
        assert await pack(running) == 2
        assert isinstance(await end_of_chain(running), Head)


async def test_skips_of_old_go(tmp_path: Path) -> None:
    clock = StillClock()
    async with settled(tmp_path, clock, ToldProcesses()) as running:
        await running.store.run(
            [
                Statement(
                    "insert into firings (chain, at, fired_by, event, result, why) values (?, ?, '', 'asked',"
                    " 'firing.skipped.paused', '')",
                    [("old", clock.now() - 9 * DAY), ("new", clock.now())],
                )
            ],
            "test",
        )
        await prune(running, DAY)
        assert await running.rows("select chain from firings") == [("new",)]
