"""Thousands of schedules: what they cost at the start, and when a thousand of them are due at once.

The yardstick of the start is a process that parses each expression with croniter and keeps the next times in a heap. That
of a thousand at once is APScheduler with its jobs in memory.
"""

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio, percentile
from tests.bench.product import Daemon, DaemonFailed, daemon
from tests.bench.scratch import Scratch, scratch

from runward.daemon.store import reading

_START: Final = Figure(
    "schedules-start",
    "start over 4,000 schedules, processor",
    "x croniter and a heap",
    Goal("at most", 1.2),
    "each file is read and compared with what an earlier daemon checked",
)
_AT_ONCE: Final = Figure(
    "schedules-at-once",
    "1,000 schedules due at once",
    "x APScheduler in memory",
    Goal("at most", 10.0),
    "a firing, a chain run, its steps' conditions and a line are recorded durably; APScheduler calls a function",
    "apscheduler",
)
_LEAD_S: Final = 10.0
"""Seconds until schedules are due, beside those that it takes to declare them."""
_SETTINGS: Final = '[actions.nothing]\ncommand = ["true"]\n'
_STALLED_S: Final = 60.0

_CRONITER: Final = """\
import heapq, sys, time
from datetime import datetime
from croniter import croniter
begin = time.process_time()
heap = []
for number in range(int(sys.argv[1])):
    heapq.heappush(heap, (croniter(f"{number % 60} {number % 24} * * *", datetime.now().astimezone()).get_next(float), number))
print(time.process_time() - begin)
"""

_APSCHEDULER: Final = """\
import asyncio, sys, time
from datetime import datetime, timedelta
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger
count = int(sys.argv[1])
fired = []
async def main():
    scheduler = AsyncIOScheduler(job_defaults={"misfire_grace_time": None})
    due = datetime.now().astimezone() + timedelta(seconds=3)
    for number in range(count):
        scheduler.add_job(lambda: fired.append(time.time()), DateTrigger(due))
    scheduler.start()
    while len(fired) < count:
        await asyncio.sleep(0.01)
    print(max(fired) - due.timestamp())
asyncio.run(main())
"""


def _start(conditions: Conditions) -> list[Measured]:
    ours: list[float] = []
    theirs: list[float] = []
    count = conditions.size(4_000, 100)
    for _ in range(conditions.repeats):
        theirs.append(_said(_CRONITER, count))
        ours.append(_start_s(conditions.disk, count))
    beside = f"{percentile(ours, 0.5):.2f} s against {percentile(theirs, 0.5):.2f}"
    return [of_ratio(_START, ours, theirs, beside)]


def _at_once(conditions: Conditions) -> list[Measured]:
    fired: list[float] = []
    in_memory: list[float] = []
    count = conditions.size(1_000, 50)
    for _ in range(conditions.repeats):
        in_memory.append(_said(_APSCHEDULER, count))
        fired.append(_fire_s(conditions.disk, count))
    beside = f"{percentile(fired, 0.5):.2f} s against {percentile(in_memory, 0.5):.2f}, none lost"
    return [of_ratio(_AT_ONCE, fired, in_memory, beside)]


def _said(program: str, count: int) -> float:
    done = subprocess.run(
        [sys.executable, "-c", program, str(count)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def _write(place: Scratch, count: int, schedule: str | None = None) -> None:
    directory = place.directory / "chains"
    directory.mkdir()
    for number in range(count):
        when = schedule or f"{number % 60} {number % 24} * * *"
        text = f'name: s-{number}\ntrigger: {{schedule: "{when}"}}\nsteps:\n  - action: nothing\n    condition: "{{{{ false }}}}"\n'
        (directory / f"s-{number}.yaml").write_text(text)


def _counted(place: Scratch, sql: str) -> int:
    with closing(reading.open_to_read(str(place.directory / "state" / reading.STORE))) as connection:
        ((found,),) = connection.execute(sql).fetchall()
    return int(found)


def _wait(place: Scratch, sql: str, count: int) -> None:
    last, moved_at = -1, time.monotonic()
    while (now := _counted(place, sql)) < count:
        if now != last:
            last, moved_at = now, time.monotonic()
        if time.monotonic() - moved_at > _STALLED_S:
            raise DaemonFailed(f"{now} of {count} by {sql!r}, and no further one for {_STALLED_S:.0f} s")
        time.sleep(0.01)


def _settle(running: Daemon) -> None:
    """Until its processor time stands still: that timers wait is not a work that is left."""
    for _ in range(int(_STALLED_S)):
        before = running.cpu_s()
        time.sleep(0.5)
        if running.cpu_s() - before < 0.02:
            return
    raise DaemonFailed(f"still busy after {_STALLED_S:.0f} s")


def _start_s(disk: Path, count: int) -> float:
    """The daemon's processor seconds over schedules that an earlier one knew, less those of a daemon without any."""
    with scratch(disk) as place:
        with daemon(place, _SETTINGS) as empty:
            _settle(empty)
            without = empty.cpu_s()
        _write(place, count)
        with daemon(place, _SETTINGS) as first:
            _wait(place, "select count(*) from schedules where due is not null", count)
            _settle(first)
        with daemon(place, _SETTINGS) as running:
            _settle(running)
            return running.cpu_s() - without


def _fire_s(disk: Path, count: int) -> float:
    """Seconds from the moment at which all are due until the last has a row among the firings. Their steps are skipped."""
    with scratch(disk) as place:
        due = time.time() + _LEAD_S + count / 200
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(due))
        _write(place, count, f"at {moment}")
        with daemon(place, _SETTINGS):
            _wait(place, "select count(*) from schedules where due is not null", count)
            if time.time() > int(due):
                raise DaemonFailed(f"{count} schedules were declared only after they had been due")
            time.sleep(max(0.0, float(int(due)) - time.time()))
            _wait(place, "select count(*) from firings where result like 'firing.fired%'", count)
            return max(0.001, time.time() - int(due))


MEASUREMENTS: Final = (
    Measurement(
        "schedules-start",
        "processor time of a start over 4,000 schedules that an earlier daemon knew, less that of one without any",
        (_START,),
        _start,
    ),
    Measurement(
        "schedules-at-once",
        "from the moment at which 1,000 schedules are due until the last has fired; their steps are skipped",
        (_AT_ONCE,),
        _at_once,
    ),
)
