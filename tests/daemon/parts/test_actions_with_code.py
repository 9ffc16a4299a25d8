"""Actions for which code must run: how many at once, when one begins, and what becomes of them where none may."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.code_in_process import AtOnce
from tests.daemon.exchange.playing import RULES, StandIn
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import finish
from tests.daemon.parts.test_exchange import append, begin, results, settle, write
from tests.daemon.parts.test_killed_workers import until_all_is_done

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.cli.exchange.acting import result_so_far
from runward.daemon.host.acting_with_code import acting_with_code
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.parts import actions_with_code
from runward.daemon.parts.actions_with_code import (
    GIVEN_UP_S,
    LONGEST_TURN_S,
    PATIENT_S,
    ActionsWithCode,
    NotWorkedOut,
    failed,
)
from runward.daemon.sandbox.execution import Call, CpuTime, Execution
from runward.daemon.sandbox.workers import Job
from runward.daemon.store.tables.prunings import NOTHING_OWED
from runward.daemon.store.transaction import as_float, as_int
from runward.handlers.exchange.reading import Acted, ActedWithCode, CodeOf, CodeRan, Running, Unable, Worked
from runward.handlers.model.asking import Given, TryLater
from runward.handlers.model.exchange import ActionRequested
from runward.handlers.model.requests import JobDiscardRequested, JobRetryRequested


def never(asked: ActedWithCode) -> Worked:
    raise AssertionError("code runs though there are no workers")


def asked(name: str, who: str) -> ActedWithCode:
    return ActedWithCode(ActionRequested(name, 1.0, who, "{}"), Given("sha256:0", 1.0))


def test_with_zero_workers_no_code_runs() -> None:
    answer = ActionsWithCode(never, lambda: 0).answer(asked("r1", "a"))
    assert answer == Unable("no code runs: workers = 0 in [exchange.executor]")


def test_an_action_waits_for_its_principals_last_one_to_be_recorded_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began: list[str] = []
    now = [100.0]

    def work(action: ActedWithCode) -> Worked:
        began.append(action.event.key)
        return failed("killed", "as if")

    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=AtOnce))
    monkeypatch.setattr(actions_with_code, "time", SimpleNamespace(monotonic=lambda: now[0]))
    actions = ActionsWithCode(work)
    first, second, other = asked("r1", "a"), asked("r2", "a"), asked("r3", "b")
    for each in (first, second, other):
        assert actions.answer(each) == Running(0.0)
    assert began == [first.event.key, other.event.key]
    now[0] += LONGEST_TURN_S
    assert actions.answer(second) == Running(0.0)
    assert began == [first.event.key, other.event.key, second.event.key], "the first one may be held"


def sleeping(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[float]]:
    """Code holds its worker until the test ends it: the actions that began, and the time now."""
    began: list[str] = []
    now = [100.0]

    class Sleeps:
        def __init__(self, target: object, args: tuple[ActedWithCode, object], daemon: bool) -> None:
            self._action = args[0]

        def start(self) -> None:
            began.append(self._action.event.key)

    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=Sleeps))
    monkeypatch.setattr(actions_with_code, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return began, now


def test_whoever_has_waited_longest_gets_the_next_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    began, now = sleeping(monkeypatch)
    actions = ActionsWithCode(never, lambda: 1)
    sleeper, honest, other = asked("r1", "a"), asked("r2", "b"), asked("r3", "a2")
    for each in (sleeper, honest, other):
        actions.answer(each)
        now[0] += 0.1
    assert began == [sleeper.event.key]
    now[0] += PATIENT_S
    actions.answer(honest)
    actions._actions[sleeper.event.key].worked = failed("timeout", "it slept")
    for _ in range(3):
        actions.answer(other)  # it asks more often, and came later
    assert began == [sleeper.event.key]
    actions.answer(honest)
    assert began == [sleeper.event.key, honest.event.key]
    actions._actions[honest.event.key].worked = failed("killed", "as if")
    now[0] += GIVEN_UP_S / 2
    actions.answer(other)
    assert began[2:] == [other.event.key]


def test_an_action_that_asks_no_more_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    began, now = sleeping(monkeypatch)
    actions = ActionsWithCode(never, lambda: 1)
    first, discarded, last = asked("r1", "a"), asked("r2", "b"), asked("r3", "c")
    for each in (first, discarded, last):
        actions.answer(each)
        now[0] += PATIENT_S
    actions.answer(discarded)
    actions._actions[first.event.key].worked = failed("killed", "as if")
    actions.answer(last)
    assert began == [first.event.key]
    now[0] += GIVEN_UP_S + 0.1
    actions.answer(last)
    assert began == [first.event.key, last.event.key]


async def test_the_code_of_actions_that_wait_together_runs_once_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=AtOnce))
    code = StandIn(tmp_path / "state")
    monkeypatch.setattr("runward.daemon.sandbox.workers.execute", code._execute)
    invoke: dict[str, JsonValue] = {
        "action_type": "invoke_artifact",
        "artifact_id": "code",
        "method": "run",
        "args": [],
    }
    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), exchange=RULES, act_with_code=code.act
    ) as running:
        owner, run = begin(tmp_path, "owner", "writer"), begin(tmp_path, "run", "reader", scrip=10)
        append(owner, write("code", "", code="done 0.1", executable=True, price=2))
        await until_all_is_done(running, owner, 1)
        append(run, *[invoke] * 4)
        await until_all_is_done(running, run, 4)
        assert [each["result"]["data"]["price_paid"] for each in results(run)] == [2] * 4  # type: ignore[index,call-overload] # objects
        charged = await running.rows("select seconds from cpu_use where principal = 'reader'")
        assert [as_float(seconds) for (seconds,) in charged] == [0.1] * 4


async def test_nobody_waits_for_code_that_lists_everything_and_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep, woken = threading.Semaphore(0), threading.Semaphore(0)
    threads: list[threading.Thread] = []

    class Kept(threading.Thread):
        """A thread whose end the test can wait for."""

        def start(self) -> None:
            threads.append(self)
            super().start()

    def listing(job: Job, executor: Executor, cpu: CpuTime, deadline: float, take: object) -> Execution:
        if job.defines is not None:
            return Execution(None, sandbox="a stand-in")
        assert job.answer is not None
        job.answer(Call("invoke", ("genesis_store", "list", [])))
        asleep.release()
        assert woken.acquire(timeout=60.0)
        cpu.ended += 0.25
        return Execution(None, "done", began=True, cpu_s=0.25, sandbox="a stand-in")

    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=Kept))
    code = acting_with_code(lambda: RULES, Executor, tmp_path / "state")
    monkeypatch.setattr("runward.daemon.sandbox.workers.execute", listing)
    invoke: dict[str, JsonValue] = {"action_type": "invoke_artifact", "artifact_id": "code", "method": "run"}
    async with daemon(tmp_path, StillClock(), ToldProcesses(), exchange=RULES, act_with_code=code) as running:
        owner, run = begin(tmp_path, "owner", "writer"), begin(tmp_path, "run", "sleeper", scrip=10)
        append(owner, write("code", "", code="def run(): return 1", executable=True, price=2))
        await until_all_is_done(running, owner, 1)
        append(run, invoke)
        for attempt in range(1, 4):
            await past_all_waits(running)
            assert asleep.acquire(timeout=60.0)
            append(owner, write("note", "x" * attempt))
            await settle(running)
            assert len(results(owner)) == 1 + attempt, "the write is done while the code sleeps"
            woken.release()
            threads[-1].join()
        await until_all_is_done(running, run, 1)
        ((result, scrip),) = await running.rows(
            "select result, scrip_after from actions where principal = 'sleeper'"
        )
        came = json.loads(str(result))
        assert (came["error_code"], came["retriable"], scrip) == ("conflict", True, 10)
        assert came["resources_consumed"] == {"cpu_seconds": 0.75}, "each attempt is charged"
        assert len(threads) == 1 + 3, "the first one checked the code"


class Unsure:
    """Works an action out, but fails the first times with these errors, after the code ran for a while."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = [*errors]

    def __call__(self, action: ActedWithCode) -> Worked | Unable:
        if "write_artifact" in action.event.text:
            return Unable("its code is not checked")
        if self._errors:
            raise NotWorkedOut(self._errors.pop(0), 0.25)
        return failed("killed", "as if")._replace(cpu_s=0.5)


def test_what_can_not_be_worked_out_is_said_once_each_time_and_its_cpu_time_is_charged_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=AtOnce))
    actions = ActionsWithCode(Unsure(sqlite3.OperationalError("disk I/O error"), ValueError("a bug")))
    first = asked("r1", "a")
    for raised in (TryLater, ValueError):
        assert actions.answer(first) == Running(0.0)
        with pytest.raises(raised):
            actions.answer(first)
    assert actions.answer(first) == Running(0.0)
    acted = actions.answer(first)
    assert isinstance(acted, Acted)
    assert (acted.number, acted.cpu_s) == (1, 1.0)
    assert actions.ran(CodeOf(first.event.key)) == CodeRan(1.0)


async def test_an_action_that_runward_fails_at_is_held_and_paid_once_when_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=AtOnce))
    code, times = StandIn(tmp_path / "state"), 0

    def executed(job: Job, executor: Executor, cpu: CpuTime, deadline: float, take: object) -> Execution:
        nonlocal times
        times += job.defines is None
        ended = usual(job, executor, cpu, deadline, take)
        if times == 1 and job.defines is None:
            raise ValueError("a bug")
        return ended

    usual, code._execute = code._execute, executed  # type: ignore[method-assign] # a bug is put into it
    invoke = {"action_type": "invoke_artifact", "artifact_id": "code", "method": "run"}
    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), exchange=RULES, act_with_code=code.act
    ) as running:
        owner, _ = begin(tmp_path, "owner", "writer"), begin(tmp_path, "idle", "reader", scrip=10)
        append(owner, write("code", "", code="done 0.1", executable=True, price=2))
        await until_all_is_done(running, owner, 1)
        ask(running, ActionRequested("r1", 1.0, "reader", json.dumps(invoke)))
        append(owner, write("other", ""))
        await until_all_is_done(running, owner, 2)
        await past_all_waits(running)
        ((job, error),) = await running.rows("select id, error from jobs where state = 'held'")
        assert "a bug" in str(error)
        held = so_far(running, "r1")
        assert held is not None
        assert f"job {as_int(job)} is held" in str(held["message"])
        assert (held["error_code"], await running.rows("select 1 from actions where key = 'r1'")) == (
            "internal_error",
            [],
        )
        ask(running, JobRetryRequested("again", 1.0, as_int(job), "ann"))
        await past_all_waits(running)
        done = so_far(running, "r1")
        assert done is not None
        assert done["success"]
        assert await running.rows("select scrip_after from actions where key = 'r1'") == [(8,)]
        charged = await running.rows("select seconds from cpu_use where principal = 'reader'")
        assert [as_float(seconds) for (seconds,) in charged] == [pytest.approx(0.2)], "both times"
        assert await running.rows("select count(*) from ledger_entries where giver = 'reader'") == [(1,)]


async def test_an_intent_that_is_given_up_has_no_result_and_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=AtOnce))
    work = Unsure(ValueError("a bug"))
    async with daemon(tmp_path, StillClock(), ToldProcesses(), exchange=RULES, act_with_code=work) as running:
        run = begin(tmp_path, "run", "writer")
        invoke: dict[str, JsonValue] = {
            "action_type": "invoke_artifact",
            "artifact_id": "code",
            "method": "run",
        }
        code = write("code", "", code="done 0.1", executable=True, price=0)
        append(run, code, invoke, {"action_type": "noop"})
        finish(run)
        await past_all_waits(running)
        ((job,),) = await running.rows("select id from jobs where state = 'held'")
        ask(running, JobDiscardRequested("give-up", 1.0, as_int(job), "it fails", "ann"))
        await past_all_waits(running)
        assert [each["line"] for each in results(run)] == [1, 3]
        assert await running.rows("select line, told, state from intent_files") == [(3, 3, "read")]
        owed = f"select {NOTHING_OWED.replace('?2', '0')} from sessions s"
        assert await running.rows(owed) == [(1,)]


def ask(running: Daemon, request: ActionRequested | JobDiscardRequested | JobRetryRequested) -> None:
    put(running.state, request.request, dump_request(request))
    running.supervisor.assembly.worker.inbox_waits = True


async def past_all_waits(running: Daemon) -> None:
    for _ in range(10):
        await settle(running)
        running.clock.move(0.25)
        running.supervisor.assembly.queue.may_be_due = True


def so_far(running: Daemon, key: str) -> dict[str, JsonValue] | None:
    with closing(sqlite3.connect(running.state / "runward.db")) as connection:
        return result_so_far(connection, key)


@pytest.mark.parametrize("step", [-86_400.0, 86_400.0])
async def test_a_window_of_cpu_time_is_not_longer_or_shorter_because_the_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=AtOnce))
    code = StandIn(tmp_path / "state")
    invoke: dict[str, JsonValue] = {"action_type": "invoke_artifact", "artifact_id": "code", "method": "run"}
    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), exchange=RULES, act_with_code=code.act
    ) as running:
        run = begin(tmp_path, "run", "writer")
        append(run, write("code", "", code="done 1.0", executable=True, price=0), invoke)
        await until_all_is_done(running, run, 2)
        running.clock.wall += step
        append(run, invoke)
        await until_all_is_done(running, run, 3)
        running.clock.move(60.0)
        append(run, invoke)
        await until_all_is_done(running, run, 4)
        came = [each["result"].get("error_code") for each in results(run)]  # type: ignore[union-attr] # objects
        assert came == [None, None, "rate_limited", None]
