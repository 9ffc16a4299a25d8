"""The simulation's own clockwork: time jumps, processes take turns, and what hangs is found."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from tests.simulation.virtual_time import GoingInCircles, NothingLeft, Process, Timeline

Body = Callable[[], Coroutine[Any, Any, None]]


def start(timeline: Timeline, name: str, body: Body, ended: Callable[[], None] = lambda: None) -> Process:
    process = Process(timeline, name)
    process.start(body, ended)
    return process


def test_a_month_passes_at_once() -> None:
    timeline = Timeline()
    began = timeline.time

    async def body() -> None:
        await anyio.sleep(30 * 86_400)

    start(timeline, "sleeper", body, timeline.finish)
    timeline.run()
    assert timeline.time == began + 30 * 86_400


def test_two_processes_take_turns_in_the_order_of_their_timers() -> None:
    timeline, order = Timeline(), list[str]()

    def ticking(name: str, first: float) -> Body:
        async def body() -> None:
            await anyio.sleep(first)
            for _ in range(3):
                order.append(name)
                await anyio.sleep(2)

        return body

    start(timeline, "a", ticking("a", 0))
    start(timeline, "b", ticking("b", 1))
    timeline.after(100, timeline.finish)
    timeline.run()
    assert order == ["a", "b", "a", "b", "a", "b"]


def test_a_frozen_process_stands_in_the_middle_of_a_function_while_the_others_go_on() -> None:
    timeline, seen = Timeline(), list[tuple[str, float]]()
    began = timeline.time

    async def frozen() -> None:
        seen.append(("before", timeline.time - began))
        first.freeze(timeline.time + 10)
        seen.append(("after", timeline.time - began))

    async def other() -> None:
        await anyio.sleep(5)
        seen.append(("other", timeline.time - began))

    first = start(timeline, "frozen", frozen)
    start(timeline, "other", other)
    timeline.after(20, timeline.finish)
    timeline.run()
    assert seen == [("before", 0), ("other", 5), ("after", 10)]


def test_a_killed_process_runs_no_further() -> None:
    timeline, seen = Timeline(), list[int]()

    async def body() -> None:
        for number in range(100):
            seen.append(number)
            await anyio.sleep(1)

    process = start(timeline, "killed", body)
    timeline.after(4.5, process.kill)
    timeline.after(20, timeline.finish)
    timeline.run()
    assert seen == [0, 1, 2, 3, 4]
    assert process.over


def test_a_lost_wake_up_is_found() -> None:
    timeline = Timeline()
    start(timeline, "waiter", anyio.Event().wait)
    with pytest.raises(NothingLeft):
        timeline.run()


def test_a_loop_that_never_waits_is_found() -> None:
    timeline = Timeline()

    async def body() -> None:
        while True:
            await anyio.sleep(0)

    start(timeline, "spinner", body)
    with pytest.raises(GoingInCircles):
        timeline.run()


def test_what_goes_wrong_in_the_world_ends_the_history() -> None:
    timeline = Timeline()
    start(timeline, "sleeper", anyio.sleep_forever)

    def fail() -> None:
        raise ValueError("the world ends")

    timeline.after(1, fail)
    with pytest.raises(ValueError, match="the world ends"):
        timeline.run()
