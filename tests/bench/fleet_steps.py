"""What a fleet adds to steps on other hosts: from one step's end to the next one's command, and many steps at once.

Three hosts have their daemons on this machine, over one PostgreSQL server that syncs. *Bare* are two psycopg processes that
exchange the same rows by the same functions. The peer is a job queue in the same server.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.bench import bare_orders
from tests.bench.chains import advances_ms, emit, ended_steps, wait_over, wait_steps
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
from tests.bench.fleet_hosts import FleetOfBench, fleet_of_bench
from tests.bench.peers import without_peer
from tests.bench.product import daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import YardstickFailed

from runward.daemon.launch.ticket import STARTS

_STEP: Final = Figure(
    "fleet-step",
    "remote step, from one's exit to the next one's command, p50",
    "x local advance + 3 bare",
    Goal("at most", 1.0),
    "each direction also waits for an outbox, an inbox and the transaction of a second store, and the inbox and that store sync",
)
_BARE: Final = Figure(
    "fleet-steps-bare",
    "1,000 no-op steps of three hosts, steps a second against bare rows",
    "x bare",
    Goal("at least", 0.3),
    "a step is a launcher, a run directory, a verdict and two stores that sync; a bare one is a row",
)
_QUEUE: Final = Figure(
    "fleet-steps-procrastinate",
    "1,000 no-op steps of three hosts, steps a second against a procrastinate queue per host",
    "x procrastinate",
    Goal("at least", 3.0),
    "a step is a launcher, a run directory, a verdict and two stores that sync; one of the queue is a process and two jobs",
    "procrastinate",
)
_HOSTS: Final = ("build", "gpu-box")
_ACTION: Final = '[actions.nothing]\ncommand = ["true"]\n'
_ACCEPT: Final = 'slots = 100\n[[fleet.accept]]\nfrom = ["laptop"]\nactions = ["nothing"]\n'
_CHAINS: Final = 50
_STEPS: Final = 5
_TIMEOUT_S: Final = 120.0


def _step(conditions: Conditions) -> list[Measured]:
    """Chain runs that run one at a time, whose steps are here and there in turn."""
    remote, least = [], []
    singles = conditions.size(12, 2)
    for _ in range(conditions.repeats):
        with scratch(conditions.disk) as place, fleet_of_bench(place.directory) as fleet:
            bare = percentile(_bare_ms(fleet, conditions.size(200, 20)), 0.5)
            there, back = _remote_ms(conditions.disk, fleet, singles)
        local = percentile(advances_ms(conditions.disk, singles), 0.5)
        remote.append(percentile([*there, *back], 0.5))
        least.append(local + 3 * bare)
        beside = (
            f"there {percentile(there, 0.5):.1f} ms, back {percentile(back, 0.5):.1f} ms; local {local:.1f} ms,"
            f" bare {bare:.1f} ms; n = {len(there) + len(back)}"
        )
    return [of_ratio(_STEP, remote, least, beside)]


def _remote_ms(disk: Path, fleet: FleetOfBench, singles: int) -> tuple[list[float], list[float]]:
    """Milliseconds from each step's `exit.json` to the release of the next command: over on the other host, and back."""
    steps = (
        "".join(f"  - action: nothing\n{at}" for at in ("", "    host: build\n") * 2)
        + "  - action: nothing\n"
    )
    with _hosts(disk, fleet, ("build",), {"fired": steps}) as places:
        laptop = places[0]
        _warm(laptop)
        for number in range(singles):
            emit(laptop, "bench.fired")
            wait_over(laptop, number + 2)
        ended = sorted(
            path.stat().st_mtime_ns for place in places for path in _runs(place).glob("*/exit.json")
        )
        released = sorted(
            entry.stat().st_mtime_ns for place in places for entry in (_state(place) / STARTS).iterdir()
        )
    # One after the other: each end is followed by the release of the next command. The first step of all is that of `warmed`.
    if len(ended) != len(released) or len(ended) != singles * _STEPS + 1:
        raise YardstickFailed(f"{len(ended)} steps ended of {len(released)} that were let go")
    advances = [(after - end) / 1e6 for end, after in zip(ended, released[1:], strict=False)]
    there, back = (
        [each for at, each in enumerate(advances) if at % _STEPS in steps] for steps in ((1, 3), (2, 4))
    )
    if not all(each > 0 for each in (*there, *back)):
        raise YardstickFailed("a command was let go before its predecessor had ended")
    return there, back


def _together(conditions: Conditions) -> list[Outcome]:
    """Steps a second of chain runs that are fired together, whose steps are all on two other hosts."""
    absent = without_peer(_QUEUE)
    count = conditions.size(1_000, 50)
    ours, bare, queued = [], [], []
    for _ in range(conditions.repeats):
        with scratch(conditions.disk) as place, fleet_of_bench(place.directory) as fleet:
            bare.append(count / _bare_s(fleet, count))
            ours.append(_steps_a_second(conditions.disk, fleet, count))
            if absent is None:
                queued.append(count / _queue_s(place, fleet, count))
    return [
        _of_rates(_BARE, ours, bare),
        absent or _of_rates(_QUEUE, ours, queued),
    ]


def _of_rates(figure: Figure, ours: list[float], theirs: list[float]) -> Measured:
    beside = f"{percentile(ours, 0.5):.1f} steps/s against {percentile(theirs, 0.5):.1f}"
    return of_ratio(figure, ours, theirs, beside)


def _steps_a_second(disk: Path, fleet: FleetOfBench, count: int) -> float:
    chains = min(_CHAINS, count // _STEPS)
    steps = "".join(f"  - action: nothing\n    host: {_HOSTS[each % 2]}\n" for each in range(_STEPS))
    with _hosts(disk, fleet, _HOSTS, {f"fired-{number}": steps for number in range(chains)}) as places:
        laptop = places[0]
        _warm(laptop)
        before, begin = ended_steps(laptop), time.monotonic()
        for _ in range(count // _STEPS // chains):
            emit(laptop, "bench.fired")
        return wait_steps(laptop, count // _STEPS // chains * chains * _STEPS, before, begin)


@contextmanager
def _hosts(
    disk: Path, fleet: FleetOfBench, others: Sequence[str], chains: dict[str, str]
) -> Iterator[list[Scratch]]:
    """Daemons of `laptop` with these chains, and of other hosts that take its steps."""
    with ExitStack() as stack:
        places = [stack.enter_context(scratch(disk)) for _ in ("laptop", *others)]
        directory = places[0].directory / "chains"
        directory.mkdir()
        warm = "".join(f"  - action: nothing\n    host: {host}\n" for host in others)
        for name, steps in {**chains, "warmed": warm}.items():
            event = name.partition("-")[0]
            text = f"name: {name}\ntrigger: {{event: bench.{event}}}\nsteps:\n{steps}"
            (directory / f"{name}.yaml").write_text(text)
        for place, name in zip(places, ("laptop", *others), strict=True):
            accepts = "" if name == "laptop" else _ACCEPT
            stack.enter_context(daemon(place, _ACTION + fleet.joined(name, accepts)))
        yield places


def _warm(laptop: Scratch) -> None:
    """One chain run has been there: every program has connected, and every module is loaded."""
    emit(laptop, "bench.warmed")
    wait_over(laptop, 1)


def _state(place: Scratch) -> Path:
    return place.directory / "state"


def _runs(place: Scratch) -> Path:
    return place.runs


def _bare_ms(fleet: FleetOfBench, count: int) -> list[float]:
    """Milliseconds from the moment when an order is to be placed until another process has taken it."""
    placed, taken, _ = _bare(fleet, count, 1)
    return [(taken[order] - at) / 1e6 for order, at in placed.items()]


def _bare_s(fleet: FleetOfBench, count: int) -> float:
    return _bare(fleet, count, 100)[2]


def _bare(fleet: FleetOfBench, count: int, batch: int) -> tuple[dict[str, int], dict[str, int], float]:
    words = {
        bare_orders.ORIGIN: ("origin", str(count), str(batch)),
        bare_orders.TAKER: ("taker", str(count)),
    }
    processes = []
    try:
        for name, (role, *numbers) in words.items():
            fleet.joined(name)
            processes.append(_started(bare_orders.__file__, role, fleet.conninfo(name), *numbers))
        for process in processes:
            _hear(process, "ready")
        begin = time.monotonic()
        for process in processes:
            _go(process)
        placed, taken = (json.loads(_hear(process)) for process in processes)
        return placed, taken, time.monotonic() - begin
    finally:
        for process in processes:
            process.kill()
            process.communicate()
        for name in words:
            shutil.rmtree(fleet.directory / name, ignore_errors=True)


def _started(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )


def _go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _hear(process: "subprocess.Popen[str]", expected: str | None = None) -> str:
    """The next line that a yardstick says. Raises `YardstickFailed`."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line or (expected is not None and line != expected):
        process.kill()
        raise YardstickFailed(f"{process.args!r} failed: {process.communicate()[1].strip()[-300:]}")
    return line


_PROCRASTINATE: Final = """\
import asyncio, logging, subprocess, sys, time
from procrastinate import App, PsycopgConnector
role, conninfo, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
logging.disable(logging.CRITICAL)
app = App(connector=PsycopgConnector(conninfo=conninfo))
done = []
@app.task(name="step")
async def step(number):
    await asyncio.to_thread(subprocess.run, ["true"], check=True)
    await app.configure_task("over", queue="laptop").defer_async(number=number)
@app.task(name="over")
async def over(number):
    done.append(number)
async def main():
    async with app.open_async():
        if role == "schema":
            await app.schema_manager.apply_schema_async()
            return
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        work = asyncio.create_task(app.run_worker_async(queues=[role], concurrency=20, install_signal_handlers=False))
        if role == "laptop":
            begin = time.monotonic()
            for host in ("build", "gpu-box"):
                of_host = app.configure_task("step", queue=host)
                await of_host.batch_defer_async(*({"number": each} for each in range(count // 2)))
            while len(done) < count // 2 * 2:
                await asyncio.sleep(0.01)
            print(time.monotonic() - begin, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def _queue_s(place: Scratch, fleet: FleetOfBench, count: int) -> float:
    """Seconds that the queues take for as many commands, each of whose ends is told to the queue of its origin."""
    file = place.directory / "procrastinate_peer.py"
    file.write_text(_PROCRASTINATE)
    processes = []
    with fleet.server.database() as name:
        conninfo = fleet.server.conninfo(name)
        made = _started(str(file), "schema", conninfo, "0")
        if made.wait(_TIMEOUT_S) != 0:
            raise YardstickFailed(f"procrastinate failed: {made.communicate()[1].strip()[-300:]}")
        made.communicate()
        try:
            for role in (*_HOSTS, "laptop"):
                processes.append(_started(str(file), role, conninfo, str(count)))
            for process in processes:
                _hear(process, "ready")
            for process in processes:
                _go(process)
            return float(_hear(processes[-1]))
        finally:
            for process in processes:
                process.kill()
                process.communicate()


MEASUREMENTS: Final = (
    Measurement(
        "fleet-step",
        "from a step's `exit.json` to the release of the next command on another host, there and back, in chain runs that run"
        " one at a time",
        (_STEP,),
        _step,
    ),
    Measurement(
        "fleet-steps",
        "steps a second of chain runs fired together on one host, each step one `true` on one of two others, over at most 20 s",
        (_BARE, _QUEUE),
        _together,
    ),
)
