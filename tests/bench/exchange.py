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
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self

from tests.bench.ends import RATE, Ends, Stretch, Waits
from tests.bench.figure import (
    CannotMeasure,
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
from tests.bench.latency import latencies
from tests.bench.product import DaemonFailed, daemon
from tests.bench.scratch import Scratch, scratch

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.sandbox.execution import Call
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Job, ReadyWorkers, Worker, execute
from runward.daemon.store import reading
from runward.handlers.model.exchange import PrincipalCreateRequested

_WARM: Final = Figure(
    "sandbox-warm", "the sandbox: a warm `return 1`, p50", "x bare worker", Goal("at most", 3.0)
)
_THROUGHPUT: Final = Figure(
    "sandbox-rate",
    "the sandbox: executions a second, two at once",
    "x bare workers",
    Goal("at least", 0.6),
    "a worker is used once, so each costs the start of bubblewrap and an interpreter",
)
_DEEP: Final = Figure("sandbox-deep", "the sandbox: five calls deep, p50", "x one call", Goal("at most", 8.0))
_INTENTS: Final = Figure(
    "exchange",
    "10,000 reads and writes of 8 runs",
    "x baseline",
    Goal("at least", 0.25),
    "an action is events, lines of two journals and a decision; the bare program writes only rows",
)
_READABLE: Final = Figure(
    "exchange-readable", "a line's result readable, p50", "x a verdict", Goal("at most", 3.0)
)
_SPUN: Final = Figure(
    "spinning",
    "verdicts while every worker spins, p50",
    "x usual",
    Goal("at most", 1.5),
    "workers have the daemon's priority, so two of them leave it half of one of two cores",
)
_BLOCKED: Final = Figure(
    "spinning-blocked", "loop blocked at most while every worker spins", "ms", Goal("at most", 20.0)
)
_WITHIN: Final = Figure(
    "cpu-windows",
    "1,000 calls by 8 principals at once, processor time used",
    "x their window",
    Goal("at most", 1.0),
)
_SELDOM: Final = 10
"""Ends a second, so few that each is judged alone."""
_SPINNERS: Final = 2
_RUNS: Final = 8
_ALLOCATED_S: Final = 0.25
_TIMES: Final = 1_000_000
_BATCH: Final = 256
_STALLED_S: Final = 60.0
_ONE: Final = "def run(*args): return 1"
_BURN: Final = "def run(times):\n    for _ in range(times): pass"
_SPIN: Final = '[exchange]\ncpu_seconds = "1000s"\n[exchange.executor]\ntimeout = "1s"\nworkers = 2\n'
_WINDOW: Final = f'[exchange]\ncpu_seconds = "{_ALLOCATED_S:g}s"\ncpu_window = "1h"\n'
_NESTED: Final = "def run(n): return invoke('again', n - 1)['result'] if n else 1"
_BARE: Final = (
    "import json, sys\nimport math, random, datetime\nsys.stdout.write('+')\nsys.stdout.flush()\n"
    "job = json.loads(sys.stdin.readline())\nnames = {}\nexec(job['code'], names)\n"
    "print(json.dumps(names['run'](*job['args'])), flush=True)\n"
)


def _need_sandbox() -> None:
    try:
        Worker(Executor()).close()
    except NoSandbox as missing:
        raise CannotMeasure(f"this machine has no sandbox: {missing}") from None


def _code(conditions: Conditions) -> list[Measured]:
    _need_sandbox()
    calls = conditions.size(50, 5)
    executor = Executor(workers=6)
    warm: list[float] = []
    bare: list[float] = []
    deep: list[float] = []
    rate: list[float] = []
    bare_rate: list[float] = []
    with _ready(executor) as ready, _BareWorkers(executor.workers) as workers:
        for _ in range(conditions.repeats):
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
    rates = f"{percentile(rate, 0.5):.1f}/s against {percentile(bare_rate, 0.5):.1f}"
    return [
        of_ratio(_WARM, warm, bare, beside),
        of_ratio(_THROUGHPUT, rate, bare_rate, rates),
        of_ratio(_DEEP, deep, warm, f"{percentile(deep, 0.5) * 1000:.1f} ms"),
    ]


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


def _until(holds: Callable[[], bool], what: str, most_s: float = _STALLED_S) -> None:
    deadline = time.monotonic() + most_s
    while not holds():
        if time.monotonic() > deadline:
            raise DaemonFailed(f"waited {most_s:.0f} s for {what}")
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


def _intents(conditions: Conditions) -> list[Measured]:
    count = conditions.size(10_000, 400)
    each = count // _RUNS
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(conditions.repeats):
        theirs.append(count / _bare_s(conditions.disk, each))
        ours.append(count / _daemon_s(conditions.disk, each))
    beside = f"{percentile(ours, 0.5):,.0f}/s against {percentile(theirs, 0.5):,.0f}/s"
    return [of_ratio(_INTENTS, ours, theirs, beside)]


def _readable(conditions: Conditions) -> list[Measured]:
    """How long a run waits for a line's result, against a verdict."""
    problems: list[str] = []
    lines: list[float] = []
    verdicts: list[float] = []
    count = conditions.size(80, 20)
    for _ in range(conditions.repeats):
        verdicts.append(percentile(latencies(conditions.disk, _SELDOM, count, problems), 0.5))
        lines.append(percentile(_lines_ms(conditions.disk, count), 0.5))
    beside = f"{percentile(lines, 0.5):.2f} ms against {percentile(verdicts, 0.5):.2f}"
    return [of_ratio(_READABLE, lines, verdicts, beside, problems)]


def _begin(place: Scratch, name: str, agent: str) -> Path:
    """Begin a run of this agent that lasts as long as this process; returns its directory.

    A person has made the agent a principal: no launcher started the run, so it brings no quotas.
    """
    request = PrincipalCreateRequested(f"create-{agent}", time.time(), agent)
    put(place.directory / "state", request.request, dump_request(request))
    _until(
        lambda: _counted(place, f"select count(*) from principals where id = '{agent}'") == 1, "the principal"
    )
    directory = place.runs / name
    directory.mkdir()
    document = {
        "schema": "runward-run-v1",
        "session_id": name,
        "started_at": "2026-01-01T00:00:00Z",
        "agent": agent,
        "pid": os.getpid(),
    }
    (directory / "run.json").write_text(json.dumps(document))
    return directory


def _daemon_s(disk: Path, each: int) -> float:
    """Seconds from the moment at which the lines are there until each has its result in the store."""
    with scratch(disk) as place:
        with daemon(place):
            for run in range(_RUNS):
                _begin(place, f"run-{run}", f"agent-{run}")
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


def _say(run: Path, *intents: dict[str, JsonValue]) -> None:
    with (run / "intents.jsonl").open("a") as file:
        file.writelines(json.dumps({"reasoning": "to measure", **each}) + "\n" for each in intents)


def _offered(name: str, code: str) -> dict[str, JsonValue]:
    return {
        "action_type": "write_artifact",
        "artifact_id": name,
        "executable": True,
        "price": 0,
        "code": code,
    }


def _invoked(name: str, *args: JsonValue) -> dict[str, JsonValue]:
    return {"action_type": "invoke_artifact", "artifact_id": name, "method": "run", "args": list(args)}


def _spinning(conditions: Conditions) -> list[Measured]:
    """Verdicts of runs that end while every worker spins for a second, again and again, and the daemon's loop meanwhile."""
    _need_sandbox()
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


def _lines_ms(disk: Path, count: int) -> list[float]:
    """From the moment at which a run appends a line until its result can be read, for one line after another."""
    taken: list[float] = []
    with scratch(disk) as place, daemon(place):
        run = _begin(place, "run", "agent")
        results = run / "results.jsonl"
        for number in range(count + 1):
            began = time.perf_counter()
            _say(run, {"action_type": "write_artifact", "artifact_id": "note", "content": str(number)})
            _until(partial(_has_lines, results, number + 1), "a result")
            taken.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.02)  # so that each line is a batch of its own
    return taken[1:]  # the first had to wait until the run was seen


def _has_lines(file: Path, count: int) -> bool:
    return file.exists() and file.read_bytes().count(b"\n") == count


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
        code = _offered(f"spin-{each}", "def run():\n    while True: pass")
        _say(_begin(place, f"spinner-{each}", f"spinner-{each}"), code, *[_invoked(f"spin-{each}")] * calls)
    _until(lambda: _counted(place, "select count(*) from actions") >= _SPINNERS, "the code to be written")
    began = time.time()
    _until(
        lambda: _counted(place, "select count(*) from actions") == _SPINNERS * (calls + 1), "the code to end"
    )
    if _counted(place, "select count(*) from actions where error_code = 'timeout'") != _SPINNERS * calls:
        raise DaemonFailed("not every call was cut off")
    return Stretch(began, time.time())


def _windows(conditions: Conditions) -> list[Measured]:
    """The most CPU time that one of eight principals used in its window, when each wants more than it has.

    What they are charged together must have been used by the daemon and its children, as /proc counts it.
    """
    _need_sandbox()
    problems: list[str] = []
    calls = conditions.size(125, 16)
    with scratch(conditions.disk) as place, daemon(place, _WINDOW) as running:
        runs = [_begin(place, f"run-{each}", f"agent-{each}") for each in range(_RUNS)]
        for each, run in enumerate(runs):
            _say(run, _offered(f"burn-{each}", _BURN), *[_invoked(f"burn-{each}", _TIMES)] * calls)
        _until(
            lambda: _counted(place, "select count(*) from actions") == _RUNS * (calls + 1),
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


MEASUREMENTS: Final = (
    Measurement(
        "sandbox",
        "code in the sandbox against a bare interpreter that was started in advance and is used once, too",
        (_WARM, _THROUGHPUT, _DEEP),
        _code,
    ),
    Measurement(
        "exchange",
        "intents a second against a program that reads the lines and writes the same rows, 256 in a commit",
        (_INTENTS,),
        _intents,
    ),
    Measurement(
        "exchange-readable",
        "from the moment at which a run appends a line until its result can be read, against a verdict",
        (_READABLE,),
        _readable,
    ),
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
