"""Ends of real processes, told by the kernel."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from runward.daemon.processes.proc import current_boot_id, read_stat
from runward.daemon.watch import keeping
from runward.daemon.watch.hints import Hints, Target, Why
from runward.daemon.watch.keeping import Exits
from runward.daemon.world.starting import StartingProcesses
from runward.handlers.model.processes import RecordedProcess

PLACE: Target = ("runs", "a")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def recorded(process: subprocess.Popen[bytes]) -> RecordedProcess:
    return RecordedProcess(process.pid, read_stat(process.pid).start_ticks, current_boot_id())


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def come_to(count: int) -> int:
    """How many files are open, once it is so many, or after a while."""
    with anyio.move_on_after(10):
        while open_files() != count:
            await anyio.sleep(0.01)
    return open_files()


class Waiting:
    """An `Exits` whose hints can be waited for."""

    def __init__(self) -> None:
        self.woken = anyio.Event()
        self.hints = Hints(lambda: self.woken.set())
        self.exits = Exits(StartingProcesses(Path("/nowhere")), self.hints)

    async def hinted(self) -> bool:
        with anyio.move_on_after(10):
            await self.woken.wait()
        return self.hints.take(1) == [(PLACE, Why.PROCESS)]


async def test_the_end_of_a_running_sessions_process_is_hinted_at_at_once(
    sleeper: subprocess.Popen[bytes],
) -> None:
    waiting = Waiting()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.exits.run)
        await anyio.wait_all_tasks_blocked()
        waiting.exits.watch(PLACE, (recorded(sleeper),))
        waiting.exits.watch(PLACE, (recorded(sleeper),))
        await anyio.wait_all_tasks_blocked()
        assert len(waiting.hints) == 0
        sleeper.kill()
        assert await waiting.hinted()
        tasks.cancel_scope.cancel()


async def test_nothing_is_held_of_a_session_that_is_over_or_changed_its_process(
    sleeper: subprocess.Popen[bytes],
) -> None:
    gc.collect()  # so that nobody closes meanwhile what other tests left open
    waiting, before = Waiting(), open_files()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.exits.run)
        await anyio.wait_all_tasks_blocked()
        ready = open_files()
        for processes in ((recorded(sleeper),), (), (recorded(sleeper),)):
            waiting.exits.watch(PLACE, processes)
            await anyio.wait_all_tasks_blocked()
        assert await come_to(ready + 1) == ready + 1
        waiting.exits.forget(PLACE)
        assert await come_to(ready) == ready
        waiting.exits.watch(PLACE, (recorded(sleeper),))
        tasks.cancel_scope.cancel()
    assert open_files() == before
    assert len(waiting.hints) == 0


async def test_a_number_that_is_another_process_by_now_is_not_waited_for(
    sleeper: subprocess.Popen[bytes],
) -> None:
    there = recorded(sleeper)
    assert (
        StartingProcesses(Path("/nowhere")).descriptor(there._replace(start_ticks=there.start_ticks - 1))
        is None
    )
    assert StartingProcesses(Path("/nowhere")).descriptor(there._replace(boot_id="another")) is None
    assert StartingProcesses(Path("/nowhere")).descriptor(there._replace(pid=-1)) is None


async def test_no_more_processes_are_waited_for_than_there_are_descriptors_to_spare(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "MOST", 1)
    waiting = Waiting()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.exits.run)
        await anyio.wait_all_tasks_blocked()
        ready = open_files()
        for name in ("a", "b", "c"):
            waiting.exits.watch(("runs", name), (recorded(sleeper),))
        await anyio.wait_all_tasks_blocked()
        assert open_files() == ready + 1
        tasks.cancel_scope.cancel()


async def test_the_end_of_one_of_two_processes_is_hinted_at_and_the_other_is_still_awaited(
    sleeper: subprocess.Popen[bytes],
) -> None:
    waiting = Waiting()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waiting.exits.run)
            await anyio.wait_all_tasks_blocked()
            waiting.exits.watch(PLACE, (recorded(sleeper), recorded(other)))
            sleeper.kill()
            assert await waiting.hinted()
            waiting.woken = anyio.Event()
            other.kill()
            assert await waiting.hinted()
            tasks.cancel_scope.cancel()


async def test_a_session_that_is_forgotten_leaves_nothing_to_collect(
    sleeper: subprocess.Popen[bytes],
) -> None:
    waiting = Waiting()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.exits.run)
        await anyio.wait_all_tasks_blocked()
        gc.collect()
        gc.disable()
        try:
            for _ in range(100):
                waiting.exits.watch(PLACE, (recorded(sleeper),))
                await anyio.wait_all_tasks_blocked()
                waiting.exits.forget(PLACE)
                await anyio.wait_all_tasks_blocked()
            left = gc.collect()
        finally:
            gc.enable()
        assert left < 100, "each launched run would leave a cycle of objects, and room between them"
        tasks.cancel_scope.cancel()
