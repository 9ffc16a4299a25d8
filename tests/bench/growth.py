"""Whether a run costs more when much is stored, or when much waits: the daemon's processor time for a run, over both."""

import asyncio
import shutil
import statistics
import time
from typing import Final

from tests.bench.copied_rows import copy_job, copy_sessions
from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio
from tests.bench.fixtures import make, run_name
from tests.bench.large_store import FEW, fill, pack, state_of
from tests.bench.product import DaemonFailed, daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import fixture

from runward.daemon.store.reading import STORE

_GOAL: Final = Goal("at most", 1.1)
_SESSIONS: Final = Figure(
    "growth-sessions",
    "processor time of a run over 1,000,000 stored sessions",
    "x over 1,000",
    _GOAL,
    "the trees of tables and indexes are deeper, and more of their pages are read",
)
_JOBS: Final = Figure(
    "growth-jobs",
    "processor time of a run while 100,000 jobs wait",
    "x while none waits",
    _GOAL,
    "what waits is in the indexes that questions for what is due search",
)
_RUNS: Final = 500
_FIRST: Final = 2_000_000
"""The number of the first run that is measured: beyond all that are stored."""
_WAITING: Final = "bundle/write"
_WAIT_S: Final = 86_400.0


def _sessions(conditions: Conditions) -> list[Measured]:
    count = conditions.size(1_000_000, 20_000)
    with scratch(conditions.disk) as few, scratch(conditions.disk) as many:
        for place in (few, many):
            fill(place, range(FEW))
            asyncio.run(pack(place))
        copy_sessions(state_of(many) / STORE, count)
        return [_against(_SESSIONS, few, many, conditions)]


def _jobs(conditions: Conditions) -> list[Measured]:
    count = conditions.size(100_000, 5_000)
    with scratch(conditions.disk) as none, scratch(conditions.disk) as many:
        for place in (none, many):
            fill(place, range(FEW))
        copy_job(state_of(many) / STORE, _WAITING, count, time.time() + _WAIT_S)
        return [_against(_JOBS, none, many, conditions)]


def _against(figure: Figure, few: Scratch, many: Scratch, conditions: Conditions) -> Measured:
    """In turn; what is measured stays there, in both as much."""
    ours: list[float] = []
    theirs: list[float] = []
    count = conditions.size(_RUNS, 100)
    for turn in range(conditions.repeats):
        runs = range(_FIRST + turn * count, _FIRST + (turn + 1) * count)
        theirs.append(_ms_a_run(few, runs))
        ours.append(_ms_a_run(many, runs))
    beside = f"{statistics.median(ours):.2f} ms against {statistics.median(theirs):.2f}, n = {count}"
    return of_ratio(figure, ours, theirs, beside)


def _ms_a_run(place: Scratch, runs: range) -> float:
    """Milliseconds of the daemon's processor time for a run: its look, its verdict, its journals and its bundle."""
    with daemon(place) as running:
        running.wait_scanned()
        judged = running.record.judged()
        before = running.cpu_s()
        make(str(place.runs), runs)
        running.wait_running(len(runs))
        fixture("finish", place.runs, len(runs), first=runs.start)
        running.wait_judged(judged + len(runs))
        running.settle()
        spent = running.cpu_s() - before
        wrong = running.record.misjudged([run_name(number) for number in runs])
    for number in runs:
        shutil.rmtree(place.runs / run_name(number))
    if wrong:
        raise DaemonFailed(f"{len(wrong)} of {len(runs)} runs have no right verdict, such as {wrong[0]}")
    return spent / len(runs) * 1e3


MEASUREMENTS: Final = (
    Measurement(
        "growth-sessions",
        "processor time of the daemon for a run, from its first look to its bundle, over many stored sessions and few",
        (_SESSIONS,),
        _sessions,
    ),
    Measurement(
        "growth-jobs",
        "the same while very many jobs wait for a later time, and while none does",
        (_JOBS,),
        _jobs,
    ),
)
