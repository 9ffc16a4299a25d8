"""A wait for what is due ends at that moment, also when that is long past or the loop was blocked; a wake-up ends it earlier."""

import time
from datetime import timedelta

import anyio
import time_machine
from tests.waiting import PATIENCE_S

from runward.daemon.engine.part import is_due_first
from runward.daemon.world.clock import SystemClock


async def _waited(due: float | None, woken: anyio.Event) -> bool:
    with anyio.fail_after(PATIENCE_S):
        return await is_due_first(due, woken, SystemClock())


async def test_it_ends_at_the_moment() -> None:
    at = time.time() + 0.05
    assert await _waited(at, anyio.Event())
    assert time.time() >= at - 0.01


async def test_a_moment_that_is_long_past_has_come_at_once() -> None:
    begin = time.monotonic()
    assert await _waited(time.time() - 86_400, anyio.Event())
    assert time.monotonic() - begin < 1.0


async def test_a_loop_that_was_blocked_over_the_moment_still_notices_it() -> None:
    rang = anyio.Event()

    async def wait() -> None:
        assert await _waited(time.time() + 0.05, anyio.Event())
        rang.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.lowlevel.checkpoint()
        time.sleep(0.1)
        with anyio.fail_after(PATIENCE_S):
            await rang.wait()


async def test_a_wake_up_comes_first_and_the_moment_is_measured_anew_by_the_next_wait() -> None:
    with time_machine.travel(time.time(), tick=True) as clock:
        woken, due = anyio.Event(), time.time() + 3600
        async with anyio.create_task_group() as tasks:

            async def step() -> None:
                clock.shift(timedelta(hours=2))
                woken.set()

            tasks.start_soon(step)
            assert not await _waited(due, woken)
        assert await _waited(due, anyio.Event())


async def test_without_a_moment_only_a_wake_up_ends_it() -> None:
    woken, waited = anyio.Event(), []

    async def wait() -> None:
        waited.append(await _waited(None, woken))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.sleep(0.1)
        assert waited == []
        woken.set()
    assert waited == [False]
