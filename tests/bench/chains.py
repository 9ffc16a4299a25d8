"""What a chain adds to its steps: from a step's end on the disk to the next command, and many chain runs at once.

A step's end is the time of its `exit.json`; the next command is let go right after its start's ticket is marked. The
yardstick of the first figure is what no chain can do without: the verdict on a single run, and one process that starts.
Many chain runs are held against two other durable queues, and against a loop that starts as many commands, one after the
other on each core, and records nothing.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.figure import (
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    Outcome,
    of_ratio,
    percentile,
)
from tests.bench.fixtures import make
from tests.bench.peers import peer_s, without_peer
from tests.bench.product import DaemonFailed, daemon
from tests.bench.record import waits_ms
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import fixture

from runward.daemon.launch.ticket import ticket_path
from runward.daemon.store import reading

_STEPS: Final = 5
_SINGLES: Final = 25
_RUNS: Final = 200
_RATE: Final = 50
_LISTENERS: Final = 50
"""Chains that one event fires."""
_WINDOW_S: Final = 20.0
"""Where chain runs take longer than that, the steps that have ended by then are counted."""
_STALLED_S: Final = 60.0
_SETTINGS: Final = '[actions.nothing]\ncommand = ["true"]\n'

_ADVANCE: Final = Figure(
    "chain-advance",
    "chain advance, p50 (aim: 5 ms)",
    "x verdict and process start",
    Goal("at most", 1.5),
    "each step gets a cgroup and a run directory of its own, synced before its command, and looked at before its verdict",
)


def _against(peer: str, yardstick: str, goal: Goal, daemon_is: str) -> Figure:
    suffix = "-fresh" if daemon_is else ""
    return Figure(
        f"chain-runs{suffix}-{peer or 'bare'}",
        f"200 chain runs of 5 steps{daemon_is}, steps a second against {yardstick}",
        f"x {yardstick}",
        goal,
        "a step is a launcher, a run directory, a verdict and journals; a step of the others is a call and a row",
        peer,
    )


def _all_against(daemon_is: str) -> tuple[Figure, ...]:
    return (
        _against("dbos", "DBOS", Goal("at least", 1.5), daemon_is),
        _against("huey", "huey", Goal("at least", 0.3, aim=0.5), daemon_is),
        _against("", "bare starts", Goal("at least", 0.2), daemon_is),
    )


_WARM: Final = _all_against("")
_FRESH: Final = _all_against(", fresh daemon")


def _advance(conditions: Conditions) -> list[Measured]:
    """p50 over chain runs that run one at a time."""
    advance: list[float] = []
    least: list[float] = []
    singles = conditions.size(_SINGLES, 3)
    for _ in range(conditions.repeats):
        least.append(_verdict_ms(conditions.disk, max(20, singles)) + _process_ms())
        advance.append(percentile(advances_ms(conditions.disk, singles), 0.5))
    beside = (
        f"advance {percentile(advance, 0.5):.1f} ms, verdict and process {percentile(least, 0.5):.1f} ms,"
        f" n = {singles * (_STEPS - 1)}"
    )
    return [of_ratio(_ADVANCE, advance, least, beside)]


def _together(conditions: Conditions, figures: tuple[Figure, ...], is_fresh: bool) -> list[Outcome]:
    """Steps a second of chain runs that are fired together, and those of each peer in turn."""
    runs = conditions.size(_RUNS, 4)
    absent = {figure: without_peer(figure) for figure in figures}
    ours: list[float] = []
    theirs: dict[Figure, list[float]] = {figure: [] for figure in figures if absent[figure] is None}
    for _ in range(conditions.repeats):
        for figure, rates in theirs.items():
            seconds = (
                peer_s(conditions.disk, figure.peer, runs, _STEPS) if figure.peer else _bare_s(runs * _STEPS)
            )
            rates.append(runs * _STEPS / seconds)
        ours.append(_steps_a_second(conditions.disk, runs, is_fresh))
    return [absent[figure] or _of_rates(figure, ours, theirs[figure]) for figure in figures]


def _of_rates(figure: Figure, ours: list[float], theirs: list[float]) -> Measured:
    beside = f"{percentile(ours, 0.5):.1f} steps/s against {percentile(theirs, 0.5):.1f}"
    return of_ratio(figure, ours, theirs, beside)


def _write_chains(place: Scratch, count: int) -> None:
    """Chains that one event fires, and one that another event fires."""
    directory = place.directory / "chains"
    directory.mkdir()
    steps = "".join("  - action: nothing\n" for _ in range(_STEPS))
    events = {f"bench-{number}": "bench.fired" for number in range(count)} | {"warm": "bench.warmed"}
    for name, event in events.items():
        (directory / f"{name}.yaml").write_text(f"name: {name}\ntrigger: {{event: {event}}}\nsteps:\n{steps}")


def emit(place: Scratch, event: str = "bench.fired") -> None:
    installed = Path(sys.executable).parent / "runward"
    subprocess.run(
        [str(installed), "--config", str(place.directory / "runward.toml"), "event", "emit", event],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(place.directory),
            "RUNWARD_STATE_DIR": str(place.directory / "state"),
        },
        check=True,
        capture_output=True,
    )


def _store(place: Scratch) -> str:
    return str(place.directory / "state" / reading.STORE)


def _chain_runs(place: Scratch) -> Mapping[str, int]:
    """How many chain runs have each status."""
    with closing(reading.open_to_read(_store(place))) as connection:
        return dict(connection.execute("select status, count(*) from chain_runs group by status").fetchall())


def _completed(chain_runs: Mapping[str, int]) -> int:
    """Raises `DaemonFailed` where one ended otherwise."""
    if bad := {status: many for status, many in chain_runs.items() if status not in ("completed", "running")}:
        raise DaemonFailed(f"chain runs ended otherwise: {bad}")
    return int(chain_runs.get("completed", 0))


def wait_over(place: Scratch, count: int) -> None:
    """Until so many chain runs are completed. Raises `DaemonFailed` where one ends otherwise, or nothing moves."""
    last, moved_at = -1, time.monotonic()
    while (over := _completed(_chain_runs(place))) < count:
        if over != last:
            last, moved_at = over, time.monotonic()
        if time.monotonic() - moved_at > _STALLED_S:
            raise DaemonFailed(
                f"{over} of {count} chain runs are over, and no further one for {_STALLED_S:.0f} s"
            )
        time.sleep(0.02)


def advances_ms(disk: Path, singles: int) -> list[float]:
    """Milliseconds from each step's `exit.json` to the release of the next command, of chain runs that run alone."""
    with scratch(disk) as place:
        _write_chains(place, 1)
        with daemon(place, _SETTINGS):
            for number in range(singles):
                emit(place)
                wait_over(place, number + 1)
            released = _released_ns(place)
        found: list[float] = []
        runs: dict[str, dict[int, Path]] = {}
        for directory in place.runs.iterdir():
            chain_run, number_of_step, _ = directory.name.split("-")[:3]
            runs.setdefault(chain_run, {})[int(number_of_step)] = directory
        for directories in runs.values():
            for step in range(1, _STEPS):
                ended = (directories[step - 1] / "exit.json").stat().st_mtime_ns
                found.append((released[directories[step].name] - ended) / 1e6)
        return found


def _released_ns(place: Scratch) -> Mapping[str, int]:
    """When the command of each run was let go, by the run's name."""
    state = place.directory / "state"
    with closing(reading.open_to_read(_store(place))) as connection:
        starts = connection.execute("select name, key from starts").fetchall()
    return {name: os.stat(ticket_path(state, key)).st_mtime_ns for name, key in starts}


def _steps_a_second(disk: Path, runs: int, is_fresh: bool) -> float:
    """From the first of the events on. A daemon that is not fresh has played one chain run before."""
    listeners = min(_LISTENERS, runs)
    with scratch(disk) as place:
        _write_chains(place, listeners)
        with daemon(place, _SETTINGS):
            if not is_fresh:
                emit(place, "bench.warmed")
                wait_over(place, 1)
            before, begin = ended_steps(place), time.monotonic()
            for _ in range(runs // listeners):
                emit(place)
            return wait_steps(place, runs // listeners * listeners * _STEPS, before, begin)


def wait_steps(place: Scratch, wanted: int, before: int, begin: float) -> float:
    """Steps a second until all have ended, or the window is over."""
    while True:
        ended, seconds = ended_steps(place) - before, time.monotonic() - begin
        if ended >= wanted or seconds > _WINDOW_S:
            if not ended:
                raise DaemonFailed(f"no step of {wanted} has ended after {_WINDOW_S:.0f} s")
            return ended / seconds
        time.sleep(0.02)


def ended_steps(place: Scratch) -> int:
    """Raises `DaemonFailed` where a chain run ends otherwise than it should."""
    _completed(_chain_runs(place))
    with closing(reading.open_to_read(_store(place))) as connection:
        query = "select count(*) from chain_steps where status = 'completed'"
        ((ended,),) = connection.execute(query).fetchall()
    return int(ended)


def _verdict_ms(disk: Path, count: int) -> float:
    """p50 from the rename of `exit.json` to the durable verdict of single runs."""
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        with daemon(place) as running:
            running.wait_running(count)
            begin = time.time()
            renamed_at = fixture("finish", place.runs, count, rate=_RATE)
            running.wait_judged(count)
            running.settle()
            committed_at = running.record.log(since=begin).committed_at
        return percentile(waits_ms(renamed_at, committed_at), 0.5)


def _process_ms() -> float:
    taken: list[float] = []
    for _ in range(20):
        begin = time.perf_counter()
        subprocess.run(["true"], check=True)
        taken.append((time.perf_counter() - begin) * 1e3)
    return percentile(taken, 0.5)


def _bare_s(count: int) -> float:
    begin = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        for code in threads.map(lambda _: subprocess.run(["true"], check=False).returncode, range(count)):
            assert code == 0
    return time.monotonic() - begin


MEASUREMENTS: Final = (
    Measurement(
        "chain-advance",
        "from a step's `exit.json` to the release of the next step's command, in chain runs that run one at a time",
        (_ADVANCE,),
        _advance,
    ),
    Measurement(
        "chain-runs",
        "steps a second of 200 chain runs fired together, each step one `true`; the daemon has played one before",
        _WARM,
        partial(_together, figures=_WARM, is_fresh=False),
    ),
    Measurement(
        "chain-runs-fresh",
        "the same in a daemon that has only just said READY, over at most 20 s",
        _FRESH,
        partial(_together, figures=_FRESH, is_fresh=True),
    ),
)
