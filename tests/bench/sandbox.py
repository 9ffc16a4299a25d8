"""What code in the sandbox costs. The yardstick is an interpreter that was started in advance without one, and is used once, too."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Self

from tests.bench.acting_runs import until
from tests.bench.figure import (
    CannotMeasure,
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    of_ratio,
    percentile,
)
from tests.bench.product import DaemonFailed

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox.execution import Call
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Job, ReadyWorkers, Worker, execute

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
_ONE: Final = "def run(*args): return 1"
_NESTED: Final = "def run(n): return invoke('again', n - 1)['result'] if n else 1"
_BARE: Final = (
    "import json, sys\nimport math, random, datetime\nsys.stdout.write('+')\nsys.stdout.flush()\n"
    "job = json.loads(sys.stdin.readline())\nnames = {}\nexec(job['code'], names)\n"
    "print(json.dumps(names['run'](*job['args'])), flush=True)\n"
)


def need_sandbox() -> None:
    try:
        Worker(Executor()).close()
    except NoSandbox as missing:
        raise CannotMeasure(f"this machine has no sandbox: {missing}") from None


def _code(conditions: Conditions) -> list[Measured]:
    need_sandbox()
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
        until(is_ready, "workers to be ready")
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


MEASUREMENTS: Final = (
    Measurement(
        "sandbox",
        "code in the sandbox against a bare interpreter that was started in advance and is used once, too",
        (_WARM, _THROUGHPUT, _DEEP),
        _code,
    ),
)
