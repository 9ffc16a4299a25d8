"""Workers that are started in advance: each is used once, and none is left."""

import errno
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from tests.daemon.sandbox.machine import children
from tests.waiting import PATIENCE_S, wait_for

from runward.config.exchange import Executor
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Job, ReadyWorkers, Worker, execute

USUAL = Executor(workers=2)
LEAVES = Job("import sys\ndef run():\n    was, sys.left = hasattr(sys, 'left'), 1\n    return was", [])


@pytest.fixture
def ready() -> Iterator[ReadyWorkers]:
    """Skips where this machine has no sandbox."""
    try:
        Worker(USUAL).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")
    before = children()
    ready = ReadyWorkers()
    yield ready
    ready.close()
    assert children() <= before


def wait_for_two(ready: ReadyWorkers) -> None:
    wait_for(lambda: ready.count == 2, "two workers are ready", 20.0)


def test_as_many_wait_as_may_run_and_each_is_used_once(ready: ReadyWorkers) -> None:
    for _ in range(5):
        assert execute(LEAVES, USUAL, take=ready.take).result is False
        wait_for_two(ready)


def test_their_start_is_charged_to_nobody(ready: ReadyWorkers) -> None:
    before = used_by_children()
    execute(LEAVES, USUAL)
    with_start = used_by_children() - before
    ready.take(USUAL).close()
    wait_for_two(ready)
    assert execute(LEAVES, USUAL, take=ready.take).cpu_s < with_start / 3


def used_by_children() -> float:
    """Seconds of processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_one_that_died_while_it_waited_is_not_used_and_told(ready: ReadyWorkers) -> None:
    died: list[str] = []
    ready._died = died.append
    before = children()
    ready.take(USUAL).close()
    wait_for_two(ready)
    for each in children() - before:
        os.kill(each, signal.SIGKILL)
    wait_for(lambda: all(_is_zombie(each) for each in children() - before), "they are dead", 10.0)
    assert execute(LEAVES, USUAL, take=ready.take).result is False
    assert died == ["it ended while it waited for code"] * 2


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_other_settings_get_workers_of_their_own(ready: ReadyWorkers) -> None:
    ready.take(USUAL).close()
    wait_for_two(ready)
    other = USUAL._replace(preloaded_imports=("statistics",))
    assert execute(Job("def run(): return statistics.mean([1, 3])", []), other, take=ready.take).result == 2


def test_nobody_waits_when_no_code_ran_for_a_while() -> None:
    try:
        Worker(USUAL).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")
    before = children()
    ready = ReadyWorkers(idle_s=0.5)
    ready.take(USUAL).close()
    wait_for(lambda: not ready.count and children() <= before, "all of them end", 20.0)
    assert (ready.count, children() - before) == (0, set())
    ready.close()


class Pretended:
    """A worker that is no process. Its end takes until somebody lets it end."""

    may_end, ends = threading.Event(), threading.Event()
    refusal: OSError | None = None

    def __init__(self, executor: Executor) -> None:
        self.has_died = self.is_closed = False

    @property
    def is_waiting(self) -> bool:
        if self.refusal is not None:
            raise self.refusal
        return True

    def close(self) -> None:
        self.ends.set()
        assert self.may_end.wait(PATIENCE_S)
        self.is_closed = True


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> type[Pretended]:
    class Fresh(Pretended):
        may_end, ends = threading.Event(), threading.Event()

    monkeypatch.setattr("runward.daemon.sandbox.workers.Worker", Fresh)
    return Fresh


def test_a_worker_whose_end_takes_long_holds_up_nobody(pretended: type[Pretended]) -> None:
    ready = ReadyWorkers(idle_s=0.2)
    ready.take(USUAL)
    assert pretended.ends.wait(PATIENCE_S), "those that nobody asked for in a while end"
    taken: list[Worker] = []
    taking = threading.Thread(target=lambda: taken.append(ready.take(USUAL)), daemon=True)
    taking.start()
    taking.join(5.0)
    is_taken = bool(taken)
    pretended.may_end.set()
    ready.close()
    assert is_taken


def test_each_one_that_is_taken_is_followed_by_another(
    pretended: type[Pretended], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended.may_end.set()
    ready = ReadyWorkers()
    ready.take(USUAL)
    wait_for_two(ready)
    take_one = ReadyWorkers._alive

    def take_one_later(ready: ReadyWorkers, executor: Executor) -> Worker | None:
        # As on a slow machine: the thread that starts them has looked by then whether one is missing.
        time.sleep(0.05)
        return take_one(ready, executor)

    monkeypatch.setattr(ReadyWorkers, "_alive", take_one_later)
    ready.take(USUAL)
    wait_for_two(ready)
    ready.close()


def test_one_whose_limits_can_not_be_compared_is_ended(pretended: type[Pretended]) -> None:
    pretended.may_end.set()
    ready = ReadyWorkers()
    ready.take(USUAL)
    wait_for_two(ready)
    waiting = list(ready._ready[USUAL])
    pretended.refusal = OSError(errno.EMFILE, "none is left")
    taken = ready.take(USUAL)
    pretended.refusal = None
    ready.close()
    assert [isinstance(each, Pretended) and each.is_closed for each in waiting] == [True, True]
    assert taken not in waiting


def test_a_thread_that_could_not_be_started_is_started_by_the_next(
    pretended: type[Pretended], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended.may_end.set()
    ready = ReadyWorkers()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert isinstance(ready.take(USUAL), Pretended)
    assert isinstance(ready.take(USUAL), Pretended)
    wait_for_two(ready)
    ready.close()
