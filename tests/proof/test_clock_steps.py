"""The wall clock is moved while a daemon works and between its runs: nothing lost, nothing doubled, retries happen.

The daemon is a real one, in this process, for its clock to be moved: real watch, real store, real waiting.
Monotonic time goes on as it does for the kernel.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
import time_machine
from tests.proof.account import account
from tests.proof.place import Place
from tests.proof.processes import Forks
from tests.waiting import PATIENCE_S

from runward.config.root import Root
from runward.config.settings import Settings
from runward.daemon.host.assembly import World
from runward.daemon.host.supervisor import Supervisor
from runward.daemon.log import LOG, LogFile, Sinks, open_log
from runward.daemon.parts.answering import InForce
from runward.daemon.store.connection import connect
from runward.daemon.store.ownership import prepare
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.watch.notifications import Inotify
from runward.daemon.world.clock import SystemClock, SystemRandomness
from runward.daemon.world.files import Files
from runward.daemon.world.starting import StartingProcesses
from runward.handlers.model.contracts import Declarations
from runward.handlers.model.files import RootFacts, Unreadable

NOW = datetime(2026, 10, 24, 12, tzinfo=UTC)
STEPS = [timedelta(hours=1), timedelta(hours=-1), timedelta(days=1), timedelta(days=-1)]


@dataclass
class BrokenArtifacts(Files):
    """Files of a disk that can't read artifacts for a while, so that jobs have to be tried again."""

    state: Path
    broken: bool = False
    asked: int = field(default=0)

    def __post_init__(self) -> None:
        Files.__init__(self, self.state)

    def artifacts(self, root: str, within: str, paths: object) -> RootFacts | Unreadable:
        self.asked += 1
        if self.broken:
            return Unreadable("Input/output error")
        return super().artifacts(root, within, paths)  # type: ignore[arg-type] # passed on as it came


@asynccontextmanager
async def _daemon(place: Place) -> AsyncIterator[BrokenArtifacts]:
    """A daemon that serves `place` in this process until the block ends."""
    prepare(place.state)
    migrate(place.state / "runward.db")
    files = BrokenArtifacts(place.state)
    settings = Settings(str(place.state), roots=(Root("runs", str(place.runs)),))
    inotify = Inotify(place.state / "inbox", 5, 20, 0.5, 30.0)
    world = World(
        SystemClock(),
        files,
        StartingProcesses(place.state),
        SystemRandomness(),
        inotify,
        InForce(lambda *_: Declarations(None, None)),
    )
    store = Store(await connect(place.state / "runward.db"))
    log = LogFile(place.state / LOG)
    supervisor = Supervisor(place.state, settings, world, store, open_log(Sinks(log, None)))
    ready = anyio.Event()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.run, ready.set)
            await ready.wait()
            yield files
            supervisor.stop()
    finally:
        await store.close()
        log.close()


async def _wait_for(fact: Callable[[], object], what: str) -> None:
    with anyio.move_on_after(PATIENCE_S):
        while not fact():
            await anyio.sleep(0.02)
        return
    raise AssertionError(f"not within {PATIENCE_S:g} s: {what}")


def _held_back(place: Place) -> list[tuple[object, ...]]:
    return place.rows("select run_after from jobs where state = 'waiting' and tries > 0")


def _told(place: Place) -> Counter[tuple[str, int, int]]:
    """How many runs have which status, and which numbers of lines about their start and their end."""
    account(place)
    journals = {name: place.journal(name) for name in place.statuses()}
    return Counter(
        (status, journals[name].count("session_started"), journals[name].count("session_finished"))
        for name, status in place.statuses().items()
    )


ONCE = ("completed", 1, 1)


@pytest.mark.parametrize("step", STEPS, ids=str)
async def test_a_retry_happens_although_the_clock_is_stepped_while_it_waits(
    tmp_path: Path, forks: Forks, step: timedelta
) -> None:
    place = Place(tmp_path, forks)
    with time_machine.travel(NOW, tick=True) as clock:
        async with _daemon(place) as files:
            files.broken = True
            place.finished_run("unreadable-for-a-while")
            await _wait_for(lambda: _held_back(place), "a job that is tried again later")
            clock.shift(step)
            tried = files.asked
            await _wait_for(lambda: files.asked > tried, "a further try")
            files.broken = False
            await _wait_for(lambda: place.ended() == 1, "the verdict")
            place.finished_run("after-the-step")
            await _wait_for(lambda: place.ended() == 2, "the next verdict")
    assert place.log("clock.stepped") or place.log("job.delayed")
    assert _told(place) == {ONCE: 2}


@pytest.mark.parametrize("step", STEPS, ids=str)
async def test_a_clock_that_is_stepped_while_the_daemon_is_down_holds_up_nothing(
    tmp_path: Path, forks: Forks, step: timedelta
) -> None:
    place = Place(tmp_path, forks)
    with time_machine.travel(NOW, tick=True) as clock:
        async with _daemon(place) as files:
            files.broken = True
            place.finished_run("unreadable-for-a-while")
            place.start_run("goes-on")
            await _wait_for(lambda: _held_back(place), "a job that is tried again later")
            await _wait_for(lambda: "goes-on" in place.statuses(), "the other's start")
        clock.shift(step)
        place.finish_run(place.runs / "goes-on")
        async with _daemon(place):
            await _wait_for(lambda: place.ended() == 2, "both verdicts")
    assert _told(place) == {ONCE: 2}


async def test_runs_that_end_while_the_clock_jumps_to_and_fro_are_judged_once_each(
    tmp_path: Path, forks: Forks
) -> None:
    place = Place(tmp_path, forks)
    with time_machine.travel(NOW, tick=True) as clock:
        async with _daemon(place):
            for number in range(40):
                place.finished_run(f"run-{number}")
                clock.shift(STEPS[number % len(STEPS)] * (1 + number % 3))
                if number % 8 == 7:
                    await _wait_for(lambda number=number: place.ended() == number + 1, "those so far")  # type: ignore[misc] # bound now
    assert _told(place) == {ONCE: 40}


async def test_a_run_whose_process_is_gone_gets_its_grace_once_although_the_clock_goes_back(
    tmp_path: Path, forks: Forks
) -> None:
    place = Place(tmp_path, forks)
    directory = place.start_run("killed")
    (directory / "process.json").write_text(
        json.dumps({"pid": 1, "start_ticks": 1, "boot_id": "another boot"})
    )
    with time_machine.travel(NOW, tick=True) as clock:
        async with _daemon(place):
            # The first look sees that the process is gone; what it remembers is the time of that.
            await _wait_for(
                lambda: str(int(NOW.timestamp()))[:8] in str(place.rows("select state from cursors")),
                "a doubt",
            )
            clock.shift(timedelta(hours=-1))
            await _wait_for(lambda: place.ended() == 1, "its end")
    assert place.statuses() == {"killed": "aborted"}
    assert place.rows("select reason_code from sessions") == [("run.aborted.process_gone",)]
