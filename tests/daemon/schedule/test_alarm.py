"""The alarm rings once, also when it is late: APScheduler by default drops what is a second late, and says nothing."""

import time

import anyio
from tests.waiting import PATIENCE_S

from runward.daemon.parts.schedules import SchedulerAlarm


class Rung:
    """Counts how often the alarm rang, and lets a test wait for it."""

    def __init__(self) -> None:
        self.times = 0
        self.event = anyio.Event()

    def __call__(self) -> None:
        self.times += 1
        self.event.set()

    async def wait(self) -> None:
        with anyio.fail_after(PATIENCE_S):
            await self.event.wait()


async def test_it_rings_at_the_moment_it_was_set_to() -> None:
    rung = Rung()
    with SchedulerAlarm(rung) as alarm:
        at = time.time() + 0.05
        alarm.set(at)
        await rung.wait()
        assert time.time() >= at - 0.01
        assert rung.times == 1


async def test_a_moment_that_is_long_past_rings_at_once() -> None:
    # APScheduler: a date job in the past is dropped after `misfire_grace_time`, one second by default.
    rung = Rung()
    with SchedulerAlarm(rung) as alarm:
        alarm.set(time.time() - 86_400)
        await rung.wait()
        assert rung.times == 1


async def test_a_loop_that_was_blocked_over_the_moment_still_rings() -> None:
    # APScheduler: a loop that was blocked for longer than the grace skips the job silently.
    rung = Rung()
    with SchedulerAlarm(rung) as alarm:
        alarm.set(time.time() + 0.05)
        await anyio.lowlevel.checkpoint()
        time.sleep(1.5)
        await rung.wait()
        assert rung.times == 1


async def test_setting_it_again_replaces_the_moment_that_was_set_before() -> None:
    rung = Rung()
    with SchedulerAlarm(rung) as alarm:
        alarm.set(time.time() + 0.02)
        alarm.set(time.time() + 3600)
        alarm.set(time.time() + 0.05)
        await rung.wait()
        assert rung.times == 1


async def test_an_alarm_that_is_set_to_never_does_not_ring() -> None:
    rung, other = Rung(), Rung()
    with SchedulerAlarm(rung) as alarm, SchedulerAlarm(other) as later:
        alarm.set(time.time() + 0.02)
        alarm.set(None)
        alarm.set(None)
        later.set(time.time() + 0.06)
        await other.wait()
        assert rung.times == 0


async def test_after_its_block_it_rings_no_more() -> None:
    # APScheduler: `shutdown(wait=True)` returns at once and cancels what runs.
    rung, other = Rung(), Rung()
    with SchedulerAlarm(rung) as alarm:
        alarm.set(time.time() + 0.05)
    with SchedulerAlarm(other) as later:
        later.set(time.time() + 0.1)
        await other.wait()
    assert rung.times == 0
