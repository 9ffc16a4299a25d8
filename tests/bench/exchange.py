"""What the exchange costs: code in the sandbox, and intents that runs write.

The yardstick of code is a bare worker: an interpreter that was started in advance, without a sandbox, and that is used once,
too. That of intents is a program that reads the lines and writes the same rows, 256 in a commit.
"""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Self

from tests.bench.figure import Figure, Goal, of_ratio, percentile
from tests.bench.product import DaemonFailed, daemon
from tests.bench.scratch import Scratch, scratch

from runward.config.executor import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox.calls import Call
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.ready_workers import ReadyWorkers
from runward.daemon.sandbox.workers import Job, Worker, execute
from runward.daemon.store import reading

_WARM: Final = Goal("at most", 3.0)
_THROUGHPUT: Final = Goal("at least", 0.6)
_DEEP: Final = Goal("at most", 8.0)
_INTENTS: Final = Goal("at least", 0.25)
_RUNS: Final = 8
_BATCH: Final = 256
_STALLED_S: Final = 60.0
_ONE: Final = "def run(*args): return 1"
_NESTED: Final = "def run(n): return invoke('again', n - 1)['result'] if n else 1"
_BARE: Final = (
    "import json, sys\nimport math, random, datetime\nsys.stdout.write('+')\nsys.stdout.flush()\n"
    "job = json.loads(sys.stdin.readline())\nnames = {}\nexec(job['code'], names)\n"
    "print(json.dumps(names['run'](*job['args'])), flush=True)\n"
)


def exchange(disk: Path, calls: int, intents: int, repeats: int) -> list[Figure]:
    """Seconds of single calls, calls a second, and intents a second, each beside its yardstick."""
    try:
        Worker(Executor()).close()
    except NoSandbox as missing:
        print(f"exchange: code is left out, this machine has no sandbox: {missing}", file=sys.stderr)
        return _intents(disk, intents, repeats)
    return [*_code(calls, repeats), *_intents(disk, intents, repeats)]


def _code(calls: int, repeats: int) -> list[Figure]:
    executor = Executor(workers=6)
    warm: list[float] = []
    bare: list[float] = []
    deep: list[float] = []
    rate: list[float] = []
    bare_rate: list[float] = []
    with _ready(executor) as ready, _BareWorkers(executor.workers) as workers:
        for _ in range(repeats):
            bare.append(_p50(calls, workers.are_ready, workers.call))
            warm.append(_p50(calls, lambda: ready.count == executor.workers, lambda: _call(executor, ready)))
            deep.append(
                _p50(
                    max(2, calls // 5),
                    lambda: ready.count == executor.workers,
                    lambda: _five(executor, ready),
                )
            )
            bare_rate.append(_rate(calls, workers.call))
            rate.append(_rate(calls, lambda: _call(executor, ready)))
    beside = f"{percentile(warm, 0.5) * 1000:.1f} ms against {percentile(bare, 0.5) * 1000:.1f}"
    return [
        of_ratio("warm execute of return 1, p50", warm, bare, _WARM, beside, unit="x bare worker"),
        of_ratio(
            "executions a second, two at once", rate, bare_rate, _THROUGHPUT,
            f"{percentile(rate, 0.5):.1f}/s against {percentile(bare_rate, 0.5):.1f}", unit="x bare workers",
        ),
        of_ratio("five calls deep, p50", deep, warm, _DEEP, f"{percentile(deep, 0.5) * 1000:.1f} ms", unit="x one call"),
    ]  # fmt: skip


def _call(executor: Executor, ready: ReadyWorkers) -> None:
    ended = execute(Job(_ONE, []), executor, take=ready.take)
    if ended.result != 1:
        raise DaemonFailed(f"code ended with {ended}")


def _five(executor: Executor, ready: ReadyWorkers) -> None:
    def answer(call: Call) -> JsonValue:
        args = call.args[2]
        assert isinstance(args, list)
        return {"result": execute(Job(_NESTED, args, answer=answer), executor, take=ready.take).result}

    if execute(Job(_NESTED, [5], answer=answer), executor, take=ready.take).result != 1:
        raise DaemonFailed("five calls deep did not end well")


def _p50(calls: int, is_ready: Callable[[], bool], call: Callable[[], None]) -> float:
    """The median of calls that find everything ready."""
    taken = []
    for _ in range(calls):
        _until(is_ready, "workers to be ready")
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return percentile(taken, 0.5)


def _rate(calls: int, call: Callable[[], None]) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(call) for _ in range(calls)]:
            done.result()
    return calls / (time.perf_counter() - began)


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _STALLED_S
    while not holds():
        if time.monotonic() > deadline:
            raise DaemonFailed(f"waited {_STALLED_S:.0f} s for {what}")
        time.sleep(0.002)


@contextmanager
def _ready(executor: Executor) -> Iterator[ReadyWorkers]:
    ready = ReadyWorkers(idle_s=3600.0)
    try:
        ready.take(executor).close()
        yield ready
    finally:
        ready.close()


class _BareWorkers:
    """Interpreters that wait for one job each, without a sandbox; a thread starts the next ones."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._ready: list[subprocess.Popen[str]] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._keep)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()
        for each in self._ready:
            each.kill()
            each.communicate()

    def are_ready(self) -> bool:
        with self._changed:
            return len(self._ready) == self._count

    def call(self) -> None:
        with self._changed:
            worker = self._ready.pop() if self._ready else None
            self._changed.notify()
        worker = worker or self._start()
        said, _ = worker.communicate(json.dumps({"code": _ONE, "args": []}) + "\n")
        if said != "1\n":
            raise DaemonFailed(f"a bare worker said {said!r}")

    @staticmethod
    def _start() -> subprocess.Popen[str]:
        command = [sys.executable, "-I", "-S", "-B", "-c", _BARE]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        assert worker.stdout.read(1) == "+"
        return worker

    def _keep(self) -> None:
        while True:
            with self._changed:
                while len(self._ready) >= self._count and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
            worker = self._start()
            with self._changed:
                self._ready.append(worker)


def _lines(run: int, count: int) -> list[str]:
    """Reads and writes in turn."""
    return [
        json.dumps(
            {"action_type": "write_artifact", "artifact_id": f"note-{run}", "content": f"text {number}", "reasoning": "to keep it"}
            if number % 2 == 0
            else {"action_type": "read_artifact", "artifact_id": f"note-{run}", "reasoning": "to see it"}
        )
        for number in range(count)
    ]  # fmt: skip


def _intents(disk: Path, count: int, repeats: int) -> list[Figure]:
    each = count // _RUNS
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(repeats):
        theirs.append(count / _bare_s(disk, each))
        ours.append(count / _daemon_s(disk, each))
    beside = f"{percentile(ours, 0.5):,.0f}/s against {percentile(theirs, 0.5):,.0f}/s"
    return [of_ratio(f"{count:,} reads and writes of {_RUNS} runs", ours, theirs, _INTENTS, beside)]


def _daemon_s(disk: Path, each: int) -> float:
    """Seconds from the moment at which the lines are there until each has its result in the store."""
    with scratch(disk) as place:
        with daemon(place):
            for run in range(_RUNS):
                directory = place.runs / f"run-{run}"
                directory.mkdir()
                document = {
                    "schema": "runward-run-v1",
                    "started_at": "2026-01-01T00:00:00Z",
                    "agent": f"agent-{run}",
                    "pid": os.getpid(),
                }
                (directory / "run.json").write_text(json.dumps(document))
            _until(lambda: _counted(place, "select count(*) from sessions") == _RUNS, "the runs to be seen")
            began = time.monotonic()
            for run in range(_RUNS):
                lines = "".join(f"{line}\n" for line in _lines(run, each))
                (place.runs / f"run-{run}/intents.jsonl").write_text(lines)
            wanted = _RUNS * each
            last, moved_at = -1, began
            while (done := _counted(place, "select count(*) from actions")) < wanted:
                if done != last:
                    last, moved_at = done, time.monotonic()
                if time.monotonic() > moved_at + _STALLED_S:
                    raise DaemonFailed(
                        f"{done} of {wanted} intents have a result, and no further one for {_STALLED_S:.0f} s"
                    )
                time.sleep(0.01)
            taken = time.monotonic() - began
        if (failed := _counted(place, "select count(*) from actions where not is_success")) or done != wanted:
            raise DaemonFailed(f"{failed} intents failed, and {done} of {wanted} have a result")
        return taken  # fmt: skip


def _counted(place: Scratch, sql: str) -> int:
    with closing(reading.open_to_read(str(place.directory / "state" / reading.STORE))) as connection:
        ((found,),) = connection.execute(sql).fetchall()
    return int(found)


_SCHEMA: Final = """
create table events (seq integer primary key, key text unique, type text, at real, payload text, prev text, hash text) strict;
create table actions (seq integer primary key, key text unique, at real, principal text, session_key text, line integer,
    action_type text, artifact_id text, intent text, result text, is_success integer, scrip_after integer) strict;
create table contents (hash text primary key, content text) strict;
create table artifacts (id text primary key, content text, owner text, updated_at real, version integer) strict;
create table versions (id text, version integer, at real, content text, primary key (id, version)) strict;
"""


def _bare_s(disk: Path, each: int) -> float:
    """Seconds of a program that reads the lines and writes two events, an action, and of a write its content and version."""
    with scratch(disk) as place:
        for run in range(_RUNS):
            (place.directory / f"{run}.jsonl").write_text("".join(f"{line}\n" for line in _lines(run, each)))
        with closing(sqlite3.connect(place.directory / "bare.db", isolation_level=None)) as store:
            store.execute("pragma journal_mode = wal")
            store.execute("pragma synchronous = full")
            store.executescript(_SCHEMA)
            began = time.monotonic()
            store.execute("begin")
            waiting = 0
            previous = ""
            for run in range(_RUNS):
                for number, line in enumerate((place.directory / f"{run}.jsonl").read_text().splitlines()):
                    previous = _bare_row(store, run, number, line, previous)
                    waiting += 1
                    if waiting % _BATCH == 0:
                        store.execute("commit")
                        store.execute("begin")
            store.execute("commit")
            return time.monotonic() - began


def _bare_row(store: sqlite3.Connection, run: int, number: int, line: str, previous: str) -> str:
    intent = json.loads(line)
    now, key = time.time(), f"run-{run}#{number}"
    for kind in ("intent", "action"):
        digest = hashlib.sha256(f"{previous}{line}".encode()).hexdigest()
        row = (f"{key}/{kind}", kind, now, line, previous, digest)
        store.execute(
            "insert into events (key, type, at, payload, prev, hash) values (?, ?, ?, ?, ?, ?)", row
        )
        previous = digest
    if intent["action_type"] == "write_artifact":
        content = hashlib.sha256(intent["content"].encode()).hexdigest()
        store.execute("insert or ignore into contents values (?, ?)", (content, intent["content"]))
        store.execute(
            "insert into artifacts values (?, ?, ?, ?, 1) on conflict (id) do update set content = excluded.content,"
            " updated_at = excluded.updated_at, version = version + 1",
            (intent["artifact_id"], content, f"agent-{run}", now),
        )
        store.execute(
            "insert into versions select id, version, updated_at, content from artifacts where id = ?",
            (intent["artifact_id"],),
        )
    else:
        store.execute("select * from artifacts where id = ?", (intent["artifact_id"],)).fetchone()
    store.execute(
        "insert into actions (key, at, principal, session_key, line, action_type, artifact_id, intent, result, is_success,"
        " scrip_after) values (?, ?, ?, ?, ?, ?, ?, ?, '{}', 1, 0)",
        (key, now, f"agent-{run}", f"run-{run}", number, intent["action_type"], intent["artifact_id"], line),
    )
    return previous
