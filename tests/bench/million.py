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

from tests.bench.figure import Figure, Goal, of_ratio, of_samples
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

_A_DAYS: Final = 100_000
"""Sessions that end between one packing and the next."""

_CHUNK: Final = 10_000
_DAY: Final = 86_400.0
_SIZE: Final = Goal("at most", 3_000)
_COMMAND: Final = Goal("at most", 2.0)
_START: Final = Goal("at most", 2.0)
_WAIT: Final = Goal("at most", 100.0)
_MEDIAN, _SLOWEST = Goal("at most", 1.5), Goal("at most", 3.0)


class Later(SystemClock):
    """The clock in ten days."""

    def now(self) -> float:
        return super().now() + 10 * _DAY


def million(memory: Path, sessions: int, repeats: int) -> list[Figure]:
    """The figures of a store with so many sessions."""
    with scratch(memory) as small, scratch(memory) as large:
        _fill(small, range(FEW))
        packed, took = 0, 0.0
        for first in range(0, sessions, _A_DAYS):
            _fill(large, range(first, min(first + _A_DAYS, sessions)))
            begin = time.perf_counter()
            packed += asyncio.run(_pack(large))
            took += time.perf_counter() - begin
            print(f"  {packed:,} of {sessions:,} recorded and packed", file=sys.stderr)
        name = f"store of {sessions:,} sessions"
        told = f"{packed:,} packed, {took / max(1, packed) * 1e3:.2f} ms each"
        figures = [Figure(f"{name}, size", *_bytes_a_session(large), _SIZE, told)]
        for command in ("list", "show", "status"):
            figures.append(_command(name, command, small, large, 5 * repeats))
        figures += _pages(name, small, large, 5 * repeats)
        figures.append(of_samples(f"{name}, READY", [_start_up(large) for _ in range(repeats)], "s", _START))
        with scratch(memory) as empty:
            _fill(empty, range(0))
            usual, there = [asyncio.run(_writes(each, 100 * repeats)) for each in (empty, large)]
        for share, word, goal in ((0.5, "p50", _MEDIAN), (0.99, "p99", _SLOWEST)):
            ratio = _share(there, share) / _share(usual, share)
            beside = (
                f"{_share(there, share) * 1e3:.2f} ms, {_share(usual, share) * 1e3:.2f} ms in an empty store"
            )
            figures.append(
                Figure(f"{name}, {word} of a write", ratio, "x empty", (ratio, ratio), goal, beside)
            )
        return [*figures, asyncio.run(_prune_half(name, large, sessions))]


def _runward(place: Scratch, *words: str) -> list[str]:
    config = str(place.directory / "runward.toml")
    return [sys.executable, "-c", "from runward.daemon.cli import main; main()", "--config", config, *words]


def _state(place: Scratch) -> Path:
    return place.directory / "state"


def _fill(place: Scratch, runs: range) -> None:
    """Have a daemon record these runs, which are removed then."""
    (place.directory / "runward.toml").write_text(
        f'state_dir = "{_state(place)}"\n[[roots]]\nname = "runs"\npath = "{place.runs}"\n'
    )
    for first in range(runs.start, max(runs.start + 1, runs.stop), _CHUNK):
        numbers = range(first, min(first + _CHUNK, runs.stop))
        make(str(place.runs), numbers)
        finish(str(place.runs), numbers)
        subprocess.run(_runward(place, "daemon", "--once", "--quiet"), check=True)
        for number in numbers:
            shutil.rmtree(place.runs / run_name(number))
    with closing(sqlite3.connect(_state(place) / "runward.db")) as connection:
        (recorded,) = connection.execute("select count(*) from sessions where status <> 'running'").fetchone()
    assert recorded == runs.stop, f"{recorded} of {runs.stop} runs were judged"


async def _pack(place: Scratch) -> int:
    """Pack all of it, as a daemon would in the background; returns how many sessions."""
    store = Store(await connect(_state(place) / "runward.db"))
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


def _bytes_a_session(place: Scratch) -> tuple[float, str, tuple[float, float]]:
    with closing(sqlite3.connect(_state(place) / "runward.db")) as connection:
        size, pages, free = (
            connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        (sessions,) = connection.execute("select count(*) from sessions").fetchone()
    value = size * (pages - free) / sessions
    return value, "B a session", (value, value)


def _command(name: str, command: str, small: Scratch, large: Scratch, times: int) -> Figure:
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
    ratio = statistics.median(took["large"]) / statistics.median(took["small"])
    beside = f"{statistics.median(took['large']) * 1e3:.0f} ms"
    return Figure(f"{name}, `{command}`", ratio, f"x {FEW:,}", (ratio, ratio), _COMMAND, beside)


def _pages(name: str, small: Scratch, large: Scratch, times: int) -> list[Figure]:
    """The time of each page of the Studio there and among few sessions, in turn."""
    with daemon(small, SETTINGS) as few, daemon(large, SETTINGS) as many:
        visitors = []
        for place, running in ((small, few), (large, many)):
            running.wait_scanned()
            running.settle()
            visitors.append(Visitor(_state(place)))
        figures = []
        for title, path in PAGES.items():
            took: tuple[list[float], list[float]] = ([], [])
            for turn in range(times + 1):
                for visitor, seconds in zip(visitors, took, strict=True):
                    lasted = visitor.seconds(f"{path}?request={uuid.uuid4()}")
                    if turn:  # the first one starts the program
                        seconds.append(lasted)
            beside = f"{statistics.median(took[1]) * 1e3:.0f} ms"
            figures.append(
                of_ratio(f"{name}, page {title}", took[1], took[0], _COMMAND, beside, unit=f"x {FEW:,}")
            )
    return figures


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


async def _prune_half(name: str, place: Scratch, sessions: int) -> Figure:
    """The longest that a verdict took while half of the sessions were pruned, and verdicts came 20 a second."""
    with closing(sqlite3.connect(_state(place) / "runward.db")) as connection:
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
    return Figure(f"{name}, longest verdict while half is pruned", longest, "ms", (0.0, longest), _WAIT, told)


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
