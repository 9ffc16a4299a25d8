"""A store with very many sessions: its size, what commands and writes take in it, and what pruning half of it costs.

The sessions come by the daemon's own road, from run directories that are removed afterwards. They are packed at once, by
the code that does it in the background a day after their end.
"""

import asyncio
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio, of_samples
from tests.bench.fixtures import finish, make, run_name
from tests.bench.product import daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.studio import PAGES, SETTINGS, Visitor
from tests.daemon.in_process import SILENT, StillClock, ToldProcesses
from tests.daemon.in_process import daemon as daemon_in_process

from runward.daemon.engine.queue import Queue
from runward.daemon.host.upkeep import Upkeep
from runward.daemon.parts.retention import ClockTrust, Packer, Pruner
from runward.daemon.store.connection import connect
from runward.daemon.store.store import Checkpointer, Store
from runward.daemon.store.transaction import Statement
from runward.daemon.watch.hints import Why
from runward.daemon.world.clock import SystemClock, SystemRandomness

FEW: Final = 1_000
"""Sessions of the store that the large one is held against."""

_CHUNK: Final = 10_000
_DAY: Final = 86_400.0
_STORE: Final = "store of 20,000 sessions"
_SIZE: Final = Figure(
    "store-size",
    f"{_STORE}, size",
    "B a session",
    Goal("at most", 3_000),
    "a session is packed, but its receipt is kept as it is, with all facts that its bundle is made of",
)
_TWICE: Final = Goal("at most", 2.0)
_COMMANDS: Final = {
    name: Figure(f"store-{name}", f"{_STORE}, `{' '.join(words[:2])}`", f"x {FEW:,}", _TWICE)
    for name, words in (("list", ("session", "list")), ("show", ("session", "show")), ("status", ("status",)))
}
_PAGES: Final = {
    name: Figure(f"store-page-{name}", f"{_STORE}, page {name} of the Studio", f"x {FEW:,}", _TWICE)
    for name in PAGES
}
_START: Final = Figure("store-ready", f"{_STORE}, READY", "s", Goal("at most", 2.0))
_MEDIAN: Final = Figure("store-write-p50", f"{_STORE}, p50 of a write", "x empty", Goal("at most", 1.5))
_SLOWEST: Final = Figure("store-write-p99", f"{_STORE}, p99 of a write", "x empty", Goal("at most", 3.0))
_WAIT: Final = Figure(
    "store-prune", f"{_STORE}, longest verdict while half is pruned", "ms", Goal("at most", 100.0)
)


class Later(SystemClock):
    """The clock in ten days."""

    def now(self) -> float:
        return super().now() + 10 * _DAY


def _large_store(conditions: Conditions) -> list[Measured]:
    """The figures of a store with so many sessions."""
    sessions, repeats = conditions.size(20_000, 2_000), conditions.repeats
    memory = conditions.memory
    with scratch(memory) as small, scratch(memory) as large:
        fill(small, range(FEW))
        fill(large, range(sessions))
        begin = time.perf_counter()
        packed = asyncio.run(pack(large))
        took = time.perf_counter() - begin
        beside = f"{packed:,} packed, {took / max(1, packed) * 1e3:.2f} ms each"
        size = _bytes_a_session(large)
        measured = [Measured(_SIZE, size, (size, size), beside)]
        measured += [_command(name, small, large, 5 * repeats) for name in _COMMANDS]
        measured += _pages(small, large, 5 * repeats)
        measured.append(of_samples(_START, [_start_up(large) for _ in range(repeats)]))
        with scratch(memory) as empty:
            fill(empty, range(0))
            usual, there = [asyncio.run(_writes(each, 100 * repeats)) for each in (empty, large)]
        for share, figure in ((0.5, _MEDIAN), (0.99, _SLOWEST)):
            ratio = _share(there, share) / _share(usual, share)
            beside = (
                f"{_share(there, share) * 1e3:.2f} ms, {_share(usual, share) * 1e3:.2f} ms in an empty store"
            )
            measured.append(Measured(figure, ratio, (ratio, ratio), beside))
        return [*measured, asyncio.run(_prune_half(large, sessions))]


def _runward(place: Scratch, *words: str) -> list[str]:
    config = str(place.directory / "runward.toml")
    return [sys.executable, "-c", "from runward.daemon.cli import main; main()", "--config", config, *words]


def state_of(place: Scratch) -> Path:
    return place.directory / "state"


def fill(place: Scratch, runs: range) -> None:
    """Have a daemon record these runs, which are removed then."""
    (place.directory / "runward.toml").write_text(
        f'state_dir = "{state_of(place)}"\n[[roots]]\nname = "runs"\npath = "{place.runs}"\n'
    )
    for first in range(runs.start, max(runs.start + 1, runs.stop), _CHUNK):
        numbers = range(first, min(first + _CHUNK, runs.stop))
        make(str(place.runs), numbers)
        finish(str(place.runs), numbers)
        subprocess.run(_runward(place, "daemon", "--once", "--quiet"), check=True)
        for number in numbers:
            shutil.rmtree(place.runs / run_name(number))
    with closing(sqlite3.connect(state_of(place) / "runward.db")) as connection:
        (recorded,) = connection.execute("select count(*) from sessions where status <> 'running'").fetchone()
    assert recorded == runs.stop, f"{recorded} of {runs.stop} runs were judged"


async def pack(place: Scratch) -> int:
    """Pack all of it, as a daemon would in the background; returns how many sessions."""
    store = Store(await connect(state_of(place) / "runward.db"))
    await store.take_over()
    await store.run(
        [Statement("update daemon set settled = (select coalesce(max(id), 0) from journal_lines)", [()])],
        "bench",
    )
    clock = Later()
    queue = Queue(store, clock, SystemRandomness())
    await queue.start()
    packer = Packer(store, clock, SILENT, queue, lambda: False)
    await packer.drain()
    await store.close()
    return packer.packed


def _bytes_a_session(place: Scratch) -> float:
    with closing(sqlite3.connect(state_of(place) / "runward.db")) as connection:
        size, pages, free = (
            connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        (sessions,) = connection.execute("select count(*) from sessions").fetchone()
    return float(size * (pages - free) / sessions)


def _command(command: str, small: Scratch, large: Scratch, times: int) -> Measured:
    """A command's time there and among few sessions, in turn."""
    took: dict[str, list[float]] = {"small": [], "large": []}
    for _ in range(times):
        for size, place in (("small", small), ("large", large)):
            words = {
                "list": ["session", "list", "--limit", "50"],
                "show": ["session", "show", run_name(FEW // 2)],
                "status": ["status", "--json"],
            }[command]
            begin = time.perf_counter()
            subprocess.run(_runward(place, *words), stdout=subprocess.DEVNULL, check=False)
            took[size].append(time.perf_counter() - begin)
    beside = f"{statistics.median(took['large']) * 1e3:.0f} ms"
    return of_ratio(_COMMANDS[command], took["large"], took["small"], beside)


def _pages(small: Scratch, large: Scratch, times: int) -> list[Measured]:
    """The time of each page of the Studio there and among few sessions, in turn."""
    with daemon(small, SETTINGS) as few, daemon(large, SETTINGS) as many:
        visitors = []
        for place, running in ((small, few), (large, many)):
            running.wait_scanned()
            visitors.append(Visitor(state_of(place)))
        measured = []
        for name, path in PAGES.items():
            took: tuple[list[float], list[float]] = ([], [])
            for turn in range(times + 1):
                for visitor, seconds in zip(visitors, took, strict=True):
                    lasted = visitor.seconds(f"{path}?request={uuid.uuid4()}")
                    if turn:  # the first one starts the program
                        seconds.append(lasted)
            beside = f"{statistics.median(took[1]) * 1e3:.0f} ms"
            measured.append(of_ratio(_PAGES[name], took[1], took[0], beside))
    return measured


def _start_up(place: Scratch) -> float:
    with daemon(place) as running:
        return running.ready_at - running.started_at


async def _writes(place: Scratch, count: int) -> list[float]:
    """Seconds from a run's end on the disk to its durable verdict, one after the other, in a daemon of this process."""
    took = []
    async with daemon_in_process(place.directory, StillClock(time.time()), ToldProcesses()) as running:
        for index in range(count):
            directory = _make_one(running.root, index)
            running.supervisor.assembly.hints.add([("runs", directory.name)], Why.WATCH)
            await running.supervisor.assembly.worker.turn()
            _end_one(directory)
            running.supervisor.assembly.hints.add([("runs", directory.name)], Why.WATCH)
            begin = time.perf_counter()
            await running.supervisor.assembly.worker.turn()
            took.append(time.perf_counter() - begin)
        await running.work()
        await running.stop()
    return took


async def _prune_half(place: Scratch, sessions: int) -> Measured:
    """The longest that a verdict took while half of the sessions were pruned, and verdicts came 20 a second."""
    with closing(sqlite3.connect(state_of(place) / "runward.db")) as connection:
        (middle,) = connection.execute(
            "select finished_at from sessions order by finished_at limit 1 offset ?", (sessions // 2,)
        ).fetchone()
    waits = []
    async with daemon_in_process(
        place.directory, StillClock(time.time() + 3 * _DAY), ToldProcesses()
    ) as running:
        supervisor = running.supervisor
        pruner = Pruner(
            running.store,
            SystemClock(),
            SILENT,
            supervisor.assembly.pruner.files,
            supervisor.assembly.queue,
            lambda: supervisor.assembly.worker.busy,
            None,
            ClockTrust(None, SystemClock()),
        )
        asked = "insert into prunings (event, before, said_by) values (0, ?, 'bench')"
        await running.store.run([Statement(asked, [(middle,)])], "bench")
        begin = time.perf_counter()
        task = asyncio.create_task(pruner.drain())
        checkpointer = Checkpointer(running.state / "runward.db")
        upkeep = asyncio.create_task(Upkeep(running.store, checkpointer, lambda: None, SILENT).run())
        index = 500_000
        while not task.done():
            await asyncio.sleep(0.05)
            directory, index = _make_one(running.root, index), index + 1
            _end_one(directory)
            ended = time.perf_counter()
            supervisor.assembly.hints.add([("runs", directory.name)], Why.WATCH)
            await supervisor.assembly.worker.turn()
            waits.append(time.perf_counter() - ended)
        took = time.perf_counter() - begin
        ((pruned,),) = await running.rows("select sessions from prunings where event = 0")
        upkeep.cancel()
        checkpointer.close()
        await running.work()
    longest = max(waits) * 1e3
    next_ones = ", ".join(f"{each * 1e3:.0f}" for each in sorted(waits)[-6:-1])
    told = (
        f"{int(str(pruned)):,} pruned in {took:.0f} s; {len(waits):,} verdicts, p50 {_share(waits, 0.5) * 1e3:.1f} ms,"
        f" the next longest {next_ones} ms"
    )
    return Measured(_WAIT, longest, (0.0, longest), told)


def _make_one(root: Path, index: int) -> Path:
    directory = root / f"one-{index}"
    (directory / "artifacts").mkdir(parents=True)
    (directory / "artifacts" / "report.md").write_text("x")
    contract = {"expected": [{"id": "report", "path": "report.md", "required": True}]}
    started = {"schema": "runward-run-v1", "started_at": "2026-02-03T04:05:06Z", "contract": contract}
    (directory / "run.json").write_text(json.dumps(started))
    return directory


def _end_one(directory: Path) -> None:
    (directory / "exit.tmp").write_text(json.dumps({"exit_code": 0, "finished_at": "2026-02-03T04:06:07Z"}))
    (directory / "exit.tmp").rename(directory / "exit.json")


def _share(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


MEASUREMENTS: Final = (
    Measurement(
        "store",
        "size, commands, pages, start and writes of a large store against a small one, and verdicts while half is pruned",
        (_SIZE, *_COMMANDS.values(), *_PAGES.values(), _START, _MEDIAN, _SLOWEST, _WAIT),
        _large_store,
    ),
)
