"""A restored store had lost the order of a run that had begun: what is ordered again is linked to it, and goes on."""

from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses
from tests.daemon.native_runs import begin, finish
from tests.daemon.parts.test_pruning_chains import fire, settled
from tests.daemon.parts.test_starting import AT, ask, running

from runward.handlers.chains.advancing import run_id
from runward.handlers.requests import run_name

INVOCATIONS = "select status, reason_code from invocations where session_key is not null"
LINKED = "select s.key from sessions s join invocations i on i.id = s.invocation_id and i.session_key = s.key"


NAME = run_name("make", AT, "one")


async def ordered(base: Path, daemon: Daemon) -> None:
    assert ask(base, "one", target="all") == NAME
    daemon.supervisor.assembly.worker.inbox_waits = True
    await daemon.work()


async def noticed(daemon: Daemon) -> None:
    await daemon.supervisor.assembly.starts.look_for_unseen()
    await daemon.settle()


async def ends(daemon: Daemon, directory: Path) -> None:
    finish(directory)
    await daemon.settle()


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_run_that_was_seen_before_its_order_ends_its_invocation(
    tmp_path: Path, is_over: bool
) -> None:
    async with running(tmp_path, ToldProcesses()) as daemon:
        directory = begin(tmp_path, NAME)
        await daemon.settle()
        if is_over:
            await ends(daemon, directory)
        await ordered(tmp_path, daemon)
        await noticed(daemon)
        if not is_over:
            assert await daemon.rows(INVOCATIONS) == [("running", None)]
            await ends(daemon, directory)
        assert await daemon.rows(INVOCATIONS) == [("completed", "run.completed.ok")]
        assert await daemon.rows(LINKED) == [(f"native:runs/{NAME}",)]


async def test_a_successor_notices_what_a_killed_daemon_did_not(tmp_path: Path) -> None:
    async with running(tmp_path, ToldProcesses()) as daemon:
        await ends(daemon, begin(tmp_path, NAME))
        await ordered(tmp_path, daemon)
        assert await daemon.rows(INVOCATIONS) == [("running", None)]
    async with running(tmp_path, ToldProcesses()) as daemon:
        await daemon.supervisor.assembly.starts.begin()
        await noticed(daemon)
        assert await daemon.rows(INVOCATIONS) == [("completed", "run.completed.ok")]


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_step_that_was_seen_before_its_order_ends_and_its_chain_continues(
    tmp_path: Path, is_over: bool
) -> None:
    async with settled(tmp_path, StillClock(), ToldProcesses()) as daemon:
        run = run_id("two@go")
        first = begin(tmp_path, f"{run}-0-1")
        await daemon.settle()
        if is_over:
            await ends(daemon, first)
        await fire(daemon)
        await noticed(daemon)
        if not is_over:
            await ends(daemon, first)
        steps = "select step, status from chain_steps order by step"
        assert await daemon.rows(steps) == [(0, "completed"), (1, "running")]
        second = begin(tmp_path, f"{run}-1-1")
        await daemon.settle()
        await ends(daemon, second)
        await noticed(daemon)
        assert await daemon.rows("select status from chain_runs") == [("completed",)]
        assert await daemon.rows("select distinct status from invocations") == [("completed",)]
        assert len(await daemon.rows("select 1 from events where type = 'StartedEarlier'")) == 1


@pytest.mark.parametrize("left", [0, 10, -3])
async def test_a_run_whose_record_was_overwritten_before_anyone_saw_it_has_failed(
    tmp_path: Path, left: int
) -> None:
    async with running(tmp_path, ToldProcesses()) as daemon:
        record = begin(tmp_path, NAME) / "run.json"
        record.write_bytes(record.read_bytes()[:left])
        await ordered(tmp_path, daemon)
        await noticed(daemon)
        assert await daemon.rows("select status from invocations") == [("failed",)]
        assert await daemon.rows(LINKED) == []
