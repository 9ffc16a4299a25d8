"""What code that takes all the processor time that it gets costs others, and whether it gets more than it may."""

import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.bench.acting_runs import begin, counted, invoked, offered, say, until
from tests.bench.ends import RATE, Ends, Stretch, Waits
from tests.bench.figure import (
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    names,
    of_ratio,
    of_samples,
    percentile,
)
from tests.bench.fixtures import make
from tests.bench.product import DaemonFailed, daemon
from tests.bench.sandbox import need_sandbox
from tests.bench.scratch import Scratch, scratch

from runward.daemon.store import reading

_SPUN: Final = Figure(
    "spinning",
    "verdicts while every worker spins, p50",
    "x usual",
    Goal("at most", 1.5),
    "two workers want both cores; they were nicer than the daemon, but not their sessions, which come first",
)
_BLOCKED: Final = Figure(
    "spinning-blocked",
    "loop blocked at most while every worker spins",
    "ms",
    Goal("at most", 20.0),
    "the loop itself has to wait for a processor",
)
_WITHIN: Final = Figure(
    "cpu-windows",
    "1,000 calls by 8 principals at once, processor time used",
    "x their window",
    Goal("at most", 1.0),
)
_SPINNERS: Final = 2
_RUNS: Final = 8
_ALLOCATED_S: Final = 0.25
_TIMES: Final = 1_000_000
_BURN: Final = "def run(times):\n    for _ in range(times): pass"
_SPIN: Final = '[exchange]\ncpu_seconds = "1000s"\n[exchange.executor]\ntimeout = "1s"\nworkers = 2\n'
_WINDOW: Final = f'[exchange]\ncpu_seconds = "{_ALLOCATED_S:g}s"\ncpu_window = "1h"\n'


def _spinning(conditions: Conditions) -> list[Measured]:
    """Verdicts of runs that end while every worker spins for a second, again and again, and the daemon's loop meanwhile."""
    need_sandbox()
    problems: list[str] = []
    spun: list[float] = []
    usual: list[float] = []
    late: list[float] = []
    calls = conditions.size(6, 2)
    for _ in range(conditions.repeats):
        waits = _waits(conditions.disk, calls, problems)
        spun.append(percentile(waits.beside, 0.5))
        usual.append(percentile(waits.usual, 0.5))
        late.append(_late_ms(conditions.disk, calls))
    beside = f"{percentile(spun, 0.5):.2f} ms, usual {percentile(usual, 0.5):.2f} ms"
    return [
        of_ratio(_SPUN, spun, usual, beside, problems),
        of_samples(_BLOCKED, late),
    ]


def _waits(disk: Path, calls: int, problems: list[str]) -> Waits:
    """How long verdicts take while code spins, and before and after that."""
    count = int(RATE * calls * 3)
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        with daemon(place, _SPIN) as running:
            running.wait_running(count)
            begin = time.time()
            ends = Ends(place.runs, count)
            time.sleep(calls)  # verdicts are measured for so long without code
            stretch = _spun(place, calls)
            ends.join()
            running.wait_judged(count)
            running.settle()
            committed_at = running.record.log(since=begin).committed_at
        spinners = [f"spinner-{each}" for each in range(_SPINNERS)]
        problems += running.record.problems(names(count), but=spinners)
    return ends.waits(committed_at, [stretch])


def _late_ms(disk: Path, calls: int) -> float:
    """For how long the loop was blocked at most while code spins."""
    with scratch(disk) as place:
        beats = place.directory / "beats"
        with daemon(place, _SPIN, [sys.executable, str(Path(__file__).parent / "beating.py"), str(beats)]):
            stretch = _spun(place, calls)
        told = [line.split() for line in beats.read_text().splitlines()]
    return max(float(late) for at, late in told if stretch.has(float(at))) * 1e3


def _spun(place: Scratch, calls: int) -> Stretch:
    """Have two principals spin, each so many times for a second; returns from when to when."""
    for each in range(_SPINNERS):
        code = offered(f"spin-{each}", "def run():\n    while True: pass")
        say(begin(place, f"spinner-{each}", f"spinner-{each}"), code, *[invoked(f"spin-{each}")] * calls)
    until(lambda: counted(place, "select count(*) from actions") >= _SPINNERS, "the code to be written")
    began = time.time()
    until(
        lambda: counted(place, "select count(*) from actions") == _SPINNERS * (calls + 1), "the code to end"
    )
    if counted(place, "select count(*) from actions where error_code = 'timeout'") != _SPINNERS * calls:
        raise DaemonFailed("not every call was cut off")
    return Stretch(began, time.time())


def _windows(conditions: Conditions) -> list[Measured]:
    """The most CPU time that one of eight principals used in its window, when each wants more than it has.

    What they are charged together must have been used by the daemon and its children, as /proc counts it.
    """
    need_sandbox()
    problems: list[str] = []
    calls = conditions.size(125, 16)
    with scratch(conditions.disk) as place, daemon(place, _WINDOW) as running:
        runs = [begin(place, f"run-{each}", f"agent-{each}") for each in range(_RUNS)]
        for each, run in enumerate(runs):
            say(run, offered(f"burn-{each}", _BURN), *[invoked(f"burn-{each}", _TIMES)] * calls)
        until(
            lambda: counted(place, "select count(*) from actions") == _RUNS * (calls + 1),
            "the calls to end",
            600.0,
        )
        cpu_s = running.usage().cpu_s
        with closing(reading.open_to_read(str(place.directory / "state" / reading.STORE))) as store:
            used = dict(store.execute("select principal, sum(seconds) from cpu_use group by principal"))
            asked = "select coalesce(error_code, 'well') from actions where action_type = 'invoke_artifact'"
            ended = Counter(str(code) for (code,) in store.execute(asked))
    if strange := ended.keys() - {"well", "rate_limited"}:
        problems.append(f"calls ended with {strange}")
    if sum(used.values()) > cpu_s:
        problems.append(f"{sum(used.values()):.1f} s were charged, and {cpu_s:.1f} s used")
    shares = [seconds / _ALLOCATED_S for seconds in used.values()]
    beside = f"{ended['well']} calls ran to their end; the daemon and all sandboxes used {cpu_s:.1f} s"
    spread = (min(shares), max(shares))
    return [Measured(_WITHIN, max(shares), spread, beside, problems, {"measured": shares})]


MEASUREMENTS: Final = (
    Measurement(
        "spinning",
        "verdicts while every worker spins against verdicts before and after, and how long the loop was blocked",
        (_SPUN, _BLOCKED),
        _spinning,
    ),
    Measurement(
        "cpu-windows",
        "the most processor time that one of eight principals used in its window, when each wants more than it has",
        (_WITHIN,),
        _windows,
    ),
)
