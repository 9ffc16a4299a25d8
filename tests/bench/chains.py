"""What a chain adds to its steps: from a step's end on the disk to the next command, and many chain runs at once.

A step's end is the time of its `exit.json`; the next command is let go right after its `process.json` is written. The
yardstick of the first figure is what no chain can do without: the verdict on a single run, and one process that starts.
That of the second is a loop that starts as many commands, one after the other on each core, and records nothing. Beside
it stand two other durable queues.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.bench.figure import Figure, Goal, of_ratio, percentile
from tests.bench.fixtures import make
from tests.bench.peers import PEERS, installed, peer_s
from tests.bench.product import DaemonFailed, daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import fixture

from runward.daemon.store import reading

_ADVANCE: Final = Goal("at most", 3.0)
_STEPS: Final = 5
_RATE: Final = 50.0
_LISTENERS: Final = 50
"""Chains that one event fires."""
_STALLED_S: Final = 60.0
_SETTINGS: Final = '[actions.nothing]\ncommand = ["true"]\n'


def chains(disk: Path, singles: int, runs: int, repeats: int) -> list[Figure]:
    """p50 of a chain's advance over `singles` runs, one at a time, and the time for `runs` chain runs fired together."""
    advance: list[float] = []
    least: list[float] = []
    for _ in range(repeats):
        least.append(_verdict_ms(disk, max(20, singles)) + _process_ms())
        advance.append(percentile(_advances_ms(disk, singles), 0.5))
    said = f"advance {percentile(advance, 0.5):.1f} ms, verdict and process {percentile(least, 0.5):.1f} ms, n = {singles * (_STEPS - 1)}"
    together: list[float] = []
    bare: list[float] = []
    peers: dict[str, list[float]] = {peer: [] for peer in PEERS} if installed() else {}
    for _ in range(repeats):
        bare.append(_bare_s(runs * _STEPS))
        together.append(_together_s(disk, runs))
        for peer, taken in peers.items():
            taken.append(peer_s(disk, peer, runs, _STEPS))
    return [
        of_ratio("chain advance, p50", advance, least, _ADVANCE, said, unit="x verdict and process"),
        of_ratio(
            f"{runs:,} chain runs of {_STEPS} steps",
            together,
            bare,
            None,
            f"{percentile(together, 0.5):.1f} s against {percentile(bare, 0.5):.1f}",
            unit="x bare starts",
        ),
        *(
            of_ratio(
                f"the same, next to {peer}",
                together,
                taken,
                None,
                f"{runs * _STEPS / percentile(together, 0.5):.1f} steps/s against {runs * _STEPS / percentile(taken, 0.5):.1f}",
                unit=f"x {peer}",
            )
            for peer, taken in peers.items()
        ),
    ]


def _write_chains(place: Scratch, count: int) -> None:
    directory = place.directory / "chains"
    directory.mkdir()
    steps = "".join("  - action: nothing\n" for _ in range(_STEPS))
    for number in range(count):
        name = f"bench-{number}"
        text = f"name: {name}\ntrigger: {{event: bench.fired}}\nsteps:\n{steps}"
        (directory / f"{name}.yaml").write_text(text)


def _emit(place: Scratch) -> None:
    installed = Path(sys.executable).parent / "runward"
    subprocess.run(
        [str(installed), "--config", str(place.directory / "runward.toml"), "event", "emit", "bench.fired"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(place.directory),
            "RUNWARD_STATE_DIR": str(place.directory / "state"),
        },
        check=True,
        capture_output=True,
    )


def _wait_over(place: Scratch, count: int) -> None:
    """Until so many chain runs are completed. Raises `DaemonFailed` where one ends otherwise, or nothing moves."""
    store = str(place.directory / "state" / reading.STORE)
    last, moved_at = -1, time.monotonic()
    while True:
        with closing(reading.open_to_read(store)) as connection:
            rows = dict(
                connection.execute("select status, count(*) from chain_runs group by status").fetchall()
            )
        over = int(rows.get("completed", 0))
        if bad := {status: many for status, many in rows.items() if status not in ("completed", "running")}:
            raise DaemonFailed(f"chain runs ended otherwise: {bad}")
        if over >= count:
            return
        if over != last:
            last, moved_at = over, time.monotonic()
        if time.monotonic() - moved_at > _STALLED_S:
            raise DaemonFailed(
                f"{over} of {count} chain runs are over, and no further one for {_STALLED_S:.0f} s"
            )
        time.sleep(0.02)


def _advances_ms(disk: Path, singles: int) -> list[float]:
    """Milliseconds from each step's `exit.json` to the `process.json` of the next, of chain runs that run alone."""
    with scratch(disk) as place:
        _write_chains(place, 1)
        with daemon(place, _SETTINGS):
            for number in range(singles):
                _emit(place)
                _wait_over(place, number + 1)
        found: list[float] = []
        runs: dict[str, dict[int, Path]] = {}
        for directory in place.runs.iterdir():
            chain_run, number_of_step, _ = directory.name.split("-")[:3]
            runs.setdefault(chain_run, {})[int(number_of_step)] = directory
        for directories in runs.values():
            for step in range(1, _STEPS):
                ended = (directories[step - 1] / "exit.json").stat().st_mtime_ns
                begun = (directories[step] / "process.json").stat().st_mtime_ns
                found.append((begun - ended) / 1e6)
        return found


def _together_s(disk: Path, runs: int) -> float:
    """Seconds from the first of the events until all chain runs that they fired are over."""
    listeners = min(_LISTENERS, runs)
    with scratch(disk) as place:
        _write_chains(place, listeners)
        with daemon(place, _SETTINGS):
            begin = time.monotonic()
            for _ in range(runs // listeners):
                _emit(place)
            _wait_over(place, runs // listeners * listeners)
            return time.monotonic() - begin


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
        return percentile([(committed_at[run] - at / 1e9) * 1e3 for run, at in renamed_at.items()], 0.5)


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
