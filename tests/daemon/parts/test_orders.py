"""Orders to end runs, from the inbox to the process that is told: once owed they are carried out, over any end of a daemon."""

import json
import sqlite3
from pathlib import Path
from typing import NoReturn

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.parts.runs import CancelOrders
from runward.daemon.processes.cancelling import WORD
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered
from runward.daemon.store.tables.cancellations import OwedCancellation
from runward.handlers.model.processes import RunPlace
from runward.handlers.model.requests import SessionCancelRequested
from runward.handlers.model.sessions import RunProcesses

KEY = "native:runs/a"
LAUNCHER = {"pid": 100, "start_ticks": 7, "boot_id": "this"}


def begin(base: Path, **said: object) -> Path:
    directory = base / "runs" / "a"
    directory.mkdir(parents=True)
    run = {"schema": "runward-run-v1", "launcher": LAUNCHER, "host": "here", **said}
    (directory / "run.json").write_text(json.dumps(run))
    return directory


async def ask(running: Daemon, attempt: int = 1, name: str = "cancel-it", work: bool = True) -> None:
    put(running.state, name, dump_request(SessionCancelRequested(name, 1.0, KEY, attempt, "wrong branch")))
    running.supervisor.assembly.worker.inbox_waits = True
    if work:
        await running.work()


async def row(running: Daemon) -> tuple[object, ...]:
    (found,) = await running.rows("select told, outcome, carried_out_at is not null from cancellations")
    return found


async def refusal(running: Daemon) -> str:
    (found,) = await running.rows("select summary from decisions where verdict = 'refused'")
    return str(found[0])


async def test_the_launcher_is_told_and_finds_the_word(tmp_path: Path) -> None:
    processes = ToldProcesses()
    async with daemon(tmp_path, StillClock(), processes) as running:
        directory = begin(tmp_path)
        await running.settle()
        await ask(running)
        assert processes.told == [100]
        assert await row(running) == (1, "process 100 was told", 1)
        said = json.loads((directory / WORD).read_text())
        assert said["reason"] == "wrong branch"
        assert said["said_by"]


async def test_a_run_that_went_silently_after_it_was_told_was_cancelled(tmp_path: Path) -> None:
    processes, clock = ToldProcesses(), StillClock()
    async with daemon(tmp_path, clock, processes) as running:
        begin(tmp_path)
        await running.settle()
        await ask(running)
        processes.gone.add(100)
        await running.settle()
        clock.move(6)
        await running.settle()
        found = await running.rows("select status, reason_code, ended_by, reason_summary from sessions")
        status, code, evidence, summary = found[0]
        assert (status, code, evidence) == ("cancelled", "run.cancelled.user", "process_gone")
        assert str(summary).endswith(": wrong branch")


async def test_a_run_that_was_gone_before_anybody_was_told_was_not_cancelled(tmp_path: Path) -> None:
    processes, clock = ToldProcesses(gone={100}), StillClock()
    async with daemon(tmp_path, clock, processes) as running:
        begin(tmp_path)
        await running.settle()
        await ask(running)
        assert await row(running) == (0, "all are gone", 1)
        clock.move(6)
        await running.settle()
        assert await running.rows("select reason_code from sessions") == [("run.aborted.process_gone",)]


async def test_what_is_owed_when_a_daemon_ends_is_carried_out_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(self: CancelOrders) -> None:
        """The daemon is killed right after its commit."""

    processes = ToldProcesses()
    with monkeypatch.context() as ending:
        ending.setattr(CancelOrders, "carry_out", end)
        async with daemon(tmp_path, StillClock(), processes) as running:
            begin(tmp_path)
            await running.settle()
            await ask(running)
            assert await row(running) == (None, None, 0)
    assert processes.told == []
    async with daemon(tmp_path, StillClock(), processes) as running:
        await running.work()
        assert processes.told == [100]
        assert await row(running) == (1, "process 100 was told", 1)
        await running.work()
        assert processes.told == [100], "and not again"


async def told_by_one_that_was_killed(
    base: Path, processes: ToldProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run, and a daemon that is killed right after it told the run's launcher to end."""

    async def end(self: CancelOrders, owed: OwedCancellation, answer: EndOrdered | EndNotOrdered) -> None:
        """It doesn't come to mark that."""

    with monkeypatch.context() as ending:
        ending.setattr(CancelOrders, "_mark", end)
        async with daemon(base, StillClock(), processes) as running:
            begin(base)
            await running.settle()
            await ask(running)


async def test_a_run_that_a_killed_daemon_may_have_told_and_that_is_gone_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes, clock = ToldProcesses(), StillClock()
    await told_by_one_that_was_killed(tmp_path, processes, monkeypatch)
    assert processes.told == [100]
    processes.gone.add(100)
    async with daemon(tmp_path, clock, processes) as running:
        await running.settle()
        assert await row(running) == (
            None,
            "all are gone; a killed daemon may already have asked it to end",
            1,
        )
        clock.move(6)
        await running.settle()
        assert await running.rows("select reason_code from sessions") == [("run.cancelled.user",)]


async def test_whether_a_killed_daemon_told_a_run_whose_directory_is_gone_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = ToldProcesses()
    await told_by_one_that_was_killed(tmp_path, processes, monkeypatch)
    (tmp_path / "runs" / "a").rename(tmp_path / "away")
    async with daemon(tmp_path, StillClock(), processes) as running:
        await running.work()
        assert await row(running) == (
            None,
            "its directory is gone; a killed daemon may already have asked it to end",
            1,
        )


async def test_an_order_that_can_not_be_marked_is_marked_later_and_not_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*unused: object, **unheeded: object) -> NoReturn:
        raise sqlite3.OperationalError("database is locked")

    processes, clock = ToldProcesses(), StillClock()
    async with daemon(tmp_path, clock, processes) as running:
        begin(tmp_path)
        await running.settle()
        await ask(running, work=False)
        with monkeypatch.context() as trouble:
            trouble.setattr(CancelOrders, "_mark", refuse)
            await running.work()
            assert running.supervisor.report().degraded == ["orders to cancel: database is locked"]
        processes.gone.add(100)
        await running.settle()
        clock.move(6)
        await running.settle()
        assert processes.told == [100]
        assert await row(running) == (1, "process 100 was told", 1)
        assert await running.rows("select reason_code from sessions") == [("run.cancelled.user",)]


async def test_while_an_order_is_owed_nothing_is_said_of_a_run_that_went_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(processes: RunProcesses, place: RunPlace) -> NoReturn:
        raise OSError(24, "Too many open files")

    processes, clock = ToldProcesses(), StillClock()
    async with daemon(tmp_path, clock, processes) as running:
        begin(tmp_path)
        await running.settle()
        with monkeypatch.context() as trouble:
            trouble.setattr(processes, "tell_to_end", refuse)
            await ask(running)
            processes.gone.add(100)
            await running.settle()
            clock.move(6)
            await running.settle()
            assert await running.rows("select status from sessions") == [("running",)]
        await running.work()
        assert await row(running) == (0, "all are gone", 1)
        clock.move(60)
        running.supervisor.assembly.queue.may_be_due = True
        await running.work()
        assert await running.rows("select reason_code from sessions") == [("run.aborted.process_gone",)]


async def test_a_directory_that_can_not_be_read_delays_the_order_and_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(processes: RunProcesses, place: RunPlace) -> NoReturn:
        raise OSError(24, "Too many open files")

    processes = ToldProcesses()
    async with daemon(tmp_path, StillClock(), processes) as running:
        begin(tmp_path)
        await running.settle()
        with monkeypatch.context() as trouble:
            trouble.setattr(processes, "tell_to_end", refuse)
            await ask(running)
            assert await row(running) == (None, None, 0)
            assert running.supervisor.report().degraded == [f"cancelling {KEY}: Too many open files"]
        await running.work()
        assert await row(running) == (1, "process 100 was told", 1)
        assert running.supervisor.report().degraded == []


async def test_a_run_on_another_host_can_not_be_told(tmp_path: Path) -> None:
    processes = ToldProcesses()
    async with daemon(tmp_path, StillClock(), processes) as running:
        begin(tmp_path, host="elsewhere")
        await running.settle()
        await ask(running)
        assert await row(running) == (0, "its processes run on elsewhere", 1)
        assert processes.told == []


async def test_a_directory_that_is_gone_leaves_nobody_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = ToldProcesses()
    async with daemon(tmp_path, StillClock(), processes) as running:
        directory = begin(tmp_path)
        await running.settle()
        directory.rename(tmp_path / "moved")
        await ask(running)
        assert await row(running) == (0, "its directory is gone", 1)


async def test_requests_that_mean_nothing_now_are_refused_with_the_reason(tmp_path: Path) -> None:
    processes = ToldProcesses()
    async with daemon(tmp_path, StillClock(), processes) as running:
        directory = begin(tmp_path)
        await running.settle()
        (directory / "exit.json").write_text('{"exit_code": 0}')
        await running.settle()
        await ask(running)
        assert (await refusal(running)).endswith("wrong branch: it is already completed")
        assert processes.told == []
        assert await running.rows("select * from cancellations") == []


async def test_a_run_that_names_no_process_is_refused(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        begin(tmp_path, launcher=None)
        await running.settle()
        await ask(running)
        for _ in range(4):
            clock.move(5)
            running.supervisor.assembly.worker.queue.may_be_due = True
            await running.work()
        assert (await refusal(running)).endswith("its files name no process that could be asked to end")


async def test_the_same_request_met_twice_is_one_order(tmp_path: Path) -> None:
    processes = ToldProcesses()
    async with daemon(tmp_path, StillClock(), processes) as running:
        begin(tmp_path)
        await running.settle()
        await ask(running)
        await ask(running)
        assert processes.told == [100]


async def test_a_process_that_is_written_down_later_is_told_where_no_launcher_is_named(
    tmp_path: Path,
) -> None:
    processes = ToldProcesses()
    async with daemon(tmp_path, StillClock(), processes) as running:
        directory = begin(tmp_path, launcher=None)
        (directory / "process.json").write_text(json.dumps({**LAUNCHER, "pid": 200}))
        await running.settle()
        await ask(running)
        assert processes.told == [200]
