"""Runs that are ordered begin after the commit, each once; what is refused is tried again, and shown."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.config.json_value import JsonValue
from runward.config.playbook import read_playbook
from runward.daemon.disk.epoch import EpochPassed
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.store.transaction import Statement
from runward.daemon.world.processes import Announced, Begun, NotBegun
from runward.handlers.model.invocations import Play, StartRun
from runward.handlers.model.requests import PlayRunRequested
from runward.handlers.requests import run_name

AT = 1_789_999_999.0
ROWS = "select key, state, why from starts order by key"


def playable(root: Path) -> Play:
    read = read_playbook('command: [make, "{{ with.target }}"]\n', "make.playbook.yaml").value
    return Play(read, None, None, "runs", str(root))


@asynccontextmanager
async def running(
    base: Path, processes: ToldProcesses, clock: StillClock | None = None
) -> AsyncIterator[Daemon]:
    """A daemon with one playbook, `make`; every other name is missing."""

    def find(name: str) -> Play:
        return (
            playable(base / "runs")
            if name == "make"
            else Play(None, problem=f"there is no playbook {name!r}")
        )

    async with daemon(base, clock or StillClock(), processes, playable=find) as served:
        yield served


def ask(base: Path, request: str, playbook: str = "make", **given: JsonValue) -> str:
    """Put a request; the name of the run that it will be."""
    put(base / "state", request, dump_request(PlayRunRequested(request, AT, playbook, given, "/work")))
    return run_name(playbook, AT, request)


async def test_a_request_is_started_once_and_known_as_begun(tmp_path: Path) -> None:
    processes = ToldProcesses()
    async with running(tmp_path, processes) as served:
        name = ask(tmp_path, "one", target="all")
        await served.settle()
        (order,) = processes.started
        assert (order.key, order.name, order.command) == ("one", name, ("make", "all"))
        assert await served.rows(ROWS) == [("one", "begun", None)]
        served.supervisor.assembly.starts.wake()
        await served.work()
        assert len(processes.started) == 1
        assert list((tmp_path / "state/inbox").iterdir()) == []


async def test_a_request_that_is_put_again_starts_nothing_more(tmp_path: Path) -> None:
    processes = ToldProcesses()
    async with running(tmp_path, processes) as served:
        for _ in range(2):
            ask(tmp_path, "one", target="all")
            await served.settle()
            served.supervisor.assembly.worker.inbox_waits = True
        await served.settle()
    assert len(processes.started) == 1


async def test_a_refused_request_starts_nothing_and_says_why(tmp_path: Path) -> None:
    processes = ToldProcesses()
    async with running(tmp_path, processes) as served:
        name = ask(tmp_path, "one", "mkae")
        other = ask(tmp_path, "two")
        await served.settle()
        assert processes.started == []
        assert await served.rows(ROWS) == []
        rows = await served.rows("select subject, verdict, summary from decisions order by subject")
        assert {str(row[0]) for row in rows} == {f"start {name}", f"start {other}"}
        assert [row[1] for row in rows] == ["refused", "refused"]
        assert any("there is no playbook 'mkae'" in str(row[2]) for row in rows)
        assert any("with.target is not given" in str(row[2]) for row in rows)


async def test_what_the_machine_refuses_is_tried_again_with_backoff_and_shown(tmp_path: Path) -> None:
    processes, clock = ToldProcesses(refuse={"one": NotBegun("its root is missing")}), StillClock()
    async with running(tmp_path, processes, clock) as served:
        ask(tmp_path, "one", target="all")
        await served.settle()
        assert await served.rows(ROWS) == [("one", "owed", None)]
        assert served.supervisor.assembly.starts.next_try() == 1.0
        waits = []
        for _ in range(8):
            wait = served.supervisor.assembly.starts.next_try()
            assert wait is not None
            waits.append(wait)
            clock.move(wait)
            await served.work()
        assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
        assert len(processes.started) == 9
        assert served.supervisor.report().degraded == ["start one: its root is missing"]
        processes.refuse.clear()
        clock.move(30.0)
        await served.work()
        assert await served.rows(ROWS) == [("one", "begun", None)]
        assert served.supervisor.report().degraded == []
        assert served.supervisor.assembly.starts.next_try() is None


async def test_one_that_can_not_begin_yet_holds_nobody_else_up(tmp_path: Path) -> None:
    processes = ToldProcesses(refuse={"one": NotBegun("its root is missing")})
    async with running(tmp_path, processes) as served:
        for request in ("one", "two", "three", "four", "five", "six"):
            ask(tmp_path, request, target="all")
        await served.settle()
        states = {str(key): str(state) for key, state, _ in await served.rows(ROWS)}
        assert states.pop("one") == "owed"
        assert set(states.values()) == {"begun"}


async def test_one_that_never_can_begin_is_given_up_with_the_reason(tmp_path: Path) -> None:
    processes = ToldProcesses(refuse={"one": NotBegun("it already contains a run", for_good=True)})
    async with running(tmp_path, processes) as served:
        ask(tmp_path, "one", target="all")
        await served.settle()
        assert await served.rows(ROWS) == [("one", "failed", "it already contains a run")]
        assert served.supervisor.assembly.starts.next_try() is None
    assert len(processes.started) == 1


async def test_what_an_earlier_daemon_owed_is_started_by_its_successor(tmp_path: Path) -> None:
    first = ToldProcesses(refuse={"one": NotBegun("busy")})
    async with running(tmp_path, first) as served:
        ask(tmp_path, "one", target="all")
        await served.settle()
    second = ToldProcesses()
    async with running(tmp_path, second) as served:
        await served.work()
        assert await served.rows(ROWS) == [("one", "begun", None)]
    assert second.started == first.started


class EndedEpoch(ToldProcesses):
    """Processes of a daemon that was taken over meanwhile."""

    def start(self, order: StartRun, epoch: int) -> Begun | NotBegun:
        raise EpochPassed("another daemon took over the state directory")


async def test_a_daemon_that_was_taken_over_ends(tmp_path: Path) -> None:
    async with running(tmp_path, EndedEpoch()) as served:
        ask(tmp_path, "one", target="all")
        with pytest.raises(BaseExceptionGroup) as ended:
            await served.settle()
        assert ended.group_contains(EpochPassed)


async def test_the_database_itself_refuses_to_start_a_run_a_second_time(tmp_path: Path) -> None:
    async with running(tmp_path, ToldProcesses()) as served:
        ask(tmp_path, "one", target="all")
        await served.settle()
        for sql in (
            "update starts set state = 'owed', ended_at = null where key = ?",
            "update starts set why = 'x', session_key = 'x' where key = ?",
            "update starts set state = 'failed', why = 'x' where key = ?",
            "insert into starts select * from starts where key = ?",
        ):
            with pytest.raises(Exception, match=r"a run is started once|UNIQUE constraint"):
                await served.store.run([Statement(sql, [("one",)])], "cheat")


async def test_the_daemon_looks_at_once_where_a_run_began(tmp_path: Path) -> None:
    class Beginning(ToldProcesses):
        def start(self, order: StartRun, epoch: int) -> Begun | Announced | NotBegun:
            directory = Path(order.root) / order.name
            directory.mkdir()
            (directory / "run.json").write_text(json.dumps({"schema": "runward-run-v1"}))
            return super().start(order, epoch)

    async with running(tmp_path, Beginning()) as served:
        name = ask(tmp_path, "one", target="all")
        await served.settle()
        await served.work()
        assert await served.rows("select key, status from sessions") == [(f"native:runs/{name}", "running")]
