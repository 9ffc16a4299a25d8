"""Timers ring when their time has passed, whatever the wall clock does; schedules go by the wall clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.daemon.engine.test_queue import Desk, Tokens, done, start
from tests.daemon.in_process import SILENT, StillClock
from tests.daemon.store.uncertain import Uncertain

from runward.daemon.engine.queue import Queue, StoreTrouble
from runward.daemon.parts.notices import FIRST_PAUSE, Notices
from runward.daemon.store.batch import JobResult, put_back
from runward.daemon.store.connection import connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.tables.notices import INSERT, PendingNotice, inserted
from runward.daemon.store.transaction import Statement
from runward.handlers.model.effects import Emit
from runward.handlers.model.notices import SendNotice
from runward.handlers.model.schedules import TimerSet

HOUR = 3600.0
STEPS = [HOUR, -HOUR, 86_400.0, -86_400.0, 0.4, -0.4]
WAIT = 60.0


@asynccontextmanager
async def desk_of(path: Path, clock: StillClock, boot: str = "first") -> AsyncIterator[Desk]:
    """A queue as a daemon has it that starts in this boot."""
    migrate(path)
    connection = Uncertain(await connect(path))
    store = Store(connection)
    await store.take_over(boot)
    queue = Queue(store, clock, Tokens(count(1)))
    await queue.start()
    desk = Desk(path, clock, connection, store, queue)
    await due(desk)
    yield desk
    await store.close()


async def due(desk: Desk) -> list[str]:
    """The lanes of the jobs that are due now."""
    desk.queue.may_be_due = True
    return [job.lane for job in await desk.queue.due(10)]


def timer(clock: StillClock, subject: str = "cr_1", what: str = "deadline") -> TimerSet:
    return TimerSet(subject, what, clock.now(), clock.now() + WAIT)


async def rings_after(desk: Desk, seconds: float) -> None:
    """Checks that the timer is due after so many seconds, and not before."""
    assert await due(desk) == []
    desk.clock.move(seconds - 1.0)
    assert await due(desk) == []
    desk.clock.move(1.5)
    assert await due(desk) == ["timer:cr_1/deadline"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_timer_rings_in_time_though_the_clock_is_stepped(tmp_path: Path, step: float) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        await desk.put(timer(clock))
        clock.move(20.0)
        clock.wall += step
        await rings_after(desk, WAIT - 20.0)


@pytest.mark.parametrize("step", STEPS)
async def test_a_timer_rings_in_time_though_the_clock_is_stepped_while_no_daemon_runs(
    tmp_path: Path, step: float
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        await desk.put(timer(clock))
    clock.move(20.0)
    clock.wall += step
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        await rings_after(desk, WAIT - 20.0)


async def test_a_clock_that_says_less_after_a_reboot_delays_a_timer_no_longer_than_it_waited_for(
    tmp_path: Path,
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        await desk.put(timer(clock))
    clock.wall, clock.since_boot = clock.wall - HOUR, 5.0
    async with desk_of(tmp_path / "runward.db", clock, "second") as desk:
        await rings_after(desk, WAIT)


async def test_a_clock_that_goes_on_over_a_reboot_is_believed(tmp_path: Path) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        await desk.put(timer(clock))
    clock.wall, clock.since_boot = clock.wall + 20.0, 5.0
    async with desk_of(tmp_path / "runward.db", clock, "second") as desk:
        await rings_after(desk, WAIT - 20.0)


@pytest.mark.parametrize("happens", [True, False])
async def test_a_step_is_made_up_for_once_though_nobody_knows_whether_that_was_recorded(
    tmp_path: Path, happens: bool
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        await desk.put(timer(clock))
        clock.wall -= HOUR
        desk.connection.commits = ["done, but told to have failed" if happens else "not done"]
        if happens:
            assert await due(desk) == []
        else:
            with pytest.raises(StoreTrouble):
                await due(desk)
        assert desk.connection.commits == []
        await rings_after(desk, WAIT)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_schedule_goes_by_the_wall_clock(tmp_path: Path, step: float) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        await desk.put(timer(clock, "schedule:nightly", "at"))
        clock.wall += step
        assert await due(desk) == (["timer:schedule:nightly/at"] if step > 0 else [])
        clock.move(WAIT + 1.0)
        assert await due(desk) == (["timer:schedule:nightly/at"] if step > 0 else [])


@pytest.mark.parametrize("step", STEPS)
async def test_a_job_that_was_put_off_is_due_in_time_though_the_clock_is_stepped(
    tmp_path: Path, step: float
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        claim = await desk.put(start("a"))
        await desk.complete(claim, put_back(claim.jobs[0])._replace(run_after=clock.now() + WAIT))
        assert await due(desk) == []
        clock.move(20.0)
        clock.wall += step
        assert await due(desk) == []
        clock.move(WAIT - 21.0)
        assert await due(desk) == []
        clock.move(1.5)
        assert await due(desk) == ["a"]


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_what_is_decided_while_the_clock_is_stepped_is_decided_again(
    tmp_path: Path, step: float
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        claim = await desk.put(TimerSet("cr_2", "first", clock.now(), clock.now()))
        assert [job.lane for job in claim.jobs] == ["timer:cr_2/first"]
        decided = JobResult(claim.jobs[0], "done", (Emit(timer(clock)),))
        clock.wall += step
        assert [each.state for each in await desk.complete(claim, decided)] == ["waiting"]
        assert [key for key in await desk.keys() if "cr_1" in str(key)] == []
        desk.queue.may_be_due = True
        again = await desk.queue.put([], await desk.queue.due(10))
        assert [job.tries for job in again.jobs] == [0]
        await desk.complete(again, done(again.jobs[0], Emit(timer(clock))))
        await rings_after(desk, WAIT)


async def test_no_timer_rings_early_though_the_clock_is_stepped_while_a_frozen_daemon_reads_what_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        await desk.put(timer(clock))
        read = desk.store.read

        async def frozen(*asked: Any) -> Any:
            """Another part of the daemon sees the step first, if nothing keeps it from doing so."""
            monkeypatch.undo()
            clock.wall -= 86_400.0
            others.start_soon(desk.queue.due_in_background, 10)
            await anyio.sleep(0.2)  # it must not see the step, and nothing shows that it waits
            return await read(*asked)

        async with anyio.create_task_group() as others:
            monkeypatch.setattr(desk.store, "read", frozen)
            assert await due(desk) == []
        await rings_after(desk, WAIT)


async def test_a_timer_that_was_set_by_a_clock_that_is_set_back_since_waits_for_no_longer_than_it_says(
    tmp_path: Path,
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        told = timer(clock)
        clock.wall -= HOUR
        assert await due(desk) == []
        await desk.put(told)
        await rings_after(desk, WAIT)


@dataclass
class NobodyIsThere:
    """Recipients that can't be reached."""

    names: tuple[str, ...] = ()

    def recipients(self, kind: str) -> tuple[str, ...]:
        return self.names

    def patience(self) -> dict[str, float]:
        return {}

    def send(self, notice: PendingNotice) -> str | None:
        return "nobody is there"


@pytest.mark.parametrize("step", STEPS)
async def test_a_notice_is_tried_again_after_its_pause_though_the_clock_was_stepped_a_moment_before(
    tmp_path: Path, step: float
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        notice = SendNotice("nt_1", clock.now(), "session.failed", "s", "ops", "it failed", "")
        await desk.store.run([Statement(INSERT.sql, [inserted(notice)])], "notice")
        log = SILENT
        notices = Notices(desk.store, clock, log, NobodyIsThere(), list, desk.queue.steps)
        clock.wall += step  # nobody has noted it yet
        assert await notices.carry_out()
        await due(desk)  # now it is noted
        assert await notices.carry_out() is False
        ((next_at,),) = await desk.store.read("select next_at from notices")
        assert next_at == pytest.approx(clock.now() + FIRST_PAUSE)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_the_notice_of_a_trouble_is_as_old_as_it_is_though_the_clock_was_stepped_a_moment_before(
    tmp_path: Path, step: float
) -> None:
    clock = StillClock()
    async with desk_of(tmp_path / "runward.db", clock) as desk:
        wrong = [("nightly", "line 3: no such key")]
        notices = Notices(desk.store, clock, SILENT, NobodyIsThere(("ops",)), lambda: wrong, desk.queue.steps)
        clock.wall += step
        await notices.carry_out()
        ((since,),) = await desk.store.read("select since from notices")
        assert since == pytest.approx(clock.now())
