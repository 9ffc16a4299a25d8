"""Code whose workers are killed, or whose results the disk refuses: each invocation has one result and is paid for once."""

import os
import random
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from tests.code_in_process import AtOnce
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.parts.test_exchange import append, begin, results, settle, write
from tests.daemon.store.uncertain import Uncertain

from runward.config.exchange import ExchangeRules, Executor
from runward.config.json_value import JsonValue
from runward.daemon.host.acting_with_code import _ready_workers, acting_with_code
from runward.daemon.parts.actions_with_code import CodeTrouble
from runward.daemon.sandbox import isolated, leftovers
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Worker
from runward.daemon.store.transaction import as_float, as_int

KILLS = 100
SPARED = 20
REFUSED = 5
PRICE, SCRIP = 2, 1000
RULES = ExchangeRules(cpu_seconds=1000.0)
BALANCES = "select account, amount from balances"
INVOKE: dict[str, JsonValue] = {
    "action_type": "invoke_artifact",
    "artifact_id": "code",
    "method": "run",
    "args": [],
}
CODE = """
import time
def run():
    until = time.monotonic() + 0.03
    while time.monotonic() < until:
        pass
    return 1
"""


class Workers:
    """Gives new workers, counts them, and kills some of them at random while they run."""

    def __init__(self, kills: int, spared: int) -> None:
        self._chance = random.Random(16)
        self.turns = [True] * kills + [False] * spared
        self._chance.shuffle(self.turns)
        self.taken = self.killed = 0
        self._spares_all = True

    def begin(self) -> None:
        """Kill from now on: the code was written, and checked."""
        self.taken, self._spares_all = 0, False

    def take(self, executor: Executor) -> Worker:
        worker = Worker(executor)
        self.taken += 1
        if not self._spares_all and self.turns[self.taken % len(self.turns)]:
            isolated = worker._isolated
            victim = self._chance.choice((isolated.outer, isolated.inner))
            assert victim is not None
            after_s = self._chance.random() * 0.03
            threading.Timer(after_s, self._kill, (os.dup(victim),)).start()
        return worker

    def _kill(self, victim: int) -> None:
        try:
            signal.pidfd_send_signal(victim, signal.SIGKILL)
            self.killed += 1
        except ProcessLookupError:
            pass  # it ended before
        finally:
            os.close(victim)


@pytest.fixture
def _sandbox() -> None:
    try:
        Worker(Executor()).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")


async def until_all_is_done(running: Daemon, run: Path, count: int) -> None:
    for _ in range(20 * count):
        try:
            await settle(running)
        except sqlite3.OperationalError:
            pass  # the disk refuses; the daemon tries again
        if (run / "results.jsonl").exists() and len(results(run)) == count:
            return
        running.clock.move(0.25)
        running.supervisor.assembly.queue.may_be_due = True
    raise AssertionError(f"not all is done: {await running.rows('select lane, state, error from jobs')}")


async def holds(running: Daemon, run: Path, count: int) -> Counter[object]:
    """Whether each line has one result and nothing is paid twice; what became of the lines."""
    told = results(run)
    assert [each["line"] for each in told] == list(range(1, count + 1))
    became: list[dict[str, Any]] = [each["result"] for each in told]  # type: ignore[misc] # objects
    codes: Counter[object] = Counter(each.get("error_code") for each in became)
    balances = {str(name): as_int(amount) for name, amount in await running.rows(BALANCES)}
    assert balances["reader"] == SCRIP - PRICE * codes[None]
    assert balances.get("writer", 0) == PRICE * codes[None]
    charged = await running.rows("select seconds from cpu_use where principal = 'reader'")
    said = [each.get("resources_consumed") or {} for each in became]
    assert sum(as_float(seconds) for (seconds,) in charged) == pytest.approx(
        sum(each.get("cpu_seconds", 0.0) for each in said)
    )
    return codes


async def play(base: Path, workers: Workers, refusals: int = 0) -> Counter[object]:
    connections: list[Uncertain] = []
    trouble = CodeTrouble()
    count = len(workers.turns)

    def wrap(connection: object) -> Uncertain:
        connections.append(Uncertain(connection))  # type: ignore[arg-type] # what the daemon hands in
        return connections[-1]

    with ExitStack() as stack:
        replaced = "runward.daemon.host.acting_with_code._ready_workers"
        stack.enter_context(patch(replaced, lambda died: SimpleNamespace(take=workers.take)))
        at_once = SimpleNamespace(Thread=AtOnce)
        stack.enter_context(patch("runward.daemon.parts.actions_with_code.threading", at_once))
        work = acting_with_code(lambda: RULES, lambda: Executor(timeout=20.0), base / "state", trouble)
        async with daemon(
            base, StillClock(), ToldProcesses(), wrap=wrap, exchange=RULES, act_with_code=work
        ) as running:
            owner = begin(base, "owner", "writer")
            run = begin(base, "run", "reader", scrip=SCRIP)
            append(owner, write("code", "", code=CODE, executable=True, price=PRICE))
            await until_all_is_done(running, owner, 1)
            workers.begin()
            append(run, *[INVOKE] * count)
            connections[0].commits = [
                "well",
                "not done",
                "not done",
                "done, but told to have failed",
            ] * refusals
            await until_all_is_done(running, run, count)
            codes = await holds(running, run, count)
            killed = trouble.killed.report()
            assert (0 if killed is None else killed.count) == codes["killed"], "`status` counts each of them"
            return codes


@pytest.mark.prove
@pytest.mark.usefixtures("_sandbox")
async def test_a_hundred_workers_that_are_killed_cost_each_caller_once(tmp_path: Path) -> None:
    workers = Workers(KILLS, SPARED)
    codes = await play(tmp_path, workers)
    assert workers.killed > KILLS / 2, "those that ended before"
    assert set(codes) == {None, "killed"}, codes
    assert codes[None] >= SPARED, codes
    assert workers.taken == len(workers.turns), "one worker for each invocation: none runs again after a kill"


@pytest.mark.prove
@pytest.mark.usefixtures("_sandbox")
async def test_a_disk_that_refuses_results_has_nothing_paid_twice(tmp_path: Path) -> None:
    workers = Workers(0, spared=12)
    assert await play(tmp_path, workers, refusals=REFUSED) == {None: 12}
    assert workers.taken == 12, "what ended is kept until the disk takes it"


def test_status_says_that_nobody_would_end_what_is_left() -> None:
    trouble = CodeTrouble()
    assert trouble.degraded() == []
    _ready_workers(trouble).close()
    assert trouble.watcher == leftovers.WATCHER.trouble

    trouble.refused, trouble.watcher = "no sandbox", lambda: "it has ended"
    assert trouble.degraded() == [f"{isolated.REFUSED}no sandbox", "it has ended"]
